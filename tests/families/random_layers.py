"""Random steps of layers, with what often stands around them, and patterns that exporters spell out."""

import numpy as np

from tests.families.growing import MAX_ELEMENTS, Graph


def convolution(g: Graph) -> None:
    """With what often stands before and behind: Pad, BatchNormalization, a scale and a shift, an activation."""
    x = g.value(4)
    if x is None:
        return
    batch, channels, height, width = g.shapes[x]
    side, stride, pad = g.pick((1, 1, 0), (3, 1, 1), (3, 2, 1), (2, 1, 0), (3, 1, 0))
    before, size_out = g.pick("", "", "Pad", "BatchNormalization"), g.pick(2, 4)
    if min(height, width) < side:
        return
    if before == "Pad":
        x = g.op("Pad", x, g.integers(0, 0, 1, 1, 0, 0, 1, 1))
        height, width = height + 2, width + 2
    elif before:
        x = g.op(before, x, *_statistics(g, channels))
    groups = g.pick(1, *([channels] if size_out % channels == 0 else []))
    bias = [g.weight(size_out)] if g.pick(True, False) else []
    shape = (batch, size_out, *((one + 2 * pad - side) // stride + 1 for one in (height, width)))
    for _ in range(g.pick(1, 1, 2)):
        y = g.op(
            "Conv",
            x,
            g.weight(size_out, channels // groups, side, side),
            *bias,
            group=groups,
            strides=[stride] * 2,
            pads=[pad] * 4,
            kernel_shape=[side] * 2,
        )
        for kind in g.pick(
            (), ("BatchNormalization",), ("Mul", "Add"), ("BatchNormalization", "Relu"), ("Add", "Mul")
        ):
            if kind == "BatchNormalization":
                y = g.op(kind, y, *_statistics(g, size_out))
            else:
                y = g.op(
                    kind,
                    y,
                    *([] if kind == "Relu" else [g.weight(*g.pick((size_out, 1, 1), (1, size_out, 1, 1), ()))]),
                )
        if np.prod(shape) <= MAX_ELEMENTS:
            g.shapes[y] = shape


def _statistics(g: Graph, channels: int) -> list[str]:
    limits = ((0.5, 1.5), (-1.0, 1.0), (-1.0, 1.0), (0.5, 1.5))
    return [g.weight(channels, low=low, high=high) for low, high in limits]


def pooling(g: Graph) -> None:
    x = g.value(4)
    if x is None:
        return
    batch, channels, height, width = g.shapes[x]
    kind = g.pick(
        "MaxPool",
        "AveragePool",
        "GlobalAveragePool",
        "GlobalMaxPool",
        "BatchNormalization",
        "Resize",
        "ConvTranspose",
        "InstanceNormalization",
        "DepthToSpace",
    )
    if kind in {"MaxPool", "AveragePool"} and min(height, width) > 1:
        more = {"count_include_pad": g.pick(0, 1)} if kind == "AveragePool" else {}
        pad = g.pick(0, 1)
        g.op(
            kind,
            x,
            kernel_shape=[2, 2],
            strides=[1, 1],
            pads=[pad] * 4,
            **more,
            keep=(batch, channels, height - 1 + 2 * pad, width - 1 + 2 * pad),
        )
    elif kind.startswith("Global"):
        g.op(kind, x, keep=(batch, channels, 1, 1))
    elif kind == "BatchNormalization":
        g.op(kind, x, *_statistics(g, channels), keep=(batch, channels, height, width))
    elif kind == "InstanceNormalization" and height * width > 3:
        g.op(kind, x, *_statistics(g, channels)[:2], epsilon=0.1, keep=(batch, channels, height, width))
    elif kind == "Resize":
        g.op(
            kind,
            x,
            "",
            g.array(np.array([1, 1, 2, 2], np.float32)),
            mode="nearest",
            nearest_mode="floor",
            coordinate_transformation_mode="asymmetric",
            keep=(batch, channels, 2 * height, 2 * width),
        )
    elif kind == "ConvTranspose":
        y = g.op(kind, x, g.weight(channels, 3, 2, 2), strides=[2, 2], keep=(batch, 3, 2 * height, 2 * width))
        if g.pick(True, False):
            g.op("BatchNormalization", y, *_statistics(g, 3), keep=(batch, 3, 2 * height, 2 * width))
    elif kind == "DepthToSpace" and channels % 4 == 0:
        g.op(kind, x, blocksize=2, keep=(batch, channels // 4, 2 * height, 2 * width))


def product(g: Graph) -> None:
    """MatMul, Gemm, Einsum, several on one operand, and what stands behind."""
    x = g.value(2, 3)
    if x is None:
        return
    shape, size_out = g.shapes[x], g.pick(2, 5)
    inner, kind = shape[-1], g.pick("MatMul", "MatMul", "Gemm", "Square", "Einsum", "Three")
    if kind == "Gemm" and len(shape) == 2:
        flip, turn = g.pick(0, 1), g.pick(0, 1)
        x = g.op("Transpose", x, perm=[1, 0]) if turn else x
        weight = g.weight(*((size_out, inner) if flip else (inner, size_out)))
        bias = g.pick([], [g.weight(size_out)], [g.weight(1, size_out)], [g.array(np.float32(0.5))])
        g.op(
            "Gemm",
            x,
            weight,
            *bias,
            transA=turn,
            transB=flip,
            alpha=g.pick(1.0, 0.5),
            beta=g.pick(1.0, 2.0),
            keep=(shape[0], size_out),
        )
    elif kind == "Square":
        order = [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]
        g.op("MatMul", x, g.op("Transpose", x, perm=order), keep=(*shape[:-1], shape[-2]))
    elif kind == "Einsum" and len(shape) == 2:
        g.op(kind, x, g.weight(inner, size_out), equation="ij,jk->ik", keep=(shape[0], size_out))
    else:
        for _ in range(3 if kind == "Three" else 1):
            y = g.op("MatMul", x, g.weight(inner, size_out), keep=(*shape[:-1], size_out))
            for after in g.pick((), ("Add",), ("Mul",), ("Mul", "Add")):
                y = g.op(after, y, g.weight(*g.pick((size_out,), ())), keep=(*shape[:-1], size_out))


def reduction(g: Graph) -> None:
    x = g.value(1, 2, 3, 4)
    if x is None:
        return
    shape = list(g.shapes[x])
    axis, keepdims = g.number(0, len(shape) - 1), g.pick(0, 1)
    kind = g.pick("ReduceMean", "ReduceSum", "ReduceMax", "ReduceL2", "Softmax", "LogSoftmax", "Pooled")
    kept = (*shape[:axis], *([1] if keepdims else []), *shape[axis + 1 :])
    if kind in {"Softmax", "LogSoftmax"}:
        g.op(kind, x, axis=axis - g.pick(0, len(shape)), keep=shape)
    elif kind == "Pooled" and len(shape) == 4:
        g.op("ReduceMean", x, axes=g.pick([2, 3], [-1, -2]), keepdims=1, keep=(*shape[:2], 1, 1))
    elif kind == "ReduceSum":
        g.op(kind, x, g.integers(axis), keepdims=keepdims, keep=kept)
    else:
        g.op("ReduceMean" if kind == "Pooled" else kind, x, axes=[axis], keepdims=keepdims, keep=kept)


def pattern(g: Graph) -> None:
    """What exporters spell out and fusions look for."""
    x = g.value(2, 3, 4)
    if x is None:
        return
    shape, kind = g.shapes[x], g.pick("gelu", "tanh gelu", "silu", "hard swish", "layer", "rms", "softmax", "clip")
    number = lambda value: g.array(np.array(value, np.float32))  # noqa: E731 - a word that keeps the lines short
    if kind == "gelu":
        erf = g.op("Erf", g.op("Div", x, number(np.sqrt(2))))
        g.op("Mul", g.op("Mul", x, g.op("Add", erf, number(1))), number(0.5), keep=shape)
    elif kind == "tanh gelu":
        cube = g.op("Mul", g.op("Pow", x, number(3)), number(0.044715))
        inner = g.op("Tanh", g.op("Mul", g.op("Add", x, cube), number(np.sqrt(2 / np.pi))))
        g.op("Mul", g.op("Mul", x, number(0.5)), g.op("Add", inner, number(1)), keep=shape)
    elif kind == "silu":
        g.op("Mul", g.op("Sigmoid", x), x, keep=shape)
    elif kind == "hard swish":
        inner = g.op("Clip", g.op("Add", x, number(3)), number(0), number(6))
        g.op("Mul", x, g.op("Div", inner, number(6)), keep=shape)
    elif kind == "clip":
        g.op("Clip", g.op(g.pick("Clip", "Relu"), x), number(g.pick(-1, 0)), number(g.pick(1, 6)), keep=shape)
    elif kind == "softmax":
        exp = g.op("Exp", g.op("Sub", x, g.op("ReduceMax", x, axes=[-1], keepdims=1)))
        g.op("Div", exp, g.op("ReduceSum", exp, g.integers(-1), keepdims=1), keep=shape)
    else:
        centred = g.op("Sub", x, g.op("ReduceMean", x, axes=[-1], keepdims=1)) if kind == "layer" else x
        square = g.op("Pow", centred, number(2)) if g.pick(True, False) else g.op("Mul", centred, centred)
        root = g.op("Sqrt", g.op("Add", g.op("ReduceMean", square, axes=[-1], keepdims=1), number(0.1)))
        y = g.op("Div", centred, root, keep=shape)
        if g.pick(True, False):
            y = g.op("Mul", y, g.weight(*shape[-1:]), keep=shape)
            g.op("Add", y, g.weight(*shape[-1:]), keep=shape)
