"""Brings a model to the opset that every later pass and all backends understand: 17, unless told otherwise.

From 9 on `opset_changes` knows what operators write differently, so that nodes are changed where they stand, in
subgraphs too. A step that it cannot take, up to 13, and the steps up to 9 are onnx's converter's, which does not
look into subgraphs.
"""

from collections.abc import Mapping
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
from edgeopt.graph.passes.knowledge.opset_changes import CHANGES, OLDEST, Change
from edgeopt.graph.shapes import infer_shapes

if TYPE_CHECKING:
    import onnx_ir as ir

COMPATIBLE_FROM = 13
MISCONVERTED = ("Dropout", "Hardmax", "Resize")
"""onnx's converter leaves these as they are where they mean something else in the newer opset."""


def apply(model: "ir.Model", context: PassContext) -> PassResult:
    """Raises the opset to the target where it is older."""
    from onnx.defs import onnx_opset_version
    from onnx_ir.passes import common

    source, model, notes = model, context.copy(model), Notes()
    before, after = model.opset_imports.get("", context.target_opset), context.target_opset
    if after > onnx_opset_version():
        notes.refuse(f"opset {after} does not exist; the newest supported is {onnx_opset_version()}")
    elif before < after and model.functions:
        notes.refuse(f"the model has functions, whose opset ({before}) cannot be converted")
    if before >= after or notes.refused:
        return notes.result(model)
    changed = _raised(model.clone(), before, after, notes)
    splits = [node for node in nodes_of(changed) if is_op(node, "Split")]
    counted = [label(node) for node in splits if "num_outputs" in node.attributes]
    notes.nonempty_only = bool(counted)
    if counted and context.empty_inputs:
        notes.refuse("its input may be empty, which runtimes refuse from opset 18 on", *counted)
    if notes.refused:
        return PassResult(source, (), notes.result(source).refused)
    with quiet():
        common.NameFixPass()(changed)
    changed.graph.opset_imports[""] = after
    changed.ir_version = max(changed.ir_version, _oldest_ir_version(after))
    notes.did(f"raised the opset from {before} to {after}")
    return notes.result(changed)


def _raised(model: "ir.Model", before: int, after: int, notes: Notes) -> "ir.Model":
    """One opset after the other; the converter takes a step only where `opset_changes` does not know it."""
    branching = [label(node) for node in model.graph if any(True for _ in inner_graphs(node))]
    if before < OLDEST:
        if branching:
            notes.refuse(f"onnx's converter, which opset {before} needs, does not look into subgraphs", *branching)
            return model
        before = min(OLDEST, after)
        _convert(model, before, notes)
    for version in range(before + 1, after + 1):
        changes = CHANGES.get(version, {})
        if notes.refused or not any(is_op(node, *changes) for node in nodes_of(model)):
            continue
        changed = model.clone()
        reasons = _change(changed, changes)
        if not reasons:
            model = changed
        elif version > COMPATIBLE_FROM or branching or any(is_op(node, *MISCONVERTED) for node, _ in reasons):
            for node, reason in reasons:
                notes.refuse(reason, label(node))
        else:
            model.graph.opset_imports[""] = version - 1
            _convert(model, version, notes)
    return model


def _change(model: "ir.Model", changes: "Mapping[str, Change]") -> "list[tuple[ir.Node, str]]":
    """Brings all nodes into the form of the next opset; which it cannot, and why."""
    reasons = []
    for node in list(nodes_of(model)):
        change = changes.get(node.op_type) if is_op(node, node.op_type) else None
        if change is not None and (reason := change(node)) is not None:
            reasons.append((node, reason))
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
    with quiet():
        infer_shapes(model)


def _with_weights_as_inputs(model: "ir.Model") -> "ir.Model":
    """The converter handles only weights that are also inputs, as before IR version 4."""
    import onnx_ir as ir
    from onnx_ir.passes import common

    listed = ir.external_data.load_to_model(model.clone())
    common.AddInitializersToInputsPass()(listed)
    return listed


PASS = Pass("raise-opset", "older opsets are raised to 17, or to --opset", apply, nonempty_only=True)
