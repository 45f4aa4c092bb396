"""How near a run came to the best that this device could do: its measured peaks (`edgeopt probe --deep`)."""

from edgeopt.commands.ops.case import Precision
from edgeopt.graph.analysis.roofline import HINT, least
from edgeopt.hw.device import Device

__all__ = ["HINT", "least_us"]


def least_us(device: Device, precision: Precision, threads: int, operations: int, moved_bytes: int) -> float | str:
    """The shortest time that the peaks allow for a run, or why that cannot be told."""
    found = least(device, precision, threads, operations, moved_bytes)
    return found if isinstance(found, str) else found.time_s * 1e6
