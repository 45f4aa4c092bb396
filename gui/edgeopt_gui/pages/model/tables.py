"""The columns of the page's tables."""

from dataclasses import dataclass
from typing import Literal

from edgeopt.graph.analysis import Analysis, NodeRow, Tensor, WeightRow
from edgeopt_gui import units
from edgeopt_gui.pages.model.words import operator_key, shape_text
from edgeopt_gui.widgets.records import Column


@dataclass(frozen=True, slots=True)
class Port:
    role: Literal["input", "output"]
    tensor: Tensor


@dataclass(frozen=True, slots=True)
class Weight:
    place: int
    row: WeightRow
    share: float
    """Of all weights of the model, in bytes."""


def ports(analysis: Analysis) -> tuple[Port, ...]:
    inputs = tuple(Port("input", tensor) for tensor in analysis.inputs)
    return (*inputs, *(Port("output", tensor) for tensor in analysis.outputs))


def weights(analysis: Analysis) -> tuple[Weight, ...]:
    total = analysis.weights_bytes or 1
    return tuple(Weight(k, row, row.size_bytes / total) for k, row in enumerate(analysis.weights))


def searched(node: NodeRow) -> str:
    """What the search looks into: names of tensors too, so that it finds who makes and who reads one."""
    tensors = (tensor.name for side in (node.inputs, node.outputs) for tensor in side)
    return "\n".join((node.operator, node.domain, node.inside, node.name, *tensors))


def _output(node: NodeRow) -> str:
    return shape_text(node.outputs[0]) if node.outputs else ""


PORT_COLUMNS: tuple[Column[Port], ...] = (
    Column("", lambda port: port.role),
    Column("Name", lambda port: port.tensor.name, tip=lambda port: port.tensor.name, stretch=True),
    Column("Type", lambda port: port.tensor.dtype or "?"),
    Column("Shape", lambda port: shape_text(port.tensor), tip=lambda port: shape_text(port.tensor)),
)

NODE_COLUMNS: tuple[Column[NodeRow], ...] = (
    Column("#", lambda node: node.position, align="right", title_tip="The place in the graph"),
    Column("Operator", lambda node: operator_key(node.operator, node.domain)),
    Column(
        "Name",
        lambda node: f"{node.inside}/{node.name}" if node.inside else node.name,
        tip=lambda node: node.name,
        stretch=True,
    ),
    Column("Output", _output, tip=_output, title_tip="The shape of the first output"),
    Column(
        "Weights",
        lambda node: node.weights_bytes or None,
        text=lambda node: units.size(node.weights_bytes) if node.weights_bytes else "",
        align="right",
        title_tip="A weight that several nodes read counts at each of them",
    ),
)

WEIGHT_COLUMNS: tuple[Column[Weight], ...] = (
    Column("Name", lambda each: each.row.name, tip=lambda each: each.row.file or each.row.name, stretch=True),
    Column("Type", lambda each: each.row.dtype),
    Column("Shape", lambda each: str(list(each.row.shape))),
    Column(
        "Size",
        lambda each: each.row.size_bytes,
        text=lambda each: units.size(each.row.size_bytes),
        align="right",
    ),
    Column("Share", lambda each: each.share, text=lambda each: f"{each.share:.1%}", align="right"),
)
