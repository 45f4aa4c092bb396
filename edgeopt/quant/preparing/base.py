"""What a preparation gives back."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgeopt.graph.ledger import Change, Refusal

if TYPE_CHECKING:
    import onnx_ir as ir


@dataclass(frozen=True, slots=True)
class Prepared:
    model: "ir.Model"
    """A copy; what was given stays as it is."""
    changes: tuple[Change, ...]
    refused: tuple[Refusal, ...]
