"""How operands are drawn for operators that work on each element by itself."""

import numpy as np
from onnx import TensorProto

from tests.differential.constants import MILD, NASTY, TINY
from tests.differential.growing import FLOAT, Graph, UnfitError

TYPES = {
    TensorProto.FLOAT: np.float32,
    TensorProto.DOUBLE: np.float64,
    TensorProto.FLOAT16: np.float16,
    TensorProto.INT32: np.int32,
    TensorProto.INT64: np.int64,
    TensorProto.BOOL: np.bool_,
}
WITH_ALPHA = {
    "LeakyRelu": (0.01, 0.0, 1.0, -0.5),
    "Elu": (1.0, 0.5),
    "Celu": (1.0, 0.5),
    "ThresholdedRelu": (1.0, 0.0),
}


def unary(g: Graph, kind: str) -> None:
    more = {"alpha": g.pick(*WITH_ALPHA[kind])} if kind in WITH_ALPHA and g.pick(True, False) else {}
    if kind == "Gelu":
        more = {"approximate": g.pick("none", "tanh")}
    if kind == "HardSigmoid":
        more = g.pick({}, {"alpha": 1 / 6, "beta": 0.5}, {"alpha": 0.0}, {"alpha": 1.0, "beta": 0.0})
    g.op(kind, g.value(), **more)


def twice(g: Graph, kind: str) -> None:
    """What is the same done once, or done and undone: Neg of Neg, Abs of Abs, Relu of Relu."""
    x = g.op(kind, g.value())
    g.op(kind, g.op("Neg", x) if kind == "Abs" and g.pick(True, False) else x)


def guarded(g: Graph, kind: str) -> None:
    """A logarithm, a root or a reciprocal of what is kept from 0 by a small number."""
    x = g.op(g.pick("Abs", "Relu"), g.value())
    small = (
        g.scalar(g.pick(*TINY))
        if g.pick(True, False)
        else g.array(np.full(g.pick((), (1,)), g.pick(*TINY), np.float32))
    )
    form = g.pick("Add", "Max", "Clip", "bare")
    if form == "Clip":
        x = g.op("Clip", x, g.scalar(g.pick(*TINY)))
    elif form != "bare":
        x = g.op(form, *g.pick((x, small), (small, x)))
    g.op(kind, x)


def binary(g: Graph, kind: str) -> None:
    """Two values, or one and a constant that broadcasts with it."""
    x = g.value(dtype=g.pick(FLOAT, FLOAT, FLOAT, np.dtype(np.int64), np.dtype(np.int32)))
    if g.known[x].dtype != FLOAT and kind in {"Div", "Mod"}:  # by zero is undefined for integers
        y = g.array(np.full(g.pick((), (1,)), g.pick(2, 1, 3, -1), g.known[x].dtype))
        g.op(kind, x, y)
        return
    y = g.like(x) if g.sometimes(3) else g.operand(x)
    first, second = g.pick((x, y), (y, x))
    if kind == "Mod" and g.known[x].dtype == FLOAT:
        g.op(kind, first, second, fmod=1)
    else:
        g.op(kind, first, second)


def chained(g: Graph, kind: str) -> None:
    """The same or a related operator with a constant, twice: what rules about chains look for."""
    x = g.value()
    other = {"Add": "Sub", "Sub": "Add", "Mul": "Div", "Div": "Mul", "Min": "Max", "Max": "Min"}[kind]
    for _ in range(2):
        y = g.operand(x)
        x = g.op(g.pick(kind, other), *g.pick((x, y), (y, x)))


def power(g: Graph, kind: str) -> None:
    x = g.value()
    exponent = g.scalar(g.pick(2.0, 0.5, 1.0, 0.0, 3.0, -1.0, 2 + 1e-6, 1 + 1e-6, 1e-7, float("nan")))
    g.op(kind, x, exponent if g.pick(True, False) else g.operand(x))


def several(g: Graph, kind: str) -> None:
    x = g.value()
    g.op(
        kind, *[x if k == 0 else g.like(x) if g.pick(True, False) else g.operand(x) for k in range(g.number(1, 3))]
    )


def clip(g: Graph, kind: str) -> None:
    """Limits in any order, perhaps one of them only, perhaps two Clips or a Relu behind each other."""
    x = g.value()
    if g.sometimes(4):  # spelled out
        x, limit = g.op("Relu", x), g.scalar(g.pick(6.0, 1.0, 0.5, 1e-10, -1.0))
        g.op("Min", *g.pick((x, limit), (limit, x)))
        return
    for _ in range(g.number(1, 2)):
        if g.sometimes(4):
            x = g.op("Relu", x)
        numbers = [g.pick("", *(NASTY if g.nasty else MILD)) for _ in range(2)]
        limits = [n if n == "" else g.scalar(n) for n in numbers]
        x = g.op(kind, x, *(limits if limits[1] else limits[:1] if limits[0] else []))


def prelu(g: Graph, kind: str) -> None:
    x = g.value(1, 2, 3, 4)
    shape = g.shape(x)
    form = g.pick((1,), shape[-1:], (*shape[1:2], *[1] * max(len(shape) - 2, 0)))
    try:
        np.broadcast_to(np.zeros(form), shape)
    except ValueError:
        raise UnfitError from None
    g.op(kind, x, g.constant(form))


def compared(g: Graph, kind: str) -> None:
    x = g.value(dtype=g.pick(FLOAT, np.dtype(np.int64)))
    g.op(kind, x, g.like(x) if g.pick(True, False) else g.operand(x))


def logical(g: Graph, kind: str) -> None:
    x = g.value(dtype=np.bool_)
    g.op(
        kind,
        x,
        *([] if kind == "Not" else [g.like(x) if g.pick(True, False) else g.array(np.array(g.pick(True, False)))]),
    )


def where(g: Graph, kind: str) -> None:
    x = g.value()
    condition = g.pick(
        lambda: g.value(dtype=np.bool_),
        lambda: g.op(g.pick("Greater", "Less", "Equal"), x, g.operand(x)),
        lambda: g.array(np.full(g.pick((), (1,)), g.pick(True, False))),
    )()
    y = g.like(x) if g.pick(True, False) else g.operand(x)
    g.op(kind, condition, *g.pick((x, y), (y, x)))


def cast(g: Graph, kind: str) -> None:
    """To another type, and mostly back."""
    x = g.value(dtype=g.pick(FLOAT, FLOAT, FLOAT, np.dtype(np.int64), np.dtype(np.bool_), np.dtype(np.int32)))
    to = g.pick(*TYPES)
    if g.known[x].dtype == FLOAT and np.dtype(TYPES[to]).kind == "i":
        x = g.op("Clip", x, g.scalar(-1000.0), g.scalar(1000.0))  # beyond the type it is undefined
        if not np.isfinite(g.known[x]).all():
            raise UnfitError
    y = g.op(kind, x, to=to)
    if g.sometimes(3):
        y = g.op(kind, y, to=g.pick(*TYPES)) if np.dtype(TYPES[to]).kind != "f" else y
    if g.known[y].dtype != FLOAT:
        g.op(kind, y, to=TensorProto.FLOAT)


def cast_like(g: Graph, kind: str) -> None:
    g.op(kind, g.value(dtype=g.pick(np.dtype(np.int64), np.dtype(np.bool_), FLOAT)), g.value())


def copied(g: Graph, kind: str) -> None:
    g.op(kind, g.value())
