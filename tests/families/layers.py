"""What nets of convolutions are made of, as exporters write it."""

from typing import Any

import numpy as np

from tests.families.exporter import Exporter


def conv(g: Exporter, x: str, channels: tuple[int, int], side: int = 3, bias: bool = True, **more: Any) -> str:
    """A convolution that keeps the size, or divides it by `stride`; `more` are stride, groups and dilation."""
    stride, groups, dilation = (int(more.get(key, 1)) for key in ("stride", "groups", "dilation"))
    inside = channels[0] // groups
    weight = g.weight(channels[1], inside, side, side, scale=float(np.sqrt(2 / (inside * side * side))))
    operands = [x, weight, *([g.weight(channels[1], scale=0.1)] if bias else [])]
    pad = dilation * (side - 1) // 2
    return str(
        g.op(
            "Conv",
            *operands,
            dilations=[dilation, dilation],
            group=groups,
            kernel_shape=[side, side],
            pads=[pad] * 4,
            strides=[stride, stride],
        )
    )


def norm(g: Exporter, x: str, channels: int) -> str:
    """A batch normalization after training: each channel has seen its own mean and variance."""
    scale, shift = g.weight(channels, scale=0.1, around=1.0), g.weight(channels, scale=0.1)
    mean, variance = g.weight(channels, scale=0.1), g.array(g.random.uniform(0.5, 1.5, channels))
    return str(g.op("BatchNormalization", x, scale, shift, mean, variance, epsilon=1e-5, momentum=0.9))


def conv_norm(g: Exporter, x: str, channels: tuple[int, int], side: int = 3, **more: Any) -> str:
    return norm(g, conv(g, x, channels, side, bias=False, **more), channels[1])


def relu6(g: Exporter, x: str) -> str:
    return str(g.op("Clip", x, 0.0, 6.0))


def hard_sigmoid(g: Exporter, x: str) -> str:
    """Spelled out, as PyTorch's exporter did below opset 14."""
    return str(g.op("Div", g.op("Clip", g.op("Add", x, 3.0), 0.0, 6.0), 6.0))


def hard_swish(g: Exporter, x: str) -> str:
    return str(g.op("Mul", x, hard_sigmoid(g, x)))


def silu(g: Exporter, x: str) -> str:
    return str(g.op("Mul", x, g.op("Sigmoid", x)))


def squeeze_excite(g: Exporter, x: str, channels: int, inner: int, gate: Any, between: Any) -> str:
    """Weighs the channels by what all of the picture says of them."""
    small = conv(g, g.op("GlobalAveragePool", x), (channels, inner), 1)
    return str(g.op("Mul", x, gate(g, conv(g, between(g, small), (inner, channels), 1))))


def max_pool(g: Exporter, x: str, side: int = 2, stride: int = 2, pad: int = 0) -> str:
    return str(g.op("MaxPool", x, kernel_shape=[side, side], strides=[stride, stride], pads=[pad] * 4))


def classifier(g: Exporter, x: str, channels: int, classes: int = 10) -> str:
    """Mean over the picture, then a fully connected layer as Gemm."""
    flat = g.op("Flatten", g.op("GlobalAveragePool", x), axis=1)
    return str(g.op("Gemm", flat, g.weight(classes, channels), g.weight(classes, scale=0.1), transB=1))
