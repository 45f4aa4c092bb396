"""Writes a bundle that processes with the times of that, which only the written bundle can tell."""

from pathlib import Path

import msgspec

from edgeopt.bundle import write
from edgeopt.bundle.deployment import Deployment, Times
from edgeopt.bundle.facts import four_digits
from edgeopt.errors import TrialError
from edgeopt.events import Emit, Log, Progress
from edgeopt.measure.host import TrialHost
from edgeopt.measure.sides.stages import stage_times

_SECONDS = 0.5


def fill_timed(
    host: TrialHost,
    folder: Path,
    deployment: Deployment,
    documents: dict[str, object],
    record: bytes | None,
    emit: Emit,
) -> None:
    """As `write.fill`, into a folder that has model and golden samples already."""
    write.fill(folder, {}, deployment, documents, record)
    if deployment.processing is None:
        return
    emit(Progress("timing before and after", deployment.name))
    try:
        found = stage_times(host, folder, _SECONDS)
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
