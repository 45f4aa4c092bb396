"""An addition and the layer or RMS normalization behind it become one operator of ONNX Runtime.

On request: on processors its kernels were measured to be slower than the two operators (whole models 0.83 to
0.98 times as fast, by version 1.31); they are for graphics processors.
"""

from typing import TYPE_CHECKING

from edgeopt.graph.passes.base import Notes, Pass, PassContext, PassResult, is_op, label, plural
from edgeopt.graph.passes.knowledge.heads import same_extent
from edgeopt.graph.passes.knowledge.matching import homes, producer, rank

if TYPE_CHECKING:
    import onnx_ir as ir

OPERATORS = {
    "LayerNormalization": "SkipLayerNormalization",
    "RMSNormalization": "SkipSimplifiedLayerNormalization",
    "SimplifiedLayerNormalization": "SkipSimplifiedLayerNormalization",
}


def apply(model: "ir.Model", context: PassContext) -> PassResult:  # noqa: ARG001 - every pass has this signature
    """Fuses every addition with the normalization of its result, in subgraphs too."""
    model, notes, done = model.clone(), Notes(), []
    for part, _ in homes(model):
        for node in list(part):
            add = producer(node.inputs[0], "Add") if is_op(node, *OPERATORS) else None
            if add is None:
                continue
            if reason := _refusal(node, add):
                notes.refuse(reason, label(node))
                continue
            _fuse(model, part, node, add)
            done.append(label(node))
    if done:
        notes.did(f"fused {plural(len(done), 'normalization')} with the addition before", *done)
    return notes.result(model)


def _refusal(node: "ir.Node", add: "ir.Node") -> str | None:
    one, other = add.inputs
    if one is None or other is None or add.graph is not node.graph:
        return f"{label(add)} is outside the subgraph that holds the normalization"
    axis = node.attributes["axis"].as_int() if "axis" in node.attributes else -1
    if axis not in {-1, (rank(one) or 0) - 1}:
        return "it goes over more than the last dimension"
    if any(rank(value) != 3 for value in (one, other)):
        return "the added tensor may not have three dimensions"
    if not all(same_extent(one, at, other, at) for at in range(3)):
        return "the shapes of the added tensors may differ"
    if any(output.name and output.uses() for output in node.outputs[1:]):
        return "its mean or deviation is used too"
    return None


def _fuse(model: "ir.Model", part: "ir.Graph | ir.Function", node: "ir.Node", add: "ir.Node") -> None:
    import onnx_ir as ir

    total, old = add.outputs[0], node.outputs[0]
    others = [use for use in total.uses() if use.node is not node]
    keeps_total = bool(others) or total.is_graph_output()
    epsilon = node.attributes["epsilon"].as_float() if "epsilon" in node.attributes else 1e-5
    fused = ir.node(
        OPERATORS[node.op_type],
        [*add.inputs, *node.inputs[1:]],
        {"epsilon": epsilon},
        domain="com.microsoft",
        num_outputs=4 if keeps_total else 1,
        name=node.name,
    )
    model.opset_imports.setdefault("com.microsoft", 1)
    part.opset_imports.setdefault("com.microsoft", 1)
    # Behind the addition, before all that uses it; scale and shift are weights, or they are made before.
    part.insert_before(_first(part, [node, *(use.node for use in others)]), fused)
    taken = [(old, fused.outputs[0]), *([(total, fused.outputs[3])] if keeps_total else [])]
    for unnamed in fused.outputs[1:3]:
        unnamed.name = ""
    for before, after in taken:
        name = before.name
        after.shape, after.type = before.shape, before.type
        before.replace_all_uses_with(after, replace_graph_outputs=True)
        before.name, after.name = f"{name}__replaced", name
    for gone in (node, add):
        part.remove(gone, safe=True)


def _first(part: "ir.Graph | ir.Function", nodes: "list[ir.Node]") -> "ir.Node":
    """The first of these nodes; a node in a subgraph counts as the one that holds the subgraph."""
    wanted = {node for node in nodes if node.graph is part}
    return next(node for node in part if node in wanted)


PASS = Pass(
    "ort-skip-normalization",
    "normalizations take in the addition before them",
    apply,
    100.0,
    on_request=True,
)
