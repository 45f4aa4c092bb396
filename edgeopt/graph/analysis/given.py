"""What is known about a model besides its file: the shapes to look at it with, and the device to judge it for."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from edgeopt.hw.device import Device


@dataclass(frozen=True, slots=True)
class Given:
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """The shapes of inputs that the user fixes."""
    real: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """The shapes of any tensors as they were in a run; they win over what inference says."""
    device: Device | None = None
    threads: int | None = None
    """The cores that a run may use; None: all that the device has for it."""
    large_weights: bool = False
    """Look at the numbers in the weights however large they are."""
