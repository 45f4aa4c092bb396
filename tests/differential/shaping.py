"""How operands are drawn for operators that move elements, and for those that sum them up."""

import numpy as np

from tests.differential.growing import FLOAT, Graph, UnfitError

FARTHEST = (1 << 63) - 1


def reshape(g: Graph, kind: str) -> None:
    """To another order of the same elements: by a constant, or by arithmetic on the shape."""
    x = g.value(1, 2, 3, 4)
    shape = g.shape(x)
    form = g.pick("zero", "flat", "same", "chain", "halves", "twice", "shape of")
    if form == "zero":
        g.op(kind, x, g.integers(0, -1))
    elif form == "flat":
        g.op(kind, x, g.integers(*g.pick((-1,), (-1, shape[-1]), (1, -1), (-1, 1))))
    elif form == "same":
        g.op(kind, x, g.integers(*g.pick((0,) * len(shape), (*shape[:-1], -1), (-1, *shape[1:]))))
    elif form == "chain":
        first = g.op("Gather", g.op("Shape", x), g.array(np.array(0, np.int64)), axis=0)
        g.op(kind, x, g.op("Concat", g.op("Unsqueeze", first, g.integers(0)), g.integers(-1), axis=0))
    elif form == "halves" and shape[-1] % 2 == 0:
        g.op(kind, x, g.integers(*[0] * (len(shape) - 1), 2, -1))
    elif form == "twice":
        g.op(kind, g.op(kind, x, g.integers(0, -1)), g.integers(*g.pick((-1,), (0, 0), (-1, shape[-1]))))
    elif form == "shape of":
        g.op(kind, g.op("Neg", x), g.op("Shape", x))


def flatten(g: Graph, kind: str) -> None:
    x = g.value(1, 2, 3, 4)
    g.op(kind, x, **g.pick({}, {"axis": g.axis(x)}, {"axis": 0}, {"axis": len(g.shape(x))}))


def unsqueeze(g: Graph, kind: str) -> None:
    x = g.value(0, 1, 2, 3)
    axis = g.number(0, len(g.shape(x)))
    y = g.op("Unsqueeze", x, g.integers(axis - g.pick(0, len(g.shape(x)) + 1)))
    if kind == "Squeeze":
        g.op(kind, g.op("Relu", y) if g.sometimes(3) else y, g.integers(axis))


def transpose(g: Graph, kind: str) -> None:
    """Once or several times, perhaps with something between that does not mind."""
    x = g.value(2, 3, 4)
    perm: list[int] = []
    for _ in range(g.number(1, 3)):
        order = g.pick("undone", None, "some", "undone", "channels last")
        rank = len(g.shape(x))
        if order == "undone" and len(perm) == rank:
            perm = [int(p) for p in np.argsort(perm)]
        else:
            perm = [0, *range(2, rank), 1] if order == "channels last" else list(range(rank))[::-1]
            perm = [int(p) for p in g.random.permutation(rank)] if order in {"some", "undone"} else perm
        x = g.op(kind, x, **({} if order is None else {"perm": perm}))
        between = g.pick("", "Relu", "Add", "Softmax", "ReduceMax", "Concat")
        if between == "Add":
            y = g.operand(x)
            x = g.op("Add", *g.pick((x, y), (y, x)))
        elif between == "Softmax":
            axis, last = g.axis(x), len(g.shape(x)) - 1
            x = g.op("Softmax", x, **({} if axis in {-1, last} else {"axis": axis}))
        elif between == "Concat":
            x = g.op("Concat", x, x, axis=g.axis(x))
        elif between == "ReduceMax":
            x = reduced(g, between, x, [g.axis(x)], keepdims=g.pick(1, 0))
            if len(g.shape(x)) < 2:
                return
        elif between:
            x = g.op(between, x)


def concat(g: Graph, kind: str) -> None:
    x = g.value(1, 2, 3, 4)
    same = [n for n, a in g.values.items() if a.shape == g.shape(x) and a.dtype == FLOAT]
    parts = [x, *(g.pick(*same) for _ in range(g.number(0, 2)))]
    if g.sometimes(4):
        parts.append(g.constant(g.shape(x)))
    elif g.sometimes(4):  # an empty piece, of the size that x has in this run
        axis = g.number(0, len(g.shape(x)) - 1)
        empty = g.op("Slice", x, g.integers(0), g.integers(0), g.integers(axis))
        g.op(kind, *parts, empty, axis=axis)
        return
    g.op(kind, *parts, axis=g.axis(x))


def split(g: Graph, kind: str) -> None:
    x = g.value(1, 2, 3, 4)
    axis = g.axis(x)
    size = g.shape(x)[axis]
    if size < 2:
        raise UnfitError
    first = g.number(1, size - 1)
    one, two = g.op(kind, x, g.integers(first, size - first), outputs=2, axis=axis)
    if g.pick(True, False):
        g.op("Concat", *g.pick((one, two), (two, one)), axis=axis)


def cut(g: Graph, kind: str) -> None:
    """A Slice with starts, ends and steps of every sign, beyond the end too; perhaps a second one behind it."""
    x = g.value(1, 2, 3, 4)
    for _ in range(g.number(1, 2)):
        axis = g.axis(x)
        start, end, step = g.pick(
            (1, FARTHEST, 1),
            (0, -1, 1),
            (0, 2, 1),
            (0, FARTHEST, 2),
            (-1, -FARTHEST, -1),
            (-2, FARTHEST, 1),
            (0, FARTHEST, 1),
            (FARTHEST, 0, -2),
            (-FARTHEST, 1, 1),
        )
        more = [] if step == 1 and g.pick(True, False) else [g.integers(step)]
        x = g.op(kind, x, g.integers(start), g.integers(end), g.integers(axis), *more)


def gather(g: Graph, kind: str) -> None:
    """Known places, or those that an input names; of a value or from a table."""
    if g.sometimes(3):
        table = g.weight(5, g.pick(2, 6))
        g.op(kind, table, g.value(dtype=np.int64))
        return
    x = g.value(1, 2, 3, 4)
    places = g.array(np.array(g.pick(0, [0], [-1, 0], [[0]], [0, 0], -1), np.int64))
    g.op(kind, x, places, axis=g.axis(x))


def gather_elements(g: Graph, kind: str) -> None:
    x = g.value(1, 2, 3)
    axis = g.axis(x)
    shape = tuple(1 if k == axis % len(g.shape(x)) else size for k, size in enumerate(g.shape(x)))
    places = g.array(np.full(shape, g.pick(0, -1), np.int64))
    if kind == "GatherElements":
        g.op(kind, x, places, axis=axis)
    else:
        g.op(kind, x, places, g.constant(shape), axis=axis)


def gather_nd(g: Graph, kind: str) -> None:
    x = g.value(2, 3, 4)
    places = g.array(np.array(g.pick([[0]], [[0], [-1]], [[0, 0]]), np.int64))
    if kind == "GatherND":
        g.op(kind, x, places)
    else:
        rows = g.known[places].shape
        g.op(kind, x, places, g.constant((rows[0], *g.shape(x)[rows[1] :])))


def pad(g: Graph, kind: str) -> None:
    x = g.value(1, 2, 3, 4)
    rank = len(g.shape(x))
    pads = [0] * 2 * rank
    if not g.sometimes(4):
        axis = g.axis(x) % rank
        pads[axis], pads[axis + rank] = g.pick((1, 0), (1, 1), (0, 2), (-1, 1), (0, -1))
    mode = g.pick("constant", "constant", "reflect", "edge")
    value = (
        [g.scalar(g.pick(0.0, -0.0, 0.5, 1e-10, float("-inf")))]
        if mode == "constant" and g.pick(True, False)
        else []
    )
    g.op(kind, x, g.integers(*pads), *value, mode=mode)


def tile(g: Graph, kind: str) -> None:
    x = g.value(1, 2, 3, 4)
    axis = g.axis(x) % len(g.shape(x))
    times = g.pick(2, 1)
    g.op(kind, x, g.integers(*[times if k == axis else 1 for k in range(len(g.shape(x)))]))


def expand(g: Graph, kind: str) -> None:
    x = g.value()
    shape = g.shape(x)
    form = g.pick((1,) * len(shape), (2, *[1] * len(shape)), (1,), (1, *[1] * len(shape)), ())
    y = g.op(kind, x, g.array(np.array(form, np.int64)))
    if g.sometimes(3):
        z = g.operand(x)
        g.op(g.pick("Add", "Mul"), *g.pick((y, z), (z, y)))


def shape_of(g: Graph, kind: str) -> None:
    """A size as a number among the numbers, or as the size of something made from it."""
    x = g.value(1, 2, 3, 4)
    sizes = (
        g.op("Shape", x)
        if g.opset < 15 or g.pick(True, False)
        else g.op("Shape", x, **g.pick({"start": 1}, {"end": -1}, {"start": -1}))
    )
    if not g.shape(sizes)[0]:
        return
    if kind == "Shape":
        g.op("Cast", g.op("ReduceProd", sizes, keepdims=g.pick(0, 1)) if g.pick(True, False) else sizes, to=1)
    elif kind == "Size":
        g.op("Cast", g.op("Size", x), to=1)
    elif kind == "ConstantOfShape":
        from onnx import numpy_helper

        number = np.array([g.pick(0.0, 1.0, 1e-10, -0.0)], np.float32)
        made = g.op(kind, sizes, value=numpy_helper.from_array(number))
        if g.known[made].shape == g.shape(x):
            g.op(g.pick("Add", "Mul", "Sub"), *g.pick((x, made), (made, x)))
    elif kind == "Range":
        end = g.op("Squeeze", g.op("Slice", sizes, g.integers(0), g.integers(1)), g.integers(0))
        g.op("Cast", g.op(kind, g.scalar(0, np.int64), end, g.scalar(g.pick(1, 2), np.int64)), to=1)


def along(g: Graph, kind: str) -> None:
    """CumSum, ArgMax, TopK, Trilu, LpNormalization, Softmax and the like: along one axis."""
    x = g.value(2, 3, 4) if kind == "Trilu" else g.value(1, 2, 3, 4)
    axis = g.axis(x)
    if kind == "CumSum":
        g.op(kind, x, g.array(np.array(axis, np.int64)), **g.pick({}, {"exclusive": 1}, {"reverse": 1}))
    elif kind in {"ArgMax", "ArgMin"}:
        last = g.pick({}, {"select_last_index": 1})
        g.op(kind, x, **({"axis": axis} if axis else {}), keepdims=g.pick(1, 0), **last)
    elif kind == "TopK":
        values, places = g.op(kind, x, g.integers(1), outputs=2, axis=axis, largest=g.pick(1, 0))
        del places, values
    elif kind == "Trilu":
        g.op(kind, x, *g.pick((), (g.array(np.array(g.pick(0, 1, -1), np.int64)),)), upper=g.pick(1, 0))
    elif kind == "LpNormalization":
        g.op(kind, x, axis=axis, p=g.pick(2, 1))
    else:
        g.op(kind, x, **g.pick({"axis": axis}, {"axis": -1}, {}))


def one_hot(g: Graph, kind: str) -> None:
    places = g.value(dtype=np.int64)
    values = g.array(np.array(g.pick([0, 1], [1, 0], [-1, 1e-10]), np.float32))
    g.op(kind, places, g.array(np.array(g.pick(5, 3), np.int64)), values, axis=g.pick(-1, 0))


def reduction(g: Graph, kind: str) -> None:
    """Over some axes, over all, over none; perhaps two behind each other."""
    x = g.value(1, 2, 3, 4)
    for _ in range(g.number(1, 2)):
        rank = len(g.shape(x))
        if not rank:
            return
        axes = g.pick([-1], [g.axis(x)], None, [0], list(range(rank)), [-1, -2] if rank > 1 else [0], [])
        x = reduced(g, kind, x, axes, keepdims=g.pick(1, 0))


def reduced(g: Graph, kind: str, x: str, axes: list[int] | None, **more: int) -> str:
    """A reduction; where its axes stand depends on the operator and the version."""
    if g.opset >= 18 or kind == "ReduceSum":
        if axes == [] and g.pick(True, False):
            return str(g.op(kind, x, g.array(np.zeros(0, np.int64)), noop_with_empty_axes=1, **more))
        return str(g.op(kind, x, *([g.integers(*axes)] if axes else []), **more))
    return str(g.op(kind, x, **({"axes": axes} if axes else {}), **more))
