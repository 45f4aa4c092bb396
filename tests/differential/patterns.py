"""What exporters spell out and fusions look for; some constants and axes are not those that belong there."""

import numpy as np

from tests.differential.growing import Graph, UnfitError
from tests.differential.shaping import reduced


def near(g: Graph, number: float, scalar: bool = False) -> str:
    """The number that belongs there, and sometimes one beside it; as a scalar or an array of one."""
    if g.sometimes(5):
        number = number * g.pick(1 + 1e-6, 1 - 1e-3, -1.0, 1 + 1e-2) + g.pick(0.0, 1e-10, 1e-6)
    return g.array(np.full(() if scalar else g.pick((), (), (1,)), number, np.float32))


def _swapped(g: Graph, *names: str) -> tuple[str, ...]:
    return names if g.pick(True, False) else tuple(reversed(names))


def gelu(g: Graph, kind: str) -> None:
    x = g.value(2, 3, 4)
    root = np.sqrt(2.0)
    inner = g.op("Div", x, near(g, root)) if g.pick(True, False) else g.op("Mul", x, near(g, 1 / root))
    g.op("Mul", *_swapped(g, g.op("Mul", x, g.op("Add", g.op("Erf", inner), near(g, 1))), near(g, 0.5)))


def tanh_gelu(g: Graph, kind: str) -> None:
    x = g.value(2, 3, 4)
    cube = g.op("Mul", g.op("Pow", x, near(g, 3)), near(g, 0.044715))
    inner = g.op("Tanh", g.op("Mul", g.op("Add", *_swapped(g, x, cube)), near(g, np.sqrt(2 / np.pi))))
    g.op("Mul", g.op("Mul", x, near(g, 0.5)), g.op("Add", inner, near(g, 1)))


def swish(g: Graph, kind: str) -> None:
    x = g.value()
    inner = g.op("Mul", x, near(g, 1.702)) if g.sometimes(3) else x
    g.op("Mul", *_swapped(g, g.op("Sigmoid", inner), x))


def hard_swish(g: Graph, kind: str) -> None:
    x = g.value()
    if g.sometimes(3):
        inner = g.op("HardSigmoid", x, alpha=g.pick(1 / 6, 0.2), beta=g.pick(0.5, 0.4))
    else:
        limits = near(g, 0, scalar=True), near(g, 6, scalar=True)  # a Clip takes no others
        clipped = g.op("Clip", g.op("Add", *_swapped(g, x, near(g, 3))), *limits)
        inner = g.op("Div", clipped, near(g, 6)) if g.pick(True, False) else g.op("Mul", clipped, near(g, 1 / 6))
    if not g.sometimes(4):
        g.op("Mul", *_swapped(g, x, inner))


def mish(g: Graph, kind: str) -> None:
    x = g.value()
    soft = g.op("Softplus", x) if g.pick(True, False) else g.op("Log", g.op("Add", g.op("Exp", x), near(g, 1)))
    g.op("Mul", *_swapped(g, x, g.op("Tanh", soft)))


def normalization(g: Graph, kind: str) -> None:
    """Layer and RMS normalization, spelled out."""
    x = g.value(2, 3, 4)
    layer = g.pick(True, False)
    axes = g.pick([-1], [-1], [len(g.shape(x)) - 1], [1], [-2, -1])
    keep = {"keepdims": 1}
    mean = reduced(g, "ReduceMean", x, axes, **keep) if layer else ""
    centred = g.op("Sub", x, mean) if layer else x
    square = g.op("Pow", centred, near(g, 2)) if g.pick(True, False) else g.op("Mul", centred, centred)
    other = g.pick(axes, axes, axes, [-1])
    epsilon = g.array(np.full(g.pick((), (1,)), g.pick(1e-5, 0.1, 1e-12, 0.0), np.float32))
    root = g.op("Sqrt", g.op("Add", *_swapped(g, reduced(g, "ReduceMean", square, other, **keep), epsilon)))
    form = g.pick("Div", "Reciprocal", "one over")
    if form == "Div":
        y = g.op("Div", centred, root)
    else:
        over = g.op("Reciprocal", root) if form == "Reciprocal" else g.op("Div", near(g, 1), root)
        y = g.op("Mul", *_swapped(g, centred, over))
    if g.pick(True, False):
        width = g.shape(x)[-1:]
        y = g.op("Mul", *_swapped(g, y, g.weight(*g.pick(width, width, (), (1,)))))
        if g.pick(True, False):
            g.op("Add", *_swapped(g, y, g.weight(*width)))


def spelled_softmax(g: Graph, kind: str) -> None:
    x = g.value(2, 3, 4)
    axis = g.axis(x)
    keep = {"keepdims": 1}
    if g.pick(True, False):
        x = g.op("Sub", x, reduced(g, "ReduceMax", x, [g.pick(axis, axis, axis, -1)], **keep))
    over = g.op("Exp", x)
    total = reduced(g, "ReduceSum", over, [g.pick(axis, axis, axis, -1)], **keep)
    if g.sometimes(4):
        total = g.op("Add", total, near(g, 1e-10))
    g.op("Div", over, total)


def attention(g: Graph, kind: str) -> None:
    """Products by weights, heads, a softmax of scaled scores, perhaps a mask, and the heads together again."""
    x = g.value(3)
    width = g.shape(x)[-1]
    if width % 2:
        raise UnfitError
    heads = 2
    made = []
    for _ in range(3):
        y = g.op("MatMul", x, g.weight(width, width), keep=False)
        y = g.op("Add", y, g.weight(width), keep=False) if g.pick(True, False) else y
        y = g.op("Reshape", y, g.integers(0, g.pick(0, 0, -1), heads, width // heads), keep=False)
        made.append(g.op("Transpose", y, perm=[0, 2, 1, 3], keep=False))
    query, key, value = made
    key = g.op("Transpose", key, perm=[0, 1, 3, 2], keep=False)
    scale = np.sqrt(width / heads)
    if g.sometimes(3):
        query = g.op("Mul", query, near(g, 1 / scale), keep=False)
        scores = g.op("MatMul", query, key)
    else:
        scores = g.op("Div", g.op("MatMul", query, key, keep=False), near(g, scale))
    if g.sometimes(3):
        scores = g.op(
            "Add", scores, g.array(np.full(g.pick((), (1, 1, 1, 1)), g.pick(0.0, -1e4, 1e-10), np.float32))
        )
    scores = g.op("Softmax", scores, axis=g.pick(-1, -1, -1, 2))
    y = g.op("Transpose", g.op("MatMul", scores, value, keep=False), perm=[0, 2, 1, 3], keep=False)
    g.op("Reshape", y, g.integers(0, 0, width))


def focus(g: Graph, kind: str) -> None:
    """The four phases of a picture as channels, and a convolution over them."""
    x = g.value(4)
    if g.shape(x)[2] % 2 or g.shape(x)[3] % 2:
        raise UnfitError
    phases = []
    for row, column in ((0, 0), (1, 0), (0, 1), (1, 1)):
        y = g.op("Slice", x, g.integers(row), g.integers(1 << 40), g.integers(2), g.integers(2), keep=False)
        y = g.op("Slice", y, g.integers(column), g.integers(1 << 40), g.integers(3), g.integers(2), keep=False)
        phases.append(y)
    if g.sometimes(4):
        phases.reverse()
    y = g.op("Concat", *phases, axis=1)
    g.op("Conv", y, g.weight(2, g.shape(y)[1], 1, 1))


def channel_shuffle(g: Graph, kind: str) -> None:
    """Channels of a convolution shuffled between groups, for another convolution."""
    x = g.value(4)
    channels, groups = g.pick((8, 2), (8, 4), (6, 2))
    y = g.op("Conv", x, g.weight(channels, g.shape(x)[1], 1, 1))
    if g.pick(True, False):
        y = g.op("Relu", y)
    sides = g.shape(y)[2:]
    y = g.op("Reshape", y, g.integers(0, groups, channels // groups, *sides), keep=False)
    y = g.op("Transpose", y, perm=[0, 2, 1, 3, 4], keep=False)
    y = g.op("Reshape", y, g.integers(0, channels, *sides))
    if g.pick(True, False):
        y = g.op("Conv", y, g.weight(channels, 1, 1, 1), group=channels)
    group = g.pick(1, 1, 2)
    g.op("Conv", y, g.weight(4, channels // group, 1, 1), group=group)


def equal_branches(g: Graph, kind: str) -> None:
    """The same computed twice, or nearly: another axis, another constant, another order."""
    x = g.value(2, 3, 4)
    operators = g.pick(
        ("Softmax", {"axis": -1}, {"axis": 1}), ("LeakyRelu", {"alpha": 0.01}, {"alpha": 0.02}), ("Relu", {}, {})
    )
    name, usual, other = operators
    one, two = g.op(name, x, **usual), g.op(name, x, **g.pick(usual, other))
    if g.pick(True, False):
        g.op(g.pick("Sub", "Add"), one, two)
    else:
        g.op("Concat", one, two, axis=-1)


def alike_weights(g: Graph, kind: str) -> None:
    """Two products by weights that are equal, or equal but for a millionth or the sign of a zero."""
    x = g.value(2, 3, 4)
    width = g.shape(x)[-1]
    first = g.random.uniform(-1, 1, (width, width)).astype(np.float32)
    first[0, 0] = 0.0
    second = first.copy()
    change = g.pick("none", "sign of a zero", "a millionth", "one")
    if change == "sign of a zero":
        second[0, 0] = -0.0
    elif change == "a millionth":
        second *= np.float32(1 + 1e-6)
    elif change == "one":
        second[0, 0] = 1e-6
    form = g.pick("MatMul", "Reciprocal", "Log")
    if form == "MatMul":
        g.op("Sub", g.op(form, x, g.array(first)), g.op(form, x, g.array(second)))
    else:
        for one in (first, second):
            g.op("Mul", x, g.op(form, g.array(np.abs(one) if form == "Log" else one[0]), keep=False))
