"""What a preparation gives back."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from edgeopt.backends.base import Array
from edgeopt.graph.ledger import Change, Refusal

if TYPE_CHECKING:
    import onnx_ir as ir


@dataclass(frozen=True, slots=True)
class Prepared:
    model: "ir.Model"
    """A copy; what was given stays as it is."""
    changes: tuple[Change, ...]
    refused: tuple[Refusal, ...]
    numbers: Mapping[str, Array] = field(default_factory=dict)
    """By node, with what the model was changed: enough to do it again without data."""
