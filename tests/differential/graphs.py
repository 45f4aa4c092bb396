"""Random models: steps from the table, inputs with open dimensions, outputs from the end and from within.

They are valid, they compute something, and they hold what breaks rules that are only nearly right. What is
undefined (a cast beyond the type, an integer divided by zero) and what is random is left out.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import helper, numpy_helper

from tests.differential.growing import Choices, Graph
from tests.differential.regimes import SIZES, TRIPS, Input, feeds
from tests.differential.table import STEPS, Operator

OPSETS = (17, 13, 15, 18, 20)
BYTES = 200
MAX_STEPS = 8
MAX_NODES = 24
MAX_OUTPUTS = 4

INPUTS = (
    Input("rows", np.float32, ("batch", 4)),
    Input("words", np.float32, ("batch", "length", 6)),
    Input("picture", np.float32, ("batch", 4, 6, 5)),
    Input("ids", np.int64, ("batch", "length")),
    Input("number", np.float32, ()),
    Input("flag", np.bool_, ()),
    Input("counts", np.int32, (4,)),
    Input("trips", np.int64, (), choices=TRIPS),
)
FLOATS = ("rows", "words", "picture", "number")


@dataclass(frozen=True)
class Case:
    """A random model and what it is fed."""

    model: onnx.ModelProto
    inputs: tuple[Input, ...]
    data: bytes = b""
    """What it was made from."""

    @property
    def opset(self) -> int:
        return int(self.model.opset_import[0].version)

    @property
    def sizes(self) -> range:
        """How many sizes there are of its open dimensions."""
        return range(len(SIZES) if any(isinstance(d, str) for one in self.inputs for d in one.dims) else 1)


def cases() -> st.SearchStrategy[Case]:
    """Hypothesis draws bytes and no decisions: it is ten times quicker, and no graph is half the one before."""
    return st.binary(min_size=BYTES, max_size=2 * BYTES).map(case_from)


def case_from(
    data: bytes,
    max_steps: int = MAX_STEPS,
    steps: Sequence[Operator] = STEPS,
    more: tuple[Input, ...] = (),
) -> Case:
    """A model of a few steps; dimensions known or open, some weights perhaps listed as inputs.

    `more`: inputs that it has besides those that are drawn.
    """
    choices = Choices(data)
    opset = OPSETS[choices.below(len(OPSETS))]
    g = Graph(choices, np.random.default_rng(choices.below(1 << 16)), opset)
    g.nasty = not g.sometimes(3)
    inputs = (*_inputs(g), *more)
    for name, array in feeds(inputs, 0).items():
        g.values[name] = g.known[name] = array
    given = set(g.values)
    for _ in range(g.number(1, max_steps)):
        one = g.pick(*(step for step in steps if step.since <= opset))
        g.step(lambda graph, one=one: one.grow(graph, one.kind))
        if len(g.nodes) >= MAX_NODES:
            break
    if not any(node.op_type != "Constant" for node in g.nodes):
        g.op("Identity", next(iter(given)))
    return Case(_model(g, inputs, _outputs(g)), inputs, data)


def _inputs(g: Graph) -> tuple[Input, ...]:
    """One to three inputs, of known sizes or of open ones."""
    main = g.pick(*FLOATS)
    names = {main, *(g.pick(*(one.name for one in INPUTS)) for _ in range(g.number(0, 2)))}
    chosen = [one for one in INPUTS if one.name in names]
    if g.sometimes(3):
        return tuple(chosen)
    known = SIZES[0]
    return tuple(replace(one, dims=one.shape(known)) for one in chosen)


def _outputs(g: Graph) -> list[str]:
    made = [name for node in g.nodes if node.op_type != "Constant" for name in node.output if name]
    read = {name for node in g.nodes for name in node.input} | _read_within(g.nodes)
    outputs = [name for name in made if name not in read][-MAX_OUTPUTS:]
    if g.sometimes(3) or not outputs:
        outputs += [name for name in (g.pick(*made[-6:]),) if name not in outputs]
    return outputs


def _read_within(nodes: Any) -> set[str]:
    graphs = [attribute.g for node in nodes for attribute in node.attribute if attribute.HasField("g")]
    found = {name for graph in graphs for node in graph.node for name in node.input}
    return found.union(*(_read_within(graph.node) for graph in graphs))


def _model(g: Graph, inputs: tuple[Input, ...], outputs: list[str]) -> onnx.ModelProto:
    ports = [helper.make_tensor_value_info(i.name, _type(np.dtype(i.dtype)), i.dims) for i in inputs]
    if g.sometimes(8) and g.weights:
        some = list(g.weights)[:: g.pick(1, 2)]
        ports += [helper.make_tensor_value_info(n, _type(g.weights[n].dtype), g.weights[n].shape) for n in some]
    results = [
        helper.make_tensor_value_info(n, _type(g.known[n].dtype), [None] * g.known[n].ndim) for n in outputs
    ]
    weights = [numpy_helper.from_array(array, name) for name, array in g.weights.items()]
    graph = helper.make_graph(g.nodes, "random", ports, results, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", g.opset)], ir_version=8)


def _type(dtype: np.dtype) -> int:
    return int(helper.np_dtype_to_tensor_dtype(dtype))
