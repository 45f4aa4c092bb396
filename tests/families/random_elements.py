"""Random steps that compute element by element or only move elements; each adds something where a value fits."""

import numpy as np
from onnx import TensorProto

from tests.families.growing import Graph

UNARY = (
    "Relu",
    "Sigmoid",
    "Tanh",
    "Neg",
    "Abs",
    "Erf",
    "LeakyRelu",
    "HardSigmoid",
    "Softplus",
    "Elu",
    "Sin",
    "Softsign",
)


def unary(g: Graph) -> None:
    x = g.value()
    g.op(g.pick(*UNARY), x, keep=g.shapes[x])


def careful(g: Graph) -> None:
    """Functions that are not defined everywhere, behind what keeps their operand where they are."""
    x, kind = g.value(), g.pick("Sqrt", "Log", "Reciprocal", "Exp")
    safe = (
        g.op("Clip", x, g.array(np.float32(-3)), g.array(np.float32(3)))
        if kind == "Exp"
        else g.op("Add", g.op("Abs", x), g.array(np.float32(0.5)))
    )
    g.op(kind, safe, keep=g.shapes[x])


def binary(g: Graph) -> None:
    x, y = g.value(), g.value()
    try:
        shape = np.broadcast_shapes(g.shapes[x], g.shapes[y])
    except ValueError:
        shape, y = g.shapes[x], x
    kind = g.pick("Add", "Sub", "Mul", "Max", "Min", "Sum", "Mean")
    g.op(kind, x, y, keep=shape)


def with_constant(g: Graph) -> None:
    """A number, one for each place of the last or the second dimension, or one for each element."""
    x = g.value()
    shape, kind = g.shapes[x], g.pick("Add", "Sub", "Mul", "Div", "Pow", "Max", "Min")
    forms: list[tuple[int, ...]] = [(), (1,), shape]
    forms += [shape[-1:], (*shape[1:2], *[1] * (len(shape) - 2))] if len(shape) > 1 else []
    form = g.pick(*forms)
    constant = (
        g.array(np.float32(g.pick(2, 1)))
        if kind == "Pow"
        else g.array(g.random.uniform(0.5, 1.5, form).astype(np.float32))
        if g.pick(True, False) or kind == "Div"
        else g.weight(*form)
    )
    order = [constant, x] if kind not in {"Pow", "Div"} and g.pick(True, False) else [x, constant]
    g.op(kind, *order, keep=np.broadcast_shapes(shape, form if kind != "Pow" else ()))


def neutral(g: Graph) -> None:
    """What changes nothing: zero added, one multiplied, a Cast there and back, a Pad by nothing and the like."""
    x = g.value()
    shape = g.shapes[x]
    for _ in range(g.number(1, 2)):
        kind = g.pick(
            "Identity", "Dropout", "Cast", "Add", "Mul", "Reshape", "Pad", "Expand", "Concat", "Slice", "Twice"
        )
        if kind == "Cast":
            x = g.op("Cast", g.op("Cast", x, to=TensorProto.DOUBLE), to=TensorProto.FLOAT)
        elif kind in {"Add", "Mul"}:
            x = g.op(kind, x, g.array(np.full(g.pick((), (1,)), kind == "Mul", np.float32)))
        elif kind == "Reshape":
            x = g.op(kind, x, g.integers(*g.pick(shape, (*shape[:-1], -1) if shape else (), (0,) * len(shape))))
        elif kind == "Pad":
            x = g.op(kind, x, g.integers(*[0] * 2 * len(shape))) if shape else g.op("Identity", x)
        elif kind == "Expand":
            x = g.op(kind, x, g.integers(*[1] * len(shape)))
        elif kind == "Slice" and shape:
            x = g.op(kind, x, g.integers(0), g.integers(g.pick(shape[-1], 1 << 40)), g.integers(len(shape) - 1))
        elif kind == "Twice" and shape:
            order = list(g.random.permutation(len(shape)))
            back = [int(p) for p in np.argsort(order)]
            x = g.op("Transpose", g.op("Transpose", x, perm=[int(p) for p in order]), perm=back)
        elif kind == "Concat" and shape:
            x = g.op(kind, x, axis=0)
        else:
            x = g.op("Dropout" if kind == "Dropout" else "Identity", x)
    g.shapes[x] = shape


def reshape(g: Graph) -> None:
    """To another order of the same elements: by a constant, or by arithmetic on the shape."""
    x = g.value(1, 2, 3, 4)
    if x is None:
        return
    shape = g.shapes[x]
    form = g.pick("flat", "chain", "zero", "Flatten", "Unsqueeze", "Squeeze")
    rest = int(np.prod(shape[1:]))
    if form == "flat":
        g.op("Reshape", x, g.integers(-1, shape[-1]), keep=(int(np.prod(shape[:-1])), shape[-1]))
    elif form == "zero":
        g.op("Reshape", x, g.integers(0, -1), keep=(shape[0], rest))
    elif form == "chain":
        first = g.op("Gather", g.op("Shape", x), g.array(np.array(0, np.int64)), axis=0)
        column = g.op("Unsqueeze", first, g.integers(0))
        g.op("Reshape", x, g.op("Concat", column, g.integers(-1), axis=0), keep=(shape[0], rest))
    elif form == "Flatten":
        g.op("Flatten", x, axis=1, keep=(shape[0], rest))
    elif form == "Unsqueeze" and len(shape) < 4:
        axis = g.number(0, len(shape))
        y = g.op("Unsqueeze", x, g.integers(axis), keep=(*shape[:axis], 1, *shape[axis:]))
        if g.pick(True, False):
            g.op("Squeeze", y, g.integers(axis), keep=shape)
    elif form == "Squeeze" and 1 in shape:
        axis = shape.index(1)
        g.op("Squeeze", x, g.integers(axis), keep=(*shape[:axis], *shape[axis + 1 :]))


def transpose(g: Graph) -> None:
    x = g.value(2, 3, 4)
    if x is not None:
        order = [int(p) for p in g.random.permutation(len(g.shapes[x]))]
        g.op("Transpose", x, perm=order, keep=[g.shapes[x][p] for p in order])


def cut(g: Graph) -> None:
    """Slice, Gather, Split, Pad, Tile, Concat along some dimension."""
    x = g.value(1, 2, 3, 4)
    if x is None:
        return
    shape = list(g.shapes[x])
    axis = g.number(0, len(shape) - 1)
    size, kind = shape[axis], g.pick("Slice", "Gather", "Split", "Pad", "Tile", "Concat", "Reverse", "CumSum")

    def sized(new: int) -> tuple[int, ...]:
        return (*shape[:axis], new, *shape[axis + 1 :])

    if kind == "Slice" and size > 1:
        step = g.pick(1, 2)
        taken = len(range(1, size, step))
        g.op(
            kind,
            x,
            g.integers(1),
            g.integers(size),
            g.integers(axis - g.pick(0, len(shape))),
            g.integers(step),
            keep=sized(taken),
        )
    elif kind == "Reverse":
        g.op("Slice", x, g.integers(-1), g.integers(-(1 << 40)), g.integers(axis), g.integers(-1), keep=shape)
    elif kind == "Gather":
        places = g.pick(np.array(0), np.array([0, -1]), np.array([[size - 1]]))
        g.op(
            kind,
            x,
            g.array(places.astype(np.int64)),
            axis=axis,
            keep=(*shape[:axis], *places.shape, *shape[axis + 1 :]),
        )
    elif kind == "Split" and size > 1:
        one, two = g.op(kind, x, g.integers(1, size - 1), outputs=2, axis=axis)
        g.shapes[one], g.shapes[two] = sized(1), sized(size - 1)
        if g.pick(True, False):
            g.op("Concat", one, two, axis=axis, keep=shape)
    elif kind == "Pad":
        pads = [0] * 2 * len(shape)
        pads[axis], pads[axis + len(shape)] = g.pick((1, 0), (1, 1), (0, 2))
        more = [g.array(np.float32(0.5))] if g.pick(True, False) else []
        g.op(kind, x, g.integers(*pads), *more, keep=sized(size + pads[axis] + pads[axis + len(shape)]))
    elif kind == "Tile":
        g.op(kind, x, g.integers(*[2 if k == axis else 1 for k in range(len(shape))]), keep=sized(2 * size))
    elif kind == "CumSum":
        g.op(kind, x, g.array(np.array(axis, np.int64)), keep=shape)
    elif kind == "Concat":
        others = [name for name, other in g.shapes.items() if other == tuple(shape)]
        g.op(kind, x, g.pick(*others), axis=axis, keep=sized(2 * size))
