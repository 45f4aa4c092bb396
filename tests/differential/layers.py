"""How operands are drawn for layers, with what often stands before and behind them."""

import numpy as np

from tests.differential.constants import TINY
from tests.differential.growing import Graph, UnfitError


def statistics(g: Graph, channels: int) -> list[str]:
    """Scale, bias, mean and variance of a BatchNormalization."""
    limits = ((0.5, 1.5), (-1.0, 1.0), (-1.0, 1.0), (0.5, 1.5))
    made = [g.weight(channels, low=low, high=high) for low, high in limits]
    if g.sometimes(4):
        made[3] = g.array(np.full(channels, g.pick(*TINY), np.float32))
    return made


def shifted(g: Graph, x: str, channels: int) -> str:
    """With a constant added, multiplied, divided by: for each channel, column, element, or one number."""
    for kind in g.pick((), ("Mul",), ("Add",), ("Mul", "Add"), ("Add", "Mul"), ("Div",), ("Sub",)):
        rank = len(g.shape(x))
        per_channel = (channels, *[1] * (rank - 2))
        form = g.pick(per_channel, (), (1, *per_channel), g.shape(x)[-1:], (1,) * rank, (1, *g.shape(x)[1:]))
        y = g.weight(*form, low=0.5 if kind == "Div" else -1.0, high=1.5)
        x = g.op(kind, *(g.pick((x, y), (y, x)) if kind != "Div" else (x, y)))
    return x


def convolution(g: Graph, kind: str) -> None:
    """With what stands before and behind: Pad, BatchNormalization, a scale and a shift, an activation."""
    x = g.value(4)
    before = g.pick("", "", "", "Pad", "BatchNormalization", "Mul")
    if before == "Pad":
        value = g.pick((), (g.scalar(0.0),), (g.scalar(g.pick(-0.0, 1e-10, 0.5)),))
        pads = g.pick(
            (0, 0, 1, 1, 0, 0, 1, 1), (0, 0, 0, 1, 0, 0, 2, 0), (0, 0, 1, 0, 0, 0, 0, 0), (0, 1, 0, 0, 0, 0, 0, 0)
        )
        x = g.op("Pad", x, g.integers(*pads), *value)
    elif before == "BatchNormalization":
        x = g.op(before, x, *statistics(g, g.shape(x)[1]))
    elif before:
        x = shifted(g, x, g.shape(x)[1])
    for _ in range(g.pick(1, 1, 2)):
        y = _convolved(g, kind, x)
        channels = g.shape(y)[1]
        if g.sometimes(3):
            y = g.op(
                "BatchNormalization",
                y,
                *statistics(g, channels),
                **g.pick({}, {"epsilon": 1e-3}, {"epsilon": 0.0}),
            )
        y = shifted(g, y, channels)
        if g.sometimes(3):
            g.op(g.pick("Relu", "Clip", "Sigmoid"), y)


def _convolved(g: Graph, kind: str, x: str) -> str:
    channels, size_out = g.shape(x)[1], g.pick(2, 4)
    side, stride, pads = g.pick(
        (1, 1, (0, 0, 0, 0)), (3, 1, (1, 1, 1, 1)), (3, 2, (0, 1, 2, 0)), (2, 1, (0, 0, 0, 0))
    )
    group = g.pick(1, 1, *([channels] if size_out % channels == 0 else []), *([2] if channels % 2 == 0 else []))
    if kind == "ConvTranspose":
        weight = g.weight(channels, size_out, side, side)
        return str(g.op(kind, x, weight, strides=[stride] * 2, pads=list(pads)))
    weight = g.weight(size_out, channels // group, side, side)
    bias = [g.weight(size_out)] if g.pick(True, False) else []
    more = {"group": group} if group > 1 or g.pick(True, False) else {}
    if g.sometimes(5) and min(g.shape(x)[2:]) > 3:
        more["dilations"] = [1, 2]
    if g.sometimes(5):
        return str(
            g.op(
                kind,
                x,
                weight,
                *bias,
                strides=[stride] * 2,
                auto_pad=g.pick("SAME_UPPER", "SAME_LOWER", "VALID"),
                **more,
            )
        )
    return str(g.op(kind, x, weight, *bias, strides=[stride] * 2, pads=list(pads), **more))


def pooling(g: Graph, kind: str) -> None:
    """Sometimes with a Pad before it, mostly of what the pool would pad with itself."""
    x = g.value(4)
    more = g.pick({}, {"count_include_pad": 1}) if kind == "AveragePool" else {}
    pads = list(g.pick((0, 0, 0, 0), (1, 1, 1, 1), (0, 1, 1, 0)))
    if g.sometimes(3):
        usual = 0.0 if kind == "AveragePool" else float("-inf")
        x = g.op("Pad", x, g.integers(0, 0, 1, 1, 0, 0, g.pick(0, 1), 1), g.scalar(g.pick(usual, usual, 0.0, 0.5)))
        pads = g.pick([0, 0, 0, 0], pads)
    stride, ceil = g.pick(1, 2), g.pick(0, 0, 1)
    if kind == "AveragePool" or stride == 1:
        # What the last window of an average is divided by is not agreed on. With a stride of 1 nothing is rounded,
        # and the reference evaluator gives a result that is too large.
        ceil = 0
    g.op(kind, x, kernel_shape=[2, 2], strides=[stride] * 2, pads=pads, ceil_mode=ceil, **more)


def whole_picture(g: Graph, kind: str) -> None:
    x = g.op(kind, g.value(3, 4))
    if g.pick(True, False):
        g.op(g.pick("Flatten", "Identity"), x)


def normalized(g: Graph, kind: str) -> None:
    x = g.value(3, 4)
    channels = g.shape(x)[1]
    epsilon = {"epsilon": g.pick(1e-5, 0.1, 1e-12)}
    if kind == "BatchNormalization":
        g.op(kind, x, *statistics(g, channels), **epsilon)
    elif kind == "InstanceNormalization":
        g.op(kind, x, *statistics(g, channels)[:2], epsilon=g.pick(0.1, 1e-5))
    elif kind == "GroupNormalization":
        g.op(kind, x, *statistics(g, 2 if g.opset < 21 else channels)[:2], num_groups=2, **epsilon)
    elif kind == "LRN":
        g.op(kind, x, size=g.pick(3, 1), **g.pick({}, {"alpha": 0.0}, {"alpha": 0.5, "bias": 2.0}))
    elif kind == "LayerNormalization":
        axis = g.pick(-1, 1, len(g.shape(x)) - 1)
        shape = g.shape(x)[axis:]
        g.op(kind, x, g.weight(*shape), *([g.weight(*shape)] if g.pick(True, False) else []), axis=axis, **epsilon)


def resized(g: Graph, kind: str) -> None:
    x = g.value(4)
    mode, nearest, coordinates = g.pick(
        ("nearest", "floor", "asymmetric"),
        ("nearest", "round_prefer_floor", "half_pixel"),
        ("linear", "round_prefer_floor", "half_pixel"),
        ("linear", "round_prefer_floor", "align_corners"),
        ("linear", "round_prefer_floor", "asymmetric"),
    )
    scale = g.pick(2.0, 1.0, 0.5, 1 + 1e-6)
    scales = g.array(np.array([1, 1, scale, g.pick(scale, 1.0)], np.float32))
    g.op(kind, x, "", scales, mode=mode, nearest_mode=nearest, coordinate_transformation_mode=coordinates)


def blocks(g: Graph, kind: str) -> None:
    x = g.value(4)
    g.op(kind, x, blocksize=2, **({"mode": g.pick("DCR", "CRD")} if kind == "DepthToSpace" else {}))


def product(g: Graph, kind: str) -> None:
    """By a weight, by a value, several by one operand; with what stands before and behind."""
    x = g.value(2, 3, 4)
    if g.sometimes(4):
        y = g.operand(x)
        x = g.op(g.pick("Mul", "Add"), x, y)
    form = g.pick("weight", "weight", "left", "itself", "three")
    inner, rank = g.shape(x)[-1], len(g.shape(x))
    if form == "itself":
        turned = g.op("Transpose", x, perm=[*range(rank - 2), rank - 1, rank - 2])
        g.op(kind, *g.pick((x, turned), (turned, x)))
        return
    for _ in range(2 if form == "three" else 1):
        weight = g.weight(inner, g.pick(2, 5)) if form != "left" else g.weight(g.pick(2, 3), g.shape(x)[-2])
        if g.sometimes(4):
            weight = g.op("Transpose", weight, keep=False)
            weight = g.op("Transpose", weight, keep=False)
        y = g.op(kind, *((x, weight) if form != "left" else (weight, x)))
        y = _behind(g, y)


def _behind(g: Graph, y: str) -> str:
    for after in g.pick((), ("Add",), ("Mul",), ("Mul", "Add"), ("Add", "Mul"), ("Sub",)):
        form = g.pick(g.shape(y)[-1:], (), (1, *g.shape(y)[-1:]), (g.shape(y)[-2], 1), (1,))
        z = g.weight(*form)
        y = g.op(after, *g.pick((y, z), (z, y)))
    return y


def gemm(g: Graph, kind: str) -> None:
    x = g.value(2)
    turn, flip = g.pick(0, 1), g.pick(0, 1)
    if g.sometimes(3):
        x = g.op("Transpose", x, perm=[1, 0])
    inner = g.shape(x)[0 if turn else 1]
    size_out = g.pick(2, 5)
    weight = g.weight(*((size_out, inner) if flip else (inner, size_out)))
    rows = g.shape(x)[1 if turn else 0]
    bias = g.pick((), (size_out,), (1, size_out), (1,), (rows, 1), None)
    third = [] if bias is None else [g.weight(*bias)]
    more = (
        {"alpha": g.pick(1.0, 0.5, 1 + 1e-6, 0.0), "beta": g.pick(1.0, 2.0, 0.0, 1e-7)}
        if g.pick(True, False)
        else {}
    )
    _behind(g, g.op(kind, x, weight, *third, transA=turn, transB=flip, **more))


def einsum(g: Graph, kind: str) -> None:
    x = g.value(2, 3)
    rank, inner = len(g.shape(x)), g.shape(x)[-1]
    equations = {
        2: ("ij,jk->ik", "ij,jk->ki", "ij,kj->ik", "ij->ji", "ij,ij->i", "ij,j->i", "ij->i"),
        3: ("bij,jk->bik", "bij,bkj->bik", "bij,jk->bki", "bij->bji", "bij,bij->bi", "bij,j->bi", "bij->jb"),
    }
    equation = g.pick(*equations[rank])
    left, _, right = equation.partition("->")[0].partition(",")
    if not right:
        g.op(kind, x, equation=equation)
    elif right in {left, "bkj"}:
        g.op(kind, x, x, equation=equation)
    else:
        sizes = {"j": inner, "k": g.pick(2, 4)}
        g.op(kind, x, g.weight(*(sizes[letter] for letter in right)), equation=equation)


def dropped(g: Graph, kind: str) -> None:
    g.op(kind, g.value(), *g.pick((), (g.scalar(0.3),)))


def reversed_sequence(g: Graph, kind: str) -> None:
    x = g.value(3)
    if g.shape(x)[0] < 1:
        raise UnfitError
    lengths = g.array(np.full(g.shape(x)[0], g.pick(1, 2), np.int64))
    g.op(kind, x, lengths, batch_axis=0, time_axis=1)


def recurrent(g: Graph, kind: str) -> None:
    x = g.value(3)
    inner, hidden = g.shape(x)[-1], 3
    gates = {"GRU": 3, "LSTM": 4, "RNN": 1}[kind]
    direction = g.pick("forward", "reverse", "bidirectional")
    ways = 2 if direction == "bidirectional" else 1
    weights = [g.weight(ways, gates * hidden, inner), g.weight(ways, gates * hidden, hidden)]
    bias = [g.weight(ways, 2 * gates * hidden)] if g.pick(True, False) else []
    more = {"linear_before_reset": g.pick(0, 1)} if kind == "GRU" else {}
    g.op(kind, x, *weights, *bias, hidden_size=hidden, direction=direction, **more)
