"""Where a search runs: this device, a folder for its files, a process that makes variants, and whom it tells."""

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from edgeopt.events import Emit
from edgeopt.hw.device import Device
from edgeopt.hw.probe import probe
from edgeopt.search.making.variants import BuildWorker
from edgeopt.search.notes import Notes
from edgeopt.search.racing.ground import Ground
from edgeopt.workers.host import LocalHost


@dataclass(frozen=True, slots=True)
class Place:
    device: Device
    ground: Ground
    builder: BuildWorker
    """It starts at once, because it imports for a second."""
    notes: Notes


def placed(folder: Path, stack: ExitStack, emit: Emit) -> Place:
    """All that it starts ends with the stack."""
    ground = Ground(LocalHost(folder), folder, folder / "samples")
    builder = BuildWorker(ground.host)
    stack.callback(builder.client.close)
    return Place(probe(), ground, builder, Notes(emit))
