"""Where a search runs: this device, a folder for its files, a process that makes variants, and whom it tells."""

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from edgeopt.events import Emit
from edgeopt.hw.device import Device
from edgeopt.hw.probe import probe
from edgeopt.measure.host import LocalHost
from edgeopt.pipeline.build.variants import BuildWorker
from edgeopt.pipeline.notes import SearchNotes
from edgeopt.pipeline.race.ground import TrialRunner


@dataclass(frozen=True, slots=True)
class SearchContext:
    device: Device
    ground: TrialRunner
    maker: BuildWorker
    """It starts at once, because it imports for a second."""
    notes: SearchNotes


def placed(folder: Path, stack: ExitStack, emit: Emit) -> SearchContext:
    """All that it starts ends with the stack."""
    ground = TrialRunner(LocalHost(folder), folder, folder / "samples")
    maker = BuildWorker(ground.host)
    stack.callback(maker.close)
    return SearchContext(probe(), ground, maker, SearchNotes(emit))
