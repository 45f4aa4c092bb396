"""How a form divides the activations of a layer by the factors that even out their channels; see `smoothing`."""

from typing import TYPE_CHECKING

import numpy as np

from edgeopt.backends.base import Array
from edgeopt.quant.forms.base import Smoothing
from edgeopt.quant.forms.writer import Writer
from edgeopt.quant.records import Layer

if TYPE_CHECKING:
    import onnx_ir as ir


def multiplied(weight: Array, layer: Layer, smoothing: Smoothing) -> Array:
    """The weights with what the activations were divided by."""
    along = smoothing.factors[:, None] if layer.channel_axis == 1 else smoothing.factors[None, :]
    return np.asarray(weight * along, np.float32)


def division(writer: Writer, value: "ir.Value", smoothing: Smoothing) -> "ir.Node":
    """A node that stands nowhere yet, and gives the activations evened out."""
    import onnx_ir as ir

    inverse = writer.constant(f"{smoothing.tensor}_factors", (1.0 / smoothing.factors).astype(np.float32))
    node = writer.node("Mul", (value, inverse), smoothing.tensor, like=value, kind=ir.DataType.FLOAT)
    node.outputs[0].name = smoothing.tensor  # by which its range is known
    return node
