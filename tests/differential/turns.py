"""Loops and scans that collect, counts that are inputs, and what finds nothing: for sizes 0, 1, 2 and many."""

from collections.abc import Sequence

import numpy as np
from onnx import NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from tests.differential.growing import Graph, UnfitError
from tests.differential.regimes import Input

TURNS = Input("turns", np.int64, (), choices=(2, 0, 1, 7))
"""How often a loop runs, or how many are taken."""

DECLARED = ("exactly", "openly", "not at all")
"""How a body declares its shapes. Exact sizes are untrue where the model's are open, and runtimes believe them."""


def collecting(g: Graph, kind: str) -> None:
    """A Loop that carries a value along and collects up to two things in each turn."""
    x = g.value()
    body = _body(g)
    carried, turn = f"{body.prefix}carried", f"{body.prefix}turn"
    body.values[carried] = body.known[carried] = g.known[x]
    state = _few(body, carried)
    collected = [_element(body, g, state, carried, x) for _ in range(g.number(1, 2))]
    if g.sometimes(4):
        body.known[turn] = np.array(0, np.int64)
        collected.append(body.op("Mul", turn, body.scalar(2, np.int64), keep=False))
    going = f"{body.prefix}going"
    body.nodes.append(helper.make_node("Identity", [going], [f"{body.prefix}on"]))
    ports = [(turn, np.array(0, np.int64)), (going, np.array(True)), (carried, g.known[x])]
    made = [(f"{body.prefix}on", np.array(True)), *((name, body.known[name]) for name in (state, *collected))]
    # The state may grow where an element is appended; its claim is then untrue.
    times = _turns(g)
    graph = _declared_graph(g, body, ports, made)
    inputs = [times, g.array(np.array(True)) if g.pick(True, False) else "", x]
    results = _loop(g, kind, inputs, graph, [g.known[x], *(_none_of(body.known[name]) for name in collected)])
    for result in results[1:]:
        _read(g, result)


def scanning(g: Graph, kind: str) -> None:
    """A Scan over the first or the last dimension of a value, in either direction, with a state."""
    x = g.value(1, 2, 3)
    rank = len(g.shape(x))
    axis = g.pick(0, rank - 1)
    if not g.shape(x)[axis]:
        raise UnfitError
    element = np.take(g.known[x], 0, axis)
    start = g.array(np.zeros(element.shape, np.float32))
    body = _body(g)
    before, one = f"{body.prefix}before", f"{body.prefix}one"
    body.values |= {before: g.known[start], one: element}
    body.known |= body.values
    state = body.op("Tanh", body.op("Add", before, one))
    collected = [_element(body, g, state, one, one) for _ in range(g.number(1, 2))]
    ports = [(before, g.known[start]), (one, element)]
    made = [(name, body.known[name]) for name in (state, *collected)]
    graph = _declared_graph(g, body, ports, made)
    results = g.op(
        *(kind, start, x),
        outputs=len(made),
        body=graph,
        num_scan_inputs=1,
        scan_input_axes=[axis],
        scan_input_directions=[g.pick(0, 1)],
    )
    for result in results[1:]:
        _read(g, result)


def counted(g: Graph, kind: str) -> None:
    """As many as an input says: the largest ones, the first ones, zeros, copies, numbers in a row."""
    if "turns" not in g.values:
        raise UnfitError
    count = g.op("Reshape", "turns", g.integers(1), keep=False)
    if kind == "ConstantOfShape":
        _read(g, g.op(kind, count))
        return
    if kind == "Range":
        _read(
            g,
            g.op("Cast", g.op(kind, g.scalar(0, np.int64), "turns", g.scalar(1, np.int64)), to=TensorProto.FLOAT),
        )
        return
    x = g.value(1, 2, 3)
    if kind == "TopK":
        size = g.op("Gather", g.op("Shape", x, keep=False), g.integers(len(g.shape(x)) - 1), keep=False)
        minimum = g.op("Where", g.op("Less", count, size, keep=False), count, size, keep=False)
        _read(g, g.op(kind, x, minimum, outputs=2, axis=-1)[0])
    elif kind == "Slice":
        _read(g, g.op(kind, x, g.integers(0), count, g.integers(0)))
    elif kind == "Tile":
        ones = [1] * (len(g.shape(x)) - 1)
        _read(g, g.op(kind, x, g.op("Concat", count, g.integers(*ones), axis=0, keep=False) if ones else count))
    else:  # Pad
        zeros = g.integers(*[0] * (2 * len(g.shape(x)) - 1))
        _read(g, g.op(kind, x, g.op("Concat", zeros, count, axis=0, keep=False)))


def found(g: Graph, kind: str) -> None:
    """What a value has above a number, which may be nothing."""
    x = g.value(1, 2)
    above = g.op("Greater", x, g.scalar(g.pick(0.0, 0.5, 50.0)), keep=False)
    if kind == "Compress":
        if len(g.shape(x)) == 2:
            above = g.op("Reshape", above, g.integers(-1), keep=False)
        _read(g, g.op(kind, x, above))
        return
    places = g.op("Transpose", g.op("NonZero", above, keep=False), perm=[1, 0], keep=False)
    _read(g, g.op("GatherND", x, places))


def _body(g: Graph) -> Graph:
    body = Graph(g.choices, g.random, g.opset, f"{g.prefix}body{len(g.nodes)}_", {}, dict(g.known))
    body.nasty = False
    return body


def _few(body: Graph, name: str) -> str:
    for kind in body.pick(
        ("Tanh",), ("Relu", "Neg"), ("Identity",), ("Abs", "Identity", "Neg"), ("Sigmoid", "Neg", "Neg")
    ):
        name = body.op(kind, name)
    return name


def _element(body: Graph, g: Graph, state: str, carried: str, outside: str) -> str:
    form = body.pick("state", "before", "outside", "sum", "first", "shape", "folded")
    if form in {"state", "before", "outside"}:
        return body.op("Identity", {"state": state, "before": carried, "outside": outside}[form])
    if form == "sum":
        return body.op("ReduceMax", state, keepdims=body.pick(0, 1))
    if form == "first" and body.shape(state):
        return body.op("Slice", state, body.integers(0), body.integers(1), body.integers(0))
    if form == "shape":
        return body.op("Cast", body.op("Shape", state, keep=False), to=TensorProto.FLOAT)
    return body.op("Mul", body.op("Mul", state, body.scalar(2.0)), body.scalar(0.5))


def _turns(g: Graph) -> str:
    if "turns" in g.values and not g.sometimes(3):
        return "turns"
    if g.sometimes(2) and (
        ranked := [name for name, array in g.values.items() if array.ndim and array.dtype == np.float32]
    ):
        size = g.op("Shape", g.pick(*ranked), keep=False)
        return g.op("Gather", size, g.scalar(0, np.int64), keep=False)
    return g.scalar(g.pick(0, 1, 2, 5), np.int64)


def _loop(g: Graph, kind: str, inputs: Sequence[str], graph, none: Sequence[np.ndarray]) -> list[str]:
    """The reference does not take a loop of no turn that collects."""
    try:
        return list(g.op(kind, *inputs, outputs=len(none), body=graph))
    except UnfitError:
        if not (inputs[0] in g.known and g.known[inputs[0]] == 0):
            raise
    results = [f"{g.prefix}v{len(g.nodes)}_{place}" for place in range(len(none))]
    g.nodes.append(helper.make_node(kind, list(inputs), results, body=graph))
    g.known |= dict(zip(results, none, strict=True))
    return results


def _none_of(element: np.ndarray) -> np.ndarray:
    return np.zeros((0, *element.shape), element.dtype)


def _read(g: Graph, name: str) -> None:
    """What comes next depends on the rank or on the width of a value that may be empty."""
    shape = g.shape(name)
    form = g.pick("sum", "product", "flat", "max", "joined", "size", "as it is")
    if g.known[name].dtype != np.float32:
        form = "size"
    if form == "product" and len(shape) >= 2 and shape[-1]:
        g.add(_node(g, "MatMul", [name, g.array(g.random.uniform(-1, 1, (shape[-1], 3)).astype(np.float32))]))
    elif form == "flat" and len(shape) >= 2:
        g.add(_node(g, "Flatten", [name], axis=g.pick(0, 1)))
    elif form == "max" and len(shape) >= 2:
        g.add(_node(g, "Softmax", [name], axis=-1))
    elif form == "joined" and len(shape) >= 1:
        row = g.array(np.ones((1, *shape[1:]), np.float32))
        g.add(_node(g, "Concat", [name, row], axis=0))
    elif form == "size":
        g.add(_node(g, "Shape", [name]))
    elif form == "sum":
        g.add(_node(g, "ReduceSum", [name], keepdims=0))


def _node(g: Graph, kind: str, inputs: Sequence[str], **more) -> NodeProto:
    return helper.make_node(kind, list(inputs), [f"{g.prefix}v{len(g.nodes)}"], **more)


def _declared_graph(g: Graph, body: Graph, inputs: list, outputs: list):
    ports = [[_port(g, *one) for one in group] for group in (inputs, outputs)]
    weights = [numpy_helper.from_array(array, name) for name, array in body.weights.items()]
    within = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(body.known[name].dtype), body.shape(name)
        )
        for node in body.nodes
        for name in node.output
        if name in body.known and name not in {port.name for port in ports[1]}
    ]
    declared_within = within if g.sometimes(4) else []
    return helper.make_graph(body.nodes, "body", *ports, weights, value_info=declared_within)


def _port(g: Graph, name: str, array: np.ndarray) -> ValueInfoProto:
    how = g.pick(*DECLARED) if array.dtype == np.float32 else "exactly"
    kind = helper.np_dtype_to_tensor_dtype(array.dtype)
    if how == "not at all":
        return helper.make_tensor_value_info(name, kind, None)
    return helper.make_tensor_value_info(name, kind, array.shape if how == "exactly" else [None] * array.ndim)
