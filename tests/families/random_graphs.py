"""Random valid graphs for property tests: each step adds an operator, or a pattern that passes look for.

Every value's shape is known while the graph grows, so that each operator gets operands that fit. What could make
two right answers differ is left out: comparisons of computed numbers, rounding, and random operators.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from tests.families.growing import Draw, Graph
from tests.families.random_elements import (
    binary,
    careful,
    cut,
    neutral,
    reshape,
    transpose,
    unary,
    with_constant,
)
from tests.families.random_layers import convolution, pattern, pooling, product, reduction


def choice(g: Graph) -> None:
    """Where by a known or unknown condition, or an If whose branches read values from outside."""
    x = g.value()
    shape, known = g.shapes[x], g.number(0, 2) == 0
    condition = g.array(np.array(g.pick(True, False))) if known else g.flag
    if g.pick(True, False):
        other = g.pick(*[name for name, one in g.shapes.items() if one == shape])
        g.op("Where", condition, x, other, keep=shape)
        return
    branches = []
    for side in ("then", "else"):
        inside = Graph(g.draw, g.random, g.opset, f"{g.prefix}{side}{len(g.nodes)}_", {x: shape}, flag=g.flag)
        for _ in range(g.number(0, 3)):
            g.pick(unary, neutral, careful, binary, with_constant, choice if len(g.prefix) < 8 else unary)(inside)
        result = [name for name, one in inside.shapes.items() if one == shape][-1]
        if result == x:
            result = inside.op("Identity", x)
        branches.append(_graph(inside, side, [], [(result, TensorProto.FLOAT, shape)]))
    g.op("If", condition, then_branch=branches[0], else_branch=branches[1], keep=shape)


def _graph(g: Graph, title: str, inputs: Sequence[Any], outputs: Sequence[Any]) -> onnx.GraphProto:
    ports = [[helper.make_tensor_value_info(*one) for one in group] for group in (inputs, outputs)]
    weights = [numpy_helper.from_array(array, name) for name, array in g.weights.items()]
    return helper.make_graph(g.nodes, title, *ports, weights)


STEPS = (
    unary,
    careful,
    binary,
    with_constant,
    neutral,
    neutral,
    reshape,
    transpose,
    cut,
    convolution,
    convolution,
    pooling,
    product,
    product,
    reduction,
    pattern,
    pattern,
    choice,
)
INPUTS = {"picture": (2, 4, 6, 5), "words": (2, 3, 6), "rows": (3, 4)}


@st.composite
def models(draw: Draw) -> onnx.ModelProto:
    """A model of 1 to 14 steps; batch known or open, some weights perhaps listed as inputs."""
    opset, seed = draw(st.sampled_from((13, 15, 17))), draw(st.integers(0, 999))
    g = Graph(draw, np.random.default_rng(seed), opset, shapes=dict(INPUTS), flag="flag")
    for step in draw(st.lists(st.sampled_from(STEPS), min_size=1, max_size=14)):
        step(g)
    made = [name for name in g.shapes if name not in INPUTS]
    read = {name for node in g.nodes for name in node.input}
    outputs = [name for name in made if name not in read][-4:] or made[-1:]
    if made and draw(st.booleans()):
        outputs = [
            *outputs,
            *(name for name in draw(st.lists(st.sampled_from(made), max_size=2)) if name not in outputs),
        ]
    if not outputs:
        outputs = [g.op("Identity", "rows", keep=INPUTS["rows"])]
    open_batch = draw(st.booleans())
    inputs: list[Any] = [
        (name, TensorProto.FLOAT, ["batch", *shape[1:]] if open_batch else shape) for name, shape in INPUTS.items()
    ]
    inputs.append(("flag", TensorProto.BOOL, []))
    if draw(st.booleans()):
        some = list(g.weights)[:: draw(st.integers(1, 3))]
        inputs += [(n, helper.np_dtype_to_tensor_dtype(g.weights[n].dtype), g.weights[n].shape) for n in some]
    ports = [(name, TensorProto.FLOAT, [None] * len(g.shapes[name])) for name in dict.fromkeys(outputs)]
    graph = _graph(g, "random", inputs, ports)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def feeds(seed: int = 0) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    values = {name: random.standard_normal(shape).astype(np.float32) for name, shape in INPUTS.items()}
    return {**values, "flag": np.array(bool(seed % 2))}
