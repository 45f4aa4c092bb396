"""Control flow: If by a known, a computed or a given condition, and Loop."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from tests.differential.growing import Graph, UnfitError


def choice(g: Graph, kind: str) -> None:
    """An If whose branches read values from outside and may hold another one."""
    x = g.value()
    condition = _condition(g, x)
    branches = []
    for side in ("then", "else"):
        inside = Graph(
            g.choices, g.random, g.opset, f"{g.prefix}{side}{len(g.nodes)}_", {x: g.known[x]}, dict(g.known)
        )
        inside.nasty = g.nasty
        for _ in range(g.number(0, 3)):
            inside.step(lambda one: _inner(one, len(g.prefix)))
        fitting = [
            name
            for name, array in inside.known.items()
            if array.shape == g.shape(x)
            and array.dtype == np.float32
            and name.startswith(inside.prefix)
            and name not in inside.weights
        ]
        result = fitting[-1] if fitting else inside.op("Identity", x)
        branches.append(_graph(inside, side, [], [(result, g.known[x])]))
    g.op(kind, condition, then_branch=branches[0], else_branch=branches[1])


def _inner(g: Graph, depth: int) -> None:
    from tests.differential.table import OPERATORS, SIMPLE

    kinds = [one for one in OPERATORS if one.kind in SIMPLE or (one.kind == "If" and depth < 8)]
    one = g.pick(*kinds)
    one.grow(g, one.kind)


def _condition(g: Graph, x: str) -> str:
    form = g.pick("flag", "known", "computed", "size")
    if form == "known":
        return g.array(np.array(g.pick(True, False)))
    if form == "computed" and g.known[x].size:
        total = g.op("ReduceMax", x, keepdims=0, keep=False)
        return str(g.op("Greater", total, g.scalar(g.pick(0.0, 1e-10))))
    if form == "size":
        size = g.op("Size", x, keep=False)
        return str(g.op("Greater", size, g.array(np.array(g.pick(0, 10), np.int64)), keep=False))
    flags = [name for name, array in g.values.items() if array.dtype == np.bool_ and not array.shape]
    if not flags:
        raise UnfitError
    return flags[0]


def loop(g: Graph, kind: str) -> None:
    """One that carries a value along, of one shape or growing, a known or a given number of times."""
    x = g.value()
    body = Graph(g.choices, g.random, g.opset, f"{g.prefix}body{len(g.nodes)}_", {}, dict(g.known))
    carried = f"{body.prefix}carried"
    body.nasty = False
    body.values[carried] = body.known[carried] = g.known[x]
    y = carried
    for one in g.pick(("Tanh",), ("Relu", "Neg"), ("Mul",), ("Add", "Sigmoid"), ("Concat",), ("Concat", "Mul")):
        more = [body.scalar(0.5)] if one == "Mul" else [g.pick(x, carried)] if one == "Add" else []
        # What grows by itself doubles each time; x is from outside and stays as it is.
        y = body.op(one, y, x, axis=g.axis(x)) if one == "Concat" else body.op(one, y, *more)
    grows = body.shape(y) != g.shape(x)
    ports = [
        (f"{body.prefix}round", np.array(0, np.int64)),
        (f"{body.prefix}going", np.array(True)),
        (carried, g.known[x]),
    ]
    body.nodes.append(helper.make_node("Identity", [ports[1][0]], [f"{body.prefix}on"]))
    inner = _graph(body, "body", ports, [(f"{body.prefix}on", np.array(True)), (y, body.known[y])])
    times = "trips" if "trips" in g.values and g.pick(True, False) else g.scalar(g.pick(2, 5, 0, 1), np.int64)
    result = g.op(kind, times, g.array(np.array(g.pick(True, False))), x, body=inner)
    if grows and g.pick(True, False):  # how large it is depends on the trips, which fits few steps behind it
        g.op("ReduceSum", result, keepdims=0)
        g.values.pop(result, None)


def _graph(g: Graph, title: str, inputs: list, outputs: list):
    ports = [[_port(*one) for one in group] for group in (inputs, outputs)]
    weights = [numpy_helper.from_array(array, name) for name, array in g.weights.items()]
    return helper.make_graph(g.nodes, title, *ports, weights)


def _port(name: str, array: np.ndarray):
    kind = helper.np_dtype_to_tensor_dtype(array.dtype) if array.dtype != np.float32 else TensorProto.FLOAT
    return helper.make_tensor_value_info(name, kind, [None] * array.ndim)
