"""How operands are drawn for quantized pieces, as runtimes' quantizers write them and a little beside."""

import numpy as np
from onnx import TensorProto

from tests.differential.growing import Graph, UnfitError

SCALES = (0.02, 0.5, 1.0, 1e-3, 1e-10, 1 + 1e-6)
ZERO_POINTS = {np.uint8: (0, 128, 255, 3), np.int8: (0, 1, -128, 127)}


def _scale(g: Graph, *shape: int) -> str:
    return g.array(np.full(shape, g.pick(*SCALES), np.float32))


def _zero_point(g: Graph, dtype: type, *shape: int) -> str:
    return g.array(np.full(shape, g.pick(*ZERO_POINTS[dtype]), dtype))


def _type(g: Graph) -> type:
    return g.pick(np.uint8, np.int8)  # type: ignore[no-any-return]


def quantize(g: Graph, kind: str) -> None:
    """There and back, by one scale or one for each channel; sometimes back by another scale, or twice."""
    x = g.value(2, 3, 4)
    dtype = _type(g)
    for _ in range(g.number(1, 2)):
        per_axis = g.sometimes(3)
        shape = (g.shape(x)[1],) if per_axis else ()
        more = {"axis": 1} if per_axis else {}
        scale, zero = _scale(g, *shape), _zero_point(g, dtype, *shape)
        y = g.op("QuantizeLinear", x, scale, zero, **more)
        if g.sometimes(4):
            y = (
                g.op(g.pick("Identity", "Transpose", "Flatten", "MaxPool"), y)
                if not per_axis and len(g.shape(y)) < 4
                else y
            )
        if g.sometimes(4):
            scale, zero = _scale(g, *shape), _zero_point(g, dtype, *shape)
        x = g.op("DequantizeLinear", y, scale, zero, **more)


def dequantized_weight(g: Graph, kind: str) -> None:
    """A product with a weight that is kept in eight bits, one scale for each of its columns."""
    x = g.value(2, 3)
    size_out = g.pick(2, 4)
    weight = g.array(g.random.integers(-127, 128, (g.shape(x)[-1], size_out)).astype(np.int8))
    shape = (size_out,) if g.pick(True, False) else ()
    scale = g.array(g.random.uniform(0.01, 0.02, shape).astype(np.float32))
    zero = [_zero_point(g, np.int8, *shape)] if g.pick(True, False) else []
    y = g.op("MatMul", x, g.op(kind, weight, scale, *zero, **({"axis": 1} if shape else {})))
    if g.sometimes(3):
        g.op("Add", y, g.weight(size_out))


def dynamic(g: Graph, kind: str) -> None:
    """Quantized as it comes, multiplied as integers, and brought back."""
    x = g.value(2, 3)
    y, scale, zero = g.op("DynamicQuantizeLinear", x, outputs=3)
    if kind == "DynamicQuantizeLinear":
        g.op("DequantizeLinear", y, scale, zero)
        return
    weight = g.array(g.random.integers(-127, 128, (g.shape(x)[-1], 3)).astype(np.int8))
    more = [zero, *([g.array(np.array(g.pick(0, 1), np.int8))] if g.pick(True, False) else [])]
    product = g.op("Cast", g.op("MatMulInteger", y, weight, *more), to=TensorProto.FLOAT)
    g.op("Mul", product, g.op("Mul", scale, g.scalar(0.02)))


def quantized_layer(g: Graph, kind: str) -> None:
    """QLinearMatMul, QLinearConv and ConvInteger between a QuantizeLinear and its inverse."""
    x = g.value(*((4,) if "Conv" in kind else (2, 3)))
    dtype = np.uint8
    scale, zero = g.array(np.array(0.05, np.float32)), _zero_point(g, dtype)
    y = g.op("QuantizeLinear", x, scale, zero)
    channels = g.shape(x)[1] if "Conv" in kind else g.shape(x)[-1]
    shape = (2, channels, 2, 2) if "Conv" in kind else (channels, 3)
    if min(g.shape(x)[2:], default=2) < 2:
        raise UnfitError
    weight = g.array(g.random.integers(-127, 128, shape).astype(np.int8))
    if kind == "ConvInteger":
        g.op("Cast", g.op(kind, y, weight, zero), to=TensorProto.FLOAT)
        return
    weight_scale, weight_zero = g.array(np.array(0.01, np.float32)), g.array(np.array(0, np.int8))
    out_scale, out_zero = g.array(np.array(g.pick(0.1, 0.02), np.float32)), _zero_point(g, dtype)
    bias = (
        [g.array(g.random.integers(-500, 500, 2).astype(np.int32))]
        if kind == "QLinearConv" and g.pick(True, False)
        else []
    )
    z = g.op(kind, y, scale, zero, weight, weight_scale, weight_zero, out_scale, out_zero, *bias)
    g.op("DequantizeLinear", z, out_scale, out_zero)
