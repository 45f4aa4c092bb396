"""The definition of a scheme: one way to compute a layer in fewer bits."""

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
    """Name of the divided activations, by which their range is found; equal names have equal factors."""
    factors: Array


@dataclass(frozen=True, slots=True)
class SchemeContext:
    """The inputs that writing and simulating a scheme need besides the layer."""

    backend: str
    settings: QuantSettings
    ranges: Mapping[str, Range] = field(default_factory=dict)
    """Ranges by tensor; a scheme with `needs_ranges` requires those of its layers' inputs and outputs."""
    weights: Mapping[str, Array] = field(default_factory=dict)
    """Weights that preparation changed (equalized, rounded by learning), by name; others are the model's own."""
    smoothing: Mapping[str, Smoothing] = field(default_factory=dict)
    """Smoothing by layer, for schemes with `smooths`."""


@dataclass(frozen=True, slots=True)
class Scheme:
    """One way to compute layers; `write` and `simulate` modify the given graph."""

    name: str
    title: str
    operators: tuple[str, ...]
    backends: tuple[str, ...]
    """Backends that compute the scheme in fewer bits; others may run it without a speedup."""
    lowest_opset: int
    needs_ranges: bool
    fits: Callable[[Layer, SchemeContext], str]
    """Returns the reason that the scheme does not fit a layer, as the end of a sentence; empty if it does."""
    write: "Callable[[ir.Model, tuple[Layer, ...], SchemeContext], tuple[Change, ...]]"
    """Writes these layers in the scheme, in the form that the backend requires."""
    fake_weights: Callable[[Array, Layer, SchemeContext], Array]
    """Returns the weights as floats, rounded to the values that the scheme can represent."""
    fake_input: "Callable[[ir.Graph, ir.Node, ir.Value, Layer, SchemeContext], ir.Value]"
    """Inserts nodes before a node that round one of its inputs to the values that the scheme can represent; from
    opset 17.

    Run it with the session entry `session.disable_quant_qdq` = 1: otherwise ONNX Runtime rounds weights after a
    DequantizeLinear to eight bits itself (WeightBiasQuantization).
    """
    fake_output: "Callable[[ir.Graph, ir.Node, ir.Value, Layer, SchemeContext], ir.Value] | None" = None
    """Inserts such nodes behind a node, for a scheme that gives 8-bit results on the backend (ONNX Runtime's
    convolutions do). Takes the node's output, before a Relu or Clip behind it, and returns it unchanged if the
    backend gives floats. None: the scheme always gives floats."""
    smooths: bool = False
    """Whether the scheme evens out the channels of activations if the context has factors."""
