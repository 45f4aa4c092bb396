"""What a form is: one way to compute a layer in fewer bits."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from edgeopt.backends.base import Array
from edgeopt.graph.ledger import Change
from edgeopt.quant.records import Layer, QuantSettings, Range

if TYPE_CHECKING:
    import onnx_ir as ir


@dataclass(frozen=True, slots=True)
class Smoothing:
    """Factors by which a layer's activations are divided and its weights multiplied, channel by channel."""

    tensor: str
    """What the divided activations are called; equal names have equal factors, and ranges know them by it."""
    factors: Array


@dataclass(frozen=True, slots=True)
class SchemeContext:
    """What writing and simulating a form needs besides the layer."""

    backend: str
    settings: QuantSettings
    ranges: Mapping[str, Range] = field(default_factory=dict)
    """By tensor; a form with `needs_ranges` finds there what its layers read, and what they give."""
    weights: Mapping[str, Array] = field(default_factory=dict)
    """Weights that preparation has changed (equalized, rounded by learning), by name; or else the model's own."""
    smoothing: Mapping[str, Smoothing] = field(default_factory=dict)
    """By layer; forms that smooth use it."""


@dataclass(frozen=True, slots=True)
class Scheme:
    """One way to compute layers; `write` and `simulate` change the graph that they are given."""

    name: str
    title: str
    operators: tuple[str, ...]
    backends: tuple[str, ...]
    """Where it computes in fewer bits; elsewhere it may run, and is no faster."""
    lowest_opset: int
    needs_ranges: bool
    fits: Callable[[Layer, SchemeContext], str]
    """Why it does not fit a layer, as the end of a sentence; empty where it does."""
    write: "Callable[[ir.Model, tuple[Layer, ...], SchemeContext], tuple[Change, ...]]"
    """Gives these layers the form, as the backend wants it written."""
    fake_weights: Callable[[Array, Layer, SchemeContext], Array]
    """The weights as floats, with the values that the form can hold."""
    fake_input: "Callable[[ir.Graph, ir.Node, ir.Value, Layer, SchemeContext], ir.Value]"
    """Inserts nodes before a node that give one of its inputs the values that the form can hold; from opset 17.

    Run it with the session entry `session.disable_quant_qdq` = 1: otherwise ONNX Runtime rounds weights after a
    DequantizeLinear to eight bits itself (WeightBiasQuantization).
    """
    fake_output: "Callable[[ir.Graph, ir.Node, ir.Value, Layer, SchemeContext], ir.Value] | None" = None
    """The same behind a node, for a form that on the backend gives its results in few bits too (ONNX Runtime's
    convolutions do): takes what the node gives, before a Relu or Clip behind it, and gives it back as it is where
    the backend gives floats. None: the form always gives floats."""
    smooths: bool = False
    """It evens out the channels of activations where the context says how."""
