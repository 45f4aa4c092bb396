"""Context of a search: this device, a folder for its files, a process that makes variants, and its messages."""

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from edgeopt.events import Emit
from edgeopt.hw.device import Device
from edgeopt.hw.probe import probe
from edgeopt.measure.contender import Contender
from edgeopt.measure.instruments.energy import EnergyMeter
from edgeopt.pipeline.builders.variants import BuildWorker
from edgeopt.pipeline.notes import SearchNotes
from edgeopt.pipeline.runner import TrialRunner
from edgeopt.pipeline.stopping import StopControl
from edgeopt.workers.host import LocalHost


@dataclass(frozen=True, slots=True)
class SearchContext:
    device: Device
    runner: TrialRunner
    builder: BuildWorker
    """Worker that makes variants; starts at once, because it imports for a second."""
    notes: SearchNotes


@dataclass(frozen=True, slots=True)
class SearchResources:
    """Resources of races and proofs besides the search itself: processes, messages, stop requests, a meter."""

    runner: TrialRunner
    notes: SearchNotes
    ending: StopControl
    baseline: Contender
    """Baseline contender, which runs as long as the search."""
    meter: EnergyMeter | None = None
    """Energy meter of a search for the least energy."""

    @property
    def emit(self) -> Emit:
        return self.notes.emit


def open_context(folder: Path, stack: ExitStack, emit: Emit) -> SearchContext:
    """Starts the context of a search; all its processes end with the stack."""
    runner = TrialRunner(LocalHost(folder), folder, folder / "samples")
    builder = BuildWorker(runner.host)
    stack.callback(builder.client.close)
    return SearchContext(probe(), runner, builder, SearchNotes(emit))
