"""Brings a model to the opset that every later pass and all backends understand: 17, unless told otherwise.

From 9 on `opset_changes` knows what operators write differently, so that nodes are changed where they stand, in
subgraphs too. What it cannot change, and older models, go through onnx's converter up to 13, which does not look
into subgraphs.
"""

from typing import TYPE_CHECKING

from edgeopt.graph.passes.base import (
    Notes,
    Pass,
    PassContext,
    PassResult,
    inner_graphs,
    is_op,
    label,
    nodes_of,
    quiet,
)
from edgeopt.graph.passes.knowledge.opset_changes import CHANGES, OLDEST

if TYPE_CHECKING:
    import onnx_ir as ir

COMPATIBLE_FROM = 13


def apply(model: "ir.Model", context: PassContext) -> PassResult:
    """Raises the opset to the target where it is older."""
    from onnx.defs import onnx_opset_version
    from onnx_ir.passes import common

    source, model, notes = model, context.copy(model), Notes()
    reasons: dict[str, str] = {}
    before, after = model.opset_imports.get("", context.target_opset), context.target_opset
    if after > onnx_opset_version():
        notes.refuse(f"there is no opset {after}; the newest known here is {onnx_opset_version()}")
    elif before < after and model.functions:
        notes.refuse(f"the model has functions, whose opset ({before}) cannot be converted")
    if before >= after or notes.refused:
        return notes.result(model)
    changed = model.clone()
    if before < OLDEST or (reasons := _change(changed, before, after)):
        branching = [label(node) for node in model.graph if any(True for _ in inner_graphs(node))]
        if before < COMPATIBLE_FROM and not branching:
            _convert(model, COMPATIBLE_FROM, notes)
            changed, reasons = model, {} if notes.refused else _change(model, COMPATIBLE_FROM, after)
        elif before < OLDEST:
            notes.refuse(f"onnx's converter, which opset {before} needs, does not look into subgraphs", *branching)
            reasons = {}
        for node, reason in reasons.items():
            notes.refuse(reason, node)
    if notes.refused:
        return PassResult(source, (), notes.result(source).refused)
    with quiet():
        common.NameFixPass()(changed)
    changed.graph.opset_imports[""] = after
    changed.ir_version = max(changed.ir_version, _oldest_ir_version(after))
    notes.did(f"raised the opset from {before} to {after}")
    return notes.result(changed)


def _change(model: "ir.Model", before: int, after: int) -> dict[str, str]:
    """Brings all nodes into the form of the newer opset, one opset after the other; why not, by node."""
    reasons: dict[str, str] = {}
    for version in range(before + 1, after + 1):
        changes = CHANGES.get(version, {})
        for node in list(nodes_of(model)) if changes else ():
            change = changes.get(node.op_type) if is_op(node, node.op_type) else None
            reason = change(node) if change else None
            if reason is not None:
                reasons[label(node)] = reason
    return reasons


def _oldest_ir_version(opset: int) -> int:
    from onnx.helper import OP_SET_ID_VERSION_MAP

    return int(OP_SET_ID_VERSION_MAP.get(("ai.onnx", opset), 8))


def _convert(model: "ir.Model", after: int, notes: Notes) -> None:
    import onnx.version_converter
    import onnx_ir as ir

    names = [value.name for value in model.graph.inputs]
    proto = ir.to_proto(_with_weights_as_inputs(model))
    try:
        with quiet():
            converted = onnx.version_converter.convert_version(proto, after)
    except (RuntimeError, ValueError, IndexError) as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        notes.refuse(f"onnx's converter failed: {lines[-1].strip()}")
        return
    graph = ir.from_proto(converted).graph
    inputs = [value for value in graph.inputs if value.name in names]
    graph.inputs.clear()
    graph.inputs.extend(inputs)
    model.graph = graph


def _with_weights_as_inputs(model: "ir.Model") -> "ir.Model":
    """The converter knows no weights but those that are inputs too, as it was before IR version 4."""
    import onnx_ir as ir
    from onnx_ir.passes import common

    listed = ir.external_data.load_to_model(model.clone())
    common.AddInitializersToInputsPass()(listed)
    return listed


PASS = Pass("raise-opset", "older opsets are raised to 17, or to --opset", apply)
