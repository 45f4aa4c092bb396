"""How much of a run each provider or device takes, where parts of a model fell back."""

from contextlib import closing
from pathlib import Path

import msgspec

from edgeopt.errors import TrialError
from edgeopt.events import Emit, Progress
from edgeopt.measure.contender import Side, ask, load_patience_s
from edgeopt.measure.host import LocalHost
from edgeopt.measure.messages import Placed, Places
from edgeopt.measure.report import SideReport


def with_times(
    reports: tuple[SideReport, ...], sides: list[Side], folder: Path, emit: Emit
) -> tuple[SideReport, ...]:
    """The reports, with times in the placement of each side that fell back in part."""
    return tuple(_timed(report, side, folder, emit) for report, side in zip(reports, sides, strict=True))


def _timed(report: SideReport, side: Side, folder: Path, emit: Emit) -> SideReport:
    placement = report.placement
    if placement is None or not placement.fallen:
        return report
    emit(Progress("timing what fell back", side.name))
    with closing(LocalHost(folder).start()) as child:
        try:
            answer = ask(child, Places(side.load), load_patience_s(side.load))
        except TrialError:
            return report  # the figures stand without it
    if not isinstance(answer, Placed) or not answer.time_ms:
        return report
    return msgspec.structs.replace(report, placement=msgspec.structs.replace(placement, time_ms=answer.time_ms))
