"""Nets that look at a picture and name it, or name each of its points."""

import numpy as np
import onnx

from tests.families.exporter import Exporter
from tests.families.layers import (
    classifier,
    conv,
    conv_norm,
    hard_sigmoid,
    hard_swish,
    max_pool,
    norm,
    relu6,
    silu,
    squeeze_excite,
)

PICTURE = ["batch", 3, 32, 32]
CLASSES = ["batch", 10]


def _finish(g: Exporter, x: str, channels: int) -> onnx.ModelProto:
    logits = classifier(g, x, channels)
    return g.model({"input": PICTURE}, {g.named(logits, "output"): CLASSES})


def resnet() -> onnx.ModelProto:
    """Bottlenecks of 1x1, 3x3 and 1x1, each with a batch normalization that the exporter left as it was."""
    g = Exporter(13, seed=10)
    x = max_pool(g, g.op("Relu", conv_norm(g, "input", (3, 8), 7, stride=2)), 3, 2, 1)
    for size_in, size_out, stride in ((8, 16, 1), (16, 16, 1), (16, 32, 2)):
        inner = size_out // 4
        y = g.op("Relu", conv_norm(g, x, (size_in, inner), 1))
        y = g.op("Relu", conv_norm(g, y, (inner, inner), 3, stride=stride))
        y = conv_norm(g, y, (inner, size_out), 1)
        if size_in != size_out or stride != 1:
            x = conv_norm(g, x, (size_in, size_out), 1, stride=stride)
        x = g.op("Relu", g.op("Add", y, x))
    return _finish(g, x, 32)


def mobilenet_v2() -> onnx.ModelProto:
    """Inverted residuals: wide in the middle, depthwise there, ReLU6 as a Clip with its bounds as inputs."""
    g = Exporter(12, seed=11)
    x = relu6(g, conv_norm(g, "input", (3, 8), 3, stride=2))
    for size_in, size_out, stride in ((8, 8, 1), (8, 16, 2), (16, 16, 1)):
        wide = size_in * 4
        y = relu6(g, conv_norm(g, x, (size_in, wide), 1))
        y = relu6(g, conv_norm(g, y, (wide, wide), 3, stride=stride, groups=wide))
        y = conv_norm(g, y, (wide, size_out), 1)
        x = g.op("Add", x, y) if size_in == size_out and stride == 1 else y
    return _finish(g, relu6(g, conv_norm(g, x, (16, 32), 1)), 32)


def mobilenet_v3() -> onnx.ModelProto:
    """Hard activations spelled out in Add, Clip, Div and Mul; squeeze and excitation between."""
    g = Exporter(12, seed=12)
    x = hard_swish(g, conv(g, "input", (3, 8), 3, stride=2))
    for size_in, size_out, side, stride in ((8, 8, 3, 1), (8, 16, 5, 2), (16, 16, 5, 1)):
        wide = size_in * 3
        y = hard_swish(g, conv(g, x, (size_in, wide), 1))
        y = hard_swish(g, conv(g, y, (wide, wide), side, stride=stride, groups=wide))
        y = squeeze_excite(g, y, wide, 8, hard_sigmoid, lambda g, v: g.op("Relu", v))
        y = conv(g, y, (wide, size_out), 1)
        x = g.op("Add", y, x) if size_in == size_out and stride == 1 else y
    return _finish(g, hard_swish(g, conv(g, x, (16, 24), 1)), 24)


def efficientnet() -> onnx.ModelProto:
    """SiLU as Sigmoid and Mul, squeeze and excitation by ReduceMean, weights as inputs as TensorFlow's way is."""
    g = Exporter(13, seed=13)
    x = silu(g, conv_norm(g, "input", (3, 8), 3, stride=2))
    for size_in, size_out, stride in ((8, 8, 1), (8, 16, 2)):
        wide = size_in * 4
        y = silu(g, conv_norm(g, x, (size_in, wide), 1))
        y = silu(g, conv_norm(g, y, (wide, wide), 3, stride=stride, groups=wide))
        small = g.op("ReduceMean", y, axes=[2, 3], keepdims=1)
        gate = conv(g, silu(g, conv(g, small, (wide, 4), 1)), (4, wide), 1)
        y = conv_norm(g, g.op("Mul", g.op("Sigmoid", gate), y), (wide, size_out), 1)
        x = g.op("Add", y, x) if size_in == size_out and stride == 1 else y
    model = _finish(g, silu(g, conv_norm(g, x, (16, 32), 1)), 32)
    for weight in model.graph.initializer:
        model.graph.input.append(onnx.helper.make_tensor_value_info(weight.name, weight.data_type, weight.dims))
    return model


def densenet() -> onnx.ModelProto:
    """Normalization before each convolution, and Concats that grow."""
    g = Exporter(11, seed=14)
    x, channels = max_pool(g, g.op("Relu", conv_norm(g, "input", (3, 8), 3, stride=2))), 8
    for block in range(2):
        parts = [x]
        for _ in range(3):
            y = g.op("Concat", *parts, axis=1)
            y = conv(g, g.op("Relu", norm(g, y, channels)), (channels, 16), 1, bias=False)
            parts.append(conv(g, g.op("Relu", norm(g, y, 16)), (16, 4), 3, bias=False))
            channels += 4
        x = g.op("Concat", *parts, axis=1)
        if block == 0:
            x = conv(g, g.op("Relu", norm(g, x, channels)), (channels, channels // 2), 1, bias=False)
            x = g.op("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2], pads=[0, 0, 0, 0])
            channels //= 2
    return _finish(g, g.op("Relu", norm(g, x, channels)), channels)


def squeezenet() -> onnx.ModelProto:
    """Fire modules: two convolutions read the same, and a Concat joins them; a Dropout is left over."""
    g = Exporter(7, seed=15)
    x, channels = max_pool(g, g.op("Relu", conv(g, "input", (3, 8), 3, stride=2)), 3, 2), 8
    for small, wide in ((4, 8), (4, 8), (6, 12)):
        y = g.op("Relu", conv(g, x, (channels, small), 1))
        sides = [g.op("Relu", conv(g, y, (small, wide), side)) for side in (1, 3)]
        x, channels = g.op("Concat", *sides, axis=1), 2 * wide
    x = g.op("Relu", conv(g, g.op("Dropout", x, ratio=0.5), (channels, 10), 1))
    x = g.op("Flatten", g.op("GlobalAveragePool", x), axis=1)
    return g.model({"input": PICTURE}, {g.named(g.op("Softmax", x, axis=1), "output"): CLASSES})


def _double(g: Exporter, x: str, size_in: int, size_out: int) -> str:
    x = g.op("Relu", conv_norm(g, x, (size_in, size_out)))
    return str(g.op("Relu", conv_norm(g, x, (size_out, size_out))))


def _crop_like(g: Exporter, x: str, like: str) -> str:
    """Pads to the size of the skipped part by arithmetic on shapes; nothing is left to pad in the end."""
    wanted = [g.op("Sub", g.size(like, axis), g.size(x, axis)) for axis in (2, 3)]
    halves = [(g.op("Div", one, np.array(2, np.int64)), one) for one in wanted]
    before = [half for half, _ in halves]
    after = [g.op("Sub", one, half) for half, one in halves]
    pads = g.shape(0, 0, *before, 0, 0, *after)
    return str(g.op("Pad", x, pads, mode="constant"))


def unet() -> onnx.ModelProto:
    """Down and up again, once by a transposed convolution and once by Resize, with the skipped parts joined."""
    g = Exporter(13, seed=16)
    first = _double(g, "input", 3, 8)
    second = _double(g, max_pool(g, first), 8, 16)
    x = _double(g, max_pool(g, second), 16, 32)
    up = g.weight(32, 16, 2, 2, scale=0.2)
    x = g.op("ConvTranspose", x, up, g.weight(16, scale=0.1), kernel_shape=[2, 2], strides=[2, 2], pads=[0] * 4)
    x = _double(g, g.op("Concat", second, _crop_like(g, x, second), axis=1), 32, 16)
    sizes = g.op(
        "Concat",
        g.op("Slice", g.op("Shape", x), [0], [2], [0]),
        g.op(
            "Cast",
            g.op("Floor", g.op("Mul", g.op("Cast", g.op("Slice", g.op("Shape", x), [2], [4], [0]), to=1), 2.0)),
            to=7,
        ),
        axis=0,
    )
    x = g.op("Resize", x, "", "", sizes, mode="linear", coordinate_transformation_mode="half_pixel")
    x = _double(g, g.op("Concat", first, x, axis=1), 24, 8)
    mask = g.op("ArgMax", conv(g, x, (8, 5), 1), axis=1, keepdims=0)
    scores = g.op("Sigmoid", conv(g, x, (8, 5), 1))
    return g.model(
        {"input": ["batch", 3, 32, 32]},
        {g.named(scores, "scores"): ["batch", 5, 32, 32], g.named(mask, "mask"): (7, ["batch", 32, 32])},
    )
