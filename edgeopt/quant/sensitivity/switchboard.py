"""The float model with switches: each layer can run as one of its forms would compute it, in a single session.

Each layer is in the branches of `If` nodes, whose conditions are an input of the graph. A branch that is off
costs nothing, the weights of every branch are constants that the runtime packs once, and a run costs about as much
as one of the float model: many layers can be tried, one by one or together, without building a session for each.
"""

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from edgeopt.backends.base import Array
from edgeopt.data.samples import Samples
from edgeopt.quant.forms.base import Form, FormContext
from edgeopt.quant.records import FLOAT, Layer
from edgeopt.quant.sensitivity.fakes import Fakes, twin

if TYPE_CHECKING:
    import onnx_ir as ir

GATES = "edgeopt_gates"
"""The input that says which branches are on; one truth value for each layer and form."""


# Single runs of small models gain little from more threads; runs side by side do, and each needs its own memory.
_MOST_WORKERS = 4


class Switchboard:
    """Runs a float model with any choice of forms simulated; close it, or use it in a `with`.

    `forms` has, for each layer that may change, the names of the forms that it may take. `run` may be called by
    `workers` threads at once. What a runtime rounds otherwise than the simulation (its accumulators, its fused
    operators) is not seen here.
    """

    def __init__(
        self,
        model: "ir.Model",
        layers: Sequence[Layer],
        forms: Mapping[str, Sequence[str]],
        context: FormContext,
        registry: Sequence[Form] | None = None,
    ) -> None:
        """`registry`: where the forms are looked up, all of edgeopt's unless told."""
        known = {form.name: form for form in (_registry() if registry is None else registry)}
        self.model, self.context = model, context
        self.layers = tuple(layer for layer in layers if forms.get(layer.name))
        self.forms = {layer.name: tuple(known[form] for form in forms[layer.name]) for layer in self.layers}
        self.pairs = tuple((layer.name, form.name) for layer in self.layers for form in self.forms[layer.name])
        """Each layer with each of its forms."""
        self.workers = min(_cores(), _MOST_WORKERS)
        self._places = {pair: place for place, pair in enumerate(self.pairs)}
        self._session = session(with_switches(model, self.layers, self.forms, context), _cores() // self.workers)
        self.outputs = tuple(output.name for output in self._session.get_outputs())

    def run(self, choices: Mapping[str, str], feeds: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs with these layers in these forms; the others are float."""
        gates = np.zeros(len(self._places), np.bool_)
        for layer, form in choices.items():
            if form != FLOAT:
                gates[self._places[layer, form]] = True
        given = {**feeds, GATES: gates} if self._places else dict(feeds)
        return dict(zip(self.outputs, self._session.run(None, given), strict=True))

    def run_all(self, choices: Mapping[str, str], samples: Samples) -> list[dict[str, Array]]:
        """The same for all samples, several at a time."""
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
    forms: Mapping[str, Sequence[Form]],
    context: FormContext,
) -> "ir.Model":
    """A copy of the model with a switch around each layer; it shares the float weights."""
    from edgeopt.quant.layers import nodes_by_key

    copy = model.clone()
    nodes = nodes_by_key(copy.graph)
    gates = _gates(copy.graph, sum(len(forms[layer.name]) for layer in layers))
    fakes = Fakes(model, copy, context)
    for layer in layers:
        ways = [(next(gates), form) for form in forms[layer.name]]
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
    """One value for each switch, all from one input: a feed for each would cost more than the switches do."""
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
    node: "ir.Node", key: str, layer: Layer, ways: "Sequence[tuple[ir.Value, Form]]", fakes: Fakes
) -> "ir.Node":
    """The first form whose gate is on, or else the node as it is."""
    import onnx_ir as ir

    (gate, form), rest = ways[0], ways[1:]
    faked, results = fakes.nodes(key, layer, form)
    inner = _switch(node, key, layer, rest, fakes) if rest else twin(node)
    for place, value in enumerate(inner.outputs):
        value.name = f"{key}/not {form.name}/{place}"
    branches = {
        "then_branch": ir.Graph([], results, nodes=faked, name=f"{key}/{form.name}"),
        "else_branch": ir.Graph([], inner.outputs, nodes=[inner], name=f"{key}/not {form.name}"),
    }
    attributes = [ir.AttrGraph(name, graph) for name, graph in branches.items()]
    return ir.Node("", "If", [gate], attributes, num_outputs=len(node.outputs), name=f"{key}/switch/{form.name}")


def _registry() -> Sequence[Form]:
    from edgeopt.quant.forms import FORMS

    return FORMS


def session(model: "ir.Model", threads: int) -> Any:  # noqa: ANN401 - ONNX Runtime has no types
    """Runs a model, which is of no use afterwards.

    It goes by way of a file, which takes any size and is gone once it is loaded. The weights of the graph are let
    go at once: graphs refer to themselves, so that they would stay until a collection of garbage.
    """
    import onnxruntime as ort

    from edgeopt.graph.files.saving import save

    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    with tempfile.TemporaryDirectory(prefix="edgeopt-switchboard-") as folder:
        path = Path(folder) / "model.onnx"
        save(model, path)
        for value in model.graph.initializers.values():
            value.const_value = None
        return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def _cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
