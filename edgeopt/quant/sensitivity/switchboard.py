"""The float model with switches: each layer can run in one of its schemes, simulated, in a single session.

Each layer is in the branches of `If` nodes, whose conditions are an input of the graph. A branch that is off costs
nothing, the runtime packs the constant weights of every branch once, and a run takes about as long as one of the
float model: many layers can be tried, one by one or together, without creating a session for each.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from edgeopt.backends.base import Array
from edgeopt.data.samples import Samples
from edgeopt.graph.nodes import constant
from edgeopt.platform.processes import usable_cores
from edgeopt.quant.records import FLOAT, Layer
from edgeopt.quant.schemes.base import Scheme, SchemeContext
from edgeopt.quant.schemes.qdq import division, multiplied
from edgeopt.quant.schemes.writer import Writer
from edgeopt.workspace import temporary_folder

if TYPE_CHECKING:
    import onnx_ir as ir


class Fakes:
    """Creates nodes that simulate schemes for `target`, a copy of `model`; equal constants are added to its
    initializers once.

    Schemes examine the surroundings of a layer (its readers, known ranges), so they insert their nodes into a
    second copy that otherwise stays unchanged; from there the nodes are copied.
    """

    def __init__(self, model: "ir.Model", target: "ir.Model", context: SchemeContext) -> None:
        from edgeopt.quant.layers import nodes_by_key

        self.context = context
        self._target = target.graph
        self._sketch = model.clone().graph
        self._nodes = nodes_by_key(self._sketch)
        self._own = frozenset(self._sketch)
        self._values = {value.name: value for value in _values(self._target)}
        self._weights: dict[str, list[ir.Value]] = {}
        self._count = 0

    def nodes(
        self, key: str, layer: Layer, scheme: Scheme, *, round_outputs: bool = True
    ) -> "tuple[list[ir.Node], tuple[ir.Value, ...]]":
        """Returns new nodes, not inserted yet, and the values that replace the node's own outputs."""
        node = self._nodes[key]
        made: list[ir.Node] = []
        faked: dict[ir.Value, ir.Value] = {}
        inputs: list[ir.Value | None] = []
        for value in node.inputs:
            if value is None:
                inputs.append(None)
            elif layer.weight and value.name == layer.weight:
                inputs.append(self._weight(layer, scheme))
            elif value.name in layer.inputs:
                if value not in faked:
                    source = self._smoothed(node, value, layer, scheme)
                    result = scheme.fake_input(self._sketch, node, source, layer, self.context)
                    faked[value] = self._lifted(result, value, self._values[value.name], made)
                inputs.append(faked[value])
            else:
                inputs.append(self._values[value.name])
        product = twin(node, inputs)
        made.append(product)
        self._name(product)
        outputs = list(product.outputs)
        if scheme.fake_output is not None and round_outputs:
            value = node.outputs[0]
            result = scheme.fake_output(self._sketch, node, value, layer, self.context)
            outputs[0] = self._lifted(result, value, outputs[0], made)
        return made, tuple(outputs)

    def _smoothed(self, node: "ir.Node", value: "ir.Value", layer: Layer, scheme: Scheme) -> "ir.Value":
        how = self.context.smoothing.get(layer.name) if scheme.smooths else None
        if how is None:
            return value
        dividing = division(Writer(self._sketch, counted=True), value, how)
        self._sketch.insert_before(node, dividing)
        return dividing.outputs[0]

    def reads(self, value: "ir.Value") -> None:
        """Makes nodes that are created later read this value under its name."""
        self._values[value.name] = value

    def _lifted(
        self, result: "ir.Value", source: "ir.Value", stand_in: "ir.Value", made: "list[ir.Node]"
    ) -> "ir.Value":
        """Copies the nodes from `source` to `result` and removes the originals from the sketch."""
        between = self._inserted(result)
        mapped = {source: stand_in}
        for node in between:
            inputs = [None if v is None else mapped[v] if v in mapped else self._outer(v) for v in node.inputs]
            copy = twin(node, inputs)
            self._name(copy)
            made.append(copy)
            mapped.update(zip(node.outputs, copy.outputs, strict=True))
        self._sketch.remove(between[::-1], safe=True)
        return mapped[result]

    def _inserted(self, result: "ir.Value") -> "list[ir.Node]":
        """Returns the nodes that a scheme put before a value, in their order."""
        found: dict[ir.Node, None] = {}

        def visit(value: "ir.Value | None") -> None:
            node = value.producer() if value is not None else None
            if node is None or node in found or node in self._own:
                return
            for each in node.inputs:
                visit(each)
            found[node] = None

        visit(result)
        return list(found)

    def _outer(self, value: "ir.Value") -> "ir.Value":
        """Returns the target's value for another input of a scheme's node: a constant, or a value of the model."""
        import onnx_ir as ir

        known = self._values.get(value.name)
        if known is None:
            known = ir.Value(name=value.name, type=value.type, shape=value.shape, const_value=value.const_value)
            self._target.register_initializer(known)
            self._values[value.name] = known
        return known

    def _weight(self, layer: Layer, scheme: Scheme) -> "ir.Value":
        """Returns the weights as the scheme can represent them; schemes that round alike share them."""
        import onnx_ir as ir

        source = self.context.weights.get(layer.weight)
        if source is None:
            source = constant(self._values[layer.weight])
        assert source is not None  # noqa: S101 - layers have constant weights
        if scheme.smooths and layer.name in self.context.smoothing:
            source = multiplied(source, layer, self.context.smoothing[layer.name])
        array = np.ascontiguousarray(scheme.fake_weights(source, layer, self.context), np.float32)
        made = self._weights.setdefault(layer.name, [])
        for value in made:
            if np.array_equal(value.const_value.numpy(), array):
                return value
        self._count += 1
        value = ir.Value(name=f"{layer.weight}/{scheme.name}/{self._count}", const_value=ir.tensor(array))
        value.type, value.shape = ir.TensorType(ir.DataType.FLOAT), ir.Shape(array.shape)
        self._target.register_initializer(value)
        made.append(value)
        return value

    def _name(self, node: "ir.Node") -> None:
        """Gives a node and its outputs unique names: a value in a branch must not hide one outside."""
        self._count += 1
        node.name = f"edgeopt/{self._count}"
        for place, value in enumerate(node.outputs):
            value.name = f"edgeopt/{self._count}/{place}"


def twin(node: "ir.Node", inputs: "list[ir.Value | None] | None" = None) -> "ir.Node":
    """Returns a copy of a node with outputs of its own."""
    import onnx_ir as ir

    copy = ir.Node(
        node.domain,
        node.op_type,
        node.inputs if inputs is None else inputs,
        node.attributes.values(),
        num_outputs=len(node.outputs),
        version=node.version,
    )
    for old, new in zip(node.outputs, copy.outputs, strict=True):
        new.type = old.type
    return copy


def _values(graph: "ir.Graph") -> "list[ir.Value]":
    return [*graph.inputs, *graph.initializers.values(), *(value for node in graph for value in node.outputs)]


GATES = "edgeopt_gates"
"""The input that switches branches on; one truth value for each layer and scheme."""


# Single runs of small models gain little from more threads; parallel runs gain more, but each needs memory.
_MAX_WORKERS = 4


class GatedModel:
    """A float model that runs with any choice of simulated schemes; a context manager that releases the session.

    `schemes` has the names of the possible schemes of each layer that may change. `run` may be called by `workers`
    threads at once. Differences between the simulation and a runtime (its accumulators, its fused operators) are
    not measured here.
    """

    def __init__(
        self,
        model: "ir.Model",
        layers: Sequence[Layer],
        schemes: Mapping[str, Sequence[str]],
        context: SchemeContext,
        registry: Sequence[Scheme] | None = None,
    ) -> None:
        """Creates the session; `registry` has the schemes to look up, by default all of edgeopt's."""
        known = {scheme.name: scheme for scheme in (_registry() if registry is None else registry)}
        self.model, self.context = model, context
        self.layers = tuple(layer for layer in layers if schemes.get(layer.name))
        self.schemes = {
            layer.name: tuple(known[scheme] for scheme in schemes[layer.name]) for layer in self.layers
        }
        self.pairs = tuple(
            (layer.name, scheme.name) for layer in self.layers for scheme in self.schemes[layer.name]
        )
        """Each layer with each of its schemes."""
        self.workers = min(_cores(), _MAX_WORKERS)
        self._places = {pair: place for place, pair in enumerate(self.pairs)}
        self._session = session(with_switches(model, self.layers, self.schemes, context), _cores() // self.workers)
        self.outputs = tuple(output.name for output in self._session.get_outputs())

    def run(self, choices: Mapping[str, str], feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Returns the outputs with these layers in these schemes; the others are float."""
        gates = np.zeros(len(self._places), np.bool_)
        for layer, scheme in choices.items():
            if scheme != FLOAT:
                gates[self._places[layer, scheme]] = True
        inputs = {**feeds, GATES: gates} if self._places else dict(feeds)
        return dict(zip(self.outputs, self._session.run(None, inputs), strict=True))

    def run_all(self, choices: Mapping[str, str], samples: Samples) -> list[dict[str, Array]]:
        """Returns the outputs for all samples, several at a time."""
        with ThreadPoolExecutor(self.workers) as pool:
            return list(pool.map(lambda k: self.run(choices, samples.feeds(k)), range(len(samples))))

    def close(self) -> None:
        self._session = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def with_switches(
    model: "ir.Model",
    layers: Sequence[Layer],
    schemes: Mapping[str, Sequence[Scheme]],
    context: SchemeContext,
) -> "ir.Model":
    """Returns a copy of the model with a switch around each layer; the copy shares the float weights."""
    from edgeopt.quant.layers import nodes_by_key

    copy = model.clone()
    nodes = nodes_by_key(copy.graph)
    gates = _gates(copy.graph, sum(len(schemes[layer.name]) for layer in layers))
    fakes = Fakes(model, copy, context)
    for layer in layers:
        ways = [(next(gates), scheme) for scheme in schemes[layer.name]]
        for key in layer.nodes:
            node = nodes[key]
            names = [value.name for value in node.outputs]
            switch = _switch(node, key, layer, ways, fakes)
            copy.graph.insert_before(node, switch)
            for old, name, new in zip(node.outputs, names, switch.outputs, strict=True):
                new.type = old.type
                new.shape = old.shape if old.is_graph_output() else None
                old.replace_all_uses_with(new, replace_graph_outputs=True)
                old.name, new.name = None, name
                fakes.reads(new)
            copy.graph.remove(node, safe=True)
    return copy


def _gates(graph: "ir.Graph", count: int) -> "Iterator[ir.Value]":
    """Yields a value for each switch, all from one input: a feed for each would cost more than the switches."""
    import onnx_ir as ir

    if not count:
        return
    gates = ir.Value(name=GATES, type=ir.TensorType(ir.DataType.BOOL), shape=ir.Shape([count]))
    graph.inputs.append(gates)
    sizes = ir.Value(name=f"{GATES}_sizes", const_value=ir.tensor(np.ones(count, np.int64)))
    graph.register_initializer(sizes)
    split = ir.Node("", "Split", [gates, sizes], num_outputs=count, name=f"{GATES}_split")
    for place, output in enumerate(split.outputs):
        output.name = f"{GATES}_{place}"
    graph.insert_before(graph[0], split)
    yield from split.outputs


def _switch(
    node: "ir.Node", key: str, layer: Layer, ways: "Sequence[tuple[ir.Value, Scheme]]", fakes: Fakes
) -> "ir.Node":
    """Returns a switch to the first scheme whose gate is on, or else to the unchanged node."""
    import onnx_ir as ir

    (gate, scheme), rest = ways[0], ways[1:]
    faked, results = fakes.nodes(key, layer, scheme)
    inner = _switch(node, key, layer, rest, fakes) if rest else twin(node)
    for place, value in enumerate(inner.outputs):
        value.name = f"{key}/not {scheme.name}/{place}"
    branches = {
        "then_branch": ir.Graph([], results, nodes=faked, name=f"{key}/{scheme.name}"),
        "else_branch": ir.Graph([], inner.outputs, nodes=[inner], name=f"{key}/not {scheme.name}"),
    }
    attributes = [ir.AttrGraph(name, graph) for name, graph in branches.items()]
    return ir.Node("", "If", [gate], attributes, num_outputs=len(node.outputs), name=f"{key}/switch/{scheme.name}")


def _registry() -> Sequence[Scheme]:
    from edgeopt.quant.schemes import SCHEMES

    return SCHEMES


def session(model: "ir.Model", threads: int) -> Any:  # noqa: ANN401 - ONNX Runtime has no types
    """Returns a session for a model; clears the weights of the model, which cannot be used afterwards.

    The session is created from a temporary file, which may be of any size. The weights are released at once,
    because graphs have reference cycles and would stay until a garbage collection.
    """
    import onnxruntime as ort

    from edgeopt.graph.files.saving import save

    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    with temporary_folder("switchboard") as folder:
        path = Path(folder) / "model.onnx"
        save(model, path)
        for value in model.graph.initializers.values():
            value.const_value = None
        return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def _cores() -> int:
    """Returns the number of cores that this process may use."""
    return len(usable_cores() or ()) or os.cpu_count() or 1
