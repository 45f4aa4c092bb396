"""Where a search runs: this device, a folder for its files, a process that makes variants, and whom it tells."""

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from edgeopt.events import Emit
from edgeopt.hw.device import Device
from edgeopt.hw.probe import probe
from edgeopt.measure.host import LocalHost
from edgeopt.pipeline.build.variants import Maker
from edgeopt.pipeline.notes import Notes
from edgeopt.pipeline.race.ground import Ground


@dataclass(frozen=True, slots=True)
class Place:
    device: Device
    ground: Ground
    maker: Maker
    """It starts at once, because it imports for a second."""
    notes: Notes


def placed(folder: Path, stack: ExitStack, emit: Emit) -> Place:
    """All that it starts ends with the stack."""
    ground = Ground(LocalHost(folder), folder, folder / "samples")
    maker = Maker(ground.host)
    stack.callback(maker.close)
    return Place(probe(), ground, maker, Notes(emit))
