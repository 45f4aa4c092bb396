"""Where a search runs: this device, a folder for its files, a process that makes variants, and whom it tells."""

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from edgeopt.events import Emit
from edgeopt.hw.device import Device
from edgeopt.hw.probe import probe
from edgeopt.measure.contender import Contender
from edgeopt.measure.instruments.energy import EnergyMeter
from edgeopt.pipeline.build.variants import BuildWorker
from edgeopt.pipeline.notes import SearchNotes
from edgeopt.pipeline.race.ground import TrialRunner
from edgeopt.pipeline.stopping import StopControl
from edgeopt.workers.host import LocalHost


@dataclass(frozen=True, slots=True)
class SearchContext:
    device: Device
    ground: TrialRunner
    builder: BuildWorker
    """It starts at once, because it imports for a second."""
    notes: SearchNotes


@dataclass(frozen=True, slots=True)
class SearchResources:
    """What races and proofs use besides the search itself: processes, listeners, stop requests, and a meter."""

    ground: TrialRunner
    notes: SearchNotes
    ending: StopControl
    baseline: Contender
    """It runs as long as the search."""
    meter: EnergyMeter | None = None
    """Of a search for the least energy."""

    @property
    def emit(self) -> Emit:
        return self.notes.emit


def placed(folder: Path, stack: ExitStack, emit: Emit) -> SearchContext:
    """All that it starts ends with the stack."""
    ground = TrialRunner(LocalHost(folder), folder, folder / "samples")
    builder = BuildWorker(ground.host)
    stack.callback(builder.client.close)
    return SearchContext(probe(), ground, builder, SearchNotes(emit))
