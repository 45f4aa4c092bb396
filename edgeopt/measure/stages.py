"""Times of the processing before and after a model, beside its inference."""

from contextlib import closing
from pathlib import Path

import msgspec

from edgeopt.bundle import write
from edgeopt.bundle.deployment import Deployment, Times, four_digits
from edgeopt.bundle.read import is_bundle, read_bundle
from edgeopt.errors import TrialError
from edgeopt.events import Emit, Log, Progress
from edgeopt.measure.contender import Side, ask, failed, load_patience_s
from edgeopt.measure.messages import Load, Staged, StageTimes, TimeStages
from edgeopt.measure.report import SideReport
from edgeopt.workers.host import LocalHost, TrialHost

_SECONDS = 1.0
_BUNDLE_SECONDS = 0.5


def with_stages(
    reports: tuple[SideReport, ...], sides: list[Side], folder: Path, emit: Emit
) -> tuple[SideReport, ...]:
    """Returns the reports, with processing times for each bundle that has pre- or postprocessing."""
    return tuple(_staged(report, side, folder, emit) for report, side in zip(reports, sides, strict=True))


def stage_times(host: TrialHost, bundle: Path, seconds: float = _SECONDS) -> StageTimes:
    """Times a bundle's stages in a process of its own; raises TrialError if that fails."""
    place = host.put(bundle)
    with closing(host.start()) as child:
        patience_s = load_patience_s(Load("bundle", place, {}, "")) + 10 * seconds
        answer = ask(child, TimeStages(place, seconds), patience_s)
    if not isinstance(answer, Staged):
        raise failed(answer)
    return answer.times


def _staged(report: SideReport, side: Side, folder: Path, emit: Emit) -> SideReport:
    path = Path(side.subject)
    if side.kind != "bundle" or report.failure or not is_bundle(path):
        return report
    if read_bundle(path).deployment.processing is None:
        return report
    emit(Progress("timing before and after", side.name))
    try:
        return msgspec.structs.replace(report, stages=stage_times(LocalHost(folder), path))
    except TrialError as error:
        emit(Log("warning", f"The processing of '{side.name}' could not be timed: {error.message}"))
        return report


def fill_timed(
    host: TrialHost,
    folder: Path,
    deployment: Deployment,
    documents: dict[str, object],
    record: bytes | None,
    emit: Emit,
) -> None:
    """Fills a bundle's folder by `write.fill`, adding processing times; model and golden samples are there."""
    write.fill(folder, {}, deployment, documents, record)
    if deployment.processing is None:
        return
    emit(Progress("timing before and after", deployment.name))
    try:
        found = stage_times(host, folder, _BUNDLE_SECONDS)
    except TrialError as error:
        emit(Log("warning", f"The pre- and postprocessing could not be timed: {error.message}"))
        return
    times = Times(
        four_digits(found.inference_ms), found.runs, *(_digits(ms) for ms in (found.pre_ms, found.post_ms))
    )
    processing = msgspec.structs.replace(deployment.processing, times=times)
    timed = msgspec.structs.replace(deployment, processing=processing)
    write.fill(folder, {}, timed, documents, record)


def _digits(value: float | None) -> float | None:
    return None if value is None else four_digits(value)
