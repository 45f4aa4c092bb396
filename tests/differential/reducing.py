"""A failing case made small, and the pass that is to blame for it."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import onnx
import onnx_ir as ir
from onnx import helper

from edgeopt.graph.pipeline import run_pipeline
from tests.differential import check
from tests.differential.graphs import Case
from tests.differential.interpreter import program
from tests.differential.regimes import feeds

Fails = Callable[[Case], bool]


def reduced(case: Case, fails: Fails) -> Case:
    """The smallest case found that still fails: fewer outputs, fewer nodes."""
    while True:
        for smaller in _smaller(case):
            if fails(smaller):
                case = smaller
                break
        else:
            return case


def guilty(case: Case, names: Sequence[str], skip: Sequence[str] = ()) -> str:
    """The pass after which the model is wrong for the first time, by the pipeline's own bisection."""

    def wrong(model: ir.Model) -> str | None:
        after = ir.to_proto(model)
        return next((str(one) for one in check.findings(case, lambda _: after, names)), None)

    result = run_pipeline(check.loaded(case.model), check=wrong, skip=skip)
    return ", ".join(f"{entry.pass_name} ({entry.rolled_back})" for entry in result.ledger if entry.rolled_back)


def _smaller(case: Case) -> Iterator[Case]:
    known = _values(case)
    outputs = [value.name for value in case.model.graph.output]
    if len(outputs) > 1:
        for name in outputs:
            yield _with(case, case.model.graph.node, [name], known)
    for node in case.model.graph.node[:-1]:
        for name in node.output:
            if name in known and node.op_type != "Constant":
                yield _with(case, case.model.graph.node, [name], known)
    for place, node in enumerate(case.model.graph.node):
        for name in node.input:
            if name in known and all(_same(known, name, one) for one in node.output):
                rest = [*case.model.graph.node[:place], *case.model.graph.node[place + 1 :]]
                renamed = [_renamed(one, dict.fromkeys(node.output, name)) for one in rest]
                kept = [one for one in outputs if one not in node.output]
                if kept:
                    yield _with(case, renamed, kept, known)


def _values(case: Case) -> dict[str, np.ndarray]:
    graph = case.model.graph
    made = program(graph, case.opset)
    values = {**made.weights, **feeds(case.inputs, 0)}
    names = tuple(name for node in graph.node for name in node.output if name)
    made = type(made)(made.steps, made.weights, names)
    return {**values, **{name: np.asarray(array) for name, array in made.run(feeds(case.inputs, 0)).items()}}


def _same(known: dict[str, np.ndarray], one: str, other: str) -> bool:
    return other in known and known[one].shape == known[other].shape and known[one].dtype == known[other].dtype


def _renamed(node: onnx.NodeProto, names: dict[str, str]) -> onnx.NodeProto:
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    for place, name in enumerate(copy.input):
        copy.input[place] = names.get(name, name)
    for attribute in copy.attribute:
        if attribute.HasField("g"):
            inner = [_renamed(one, names) for one in attribute.g.node]
            del attribute.g.node[:]
            attribute.g.node.extend(inner)
    return copy


def _with(case: Case, nodes: Sequence[onnx.NodeProto], outputs: list[str], known: dict[str, np.ndarray]) -> Case:
    """The nodes that these outputs need, and nothing else."""
    needed, kept = set(outputs), []
    for node in reversed(nodes):
        if needed & set(node.output):
            kept.append(node)
            needed |= _read(node)
    old = case.model.graph
    ports = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(known[n].dtype), [None] * known[n].ndim)
        for n in outputs
    ]
    weights = [weight for weight in old.initializer if weight.name in needed]
    inputs = [value for value in old.input if value.name in needed]
    graph = helper.make_graph(kept[::-1], "reduced", inputs, ports, weights)
    opsets = [helper.make_opsetid("", case.opset)]
    fed = tuple(one for one in case.inputs if one.name in needed)
    return Case(helper.make_model(graph, opset_imports=opsets, ir_version=8), fed)


def _read(node: onnx.NodeProto) -> set[str]:
    inner = [_read(one) for a in node.attribute if a.HasField("g") for one in a.g.node]
    return set(node.input).union(*inner)
