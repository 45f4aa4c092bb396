"""Brings a model to opset 17, which every later pass and all backends understand.

From 13 up to 17 only two operators changed their meaning (BatchNormalization in training, RoiAlign); all
other changes widen types or add attributes with neutral defaults, so that the number can be raised as it is,
in subgraphs too. Older models go through onnx's converter, which does not look into subgraphs.
"""

from typing import TYPE_CHECKING

from edgeopt.graph.passes.base import (
    Notes,
    Pass,
    PassContext,
    PassResult,
    is_op,
    label,
    node_count,
    nodes_of,
    quiet,
)

if TYPE_CHECKING:
    import onnx_ir as ir

COMPATIBLE_FROM = 13
IR_VERSION = 8  # the one that came with opset 15 to 17


def apply(model: "ir.Model", context: PassContext) -> PassResult:
    """Raises the opset to the target where it is older."""
    model, notes = model.clone(), Notes()
    before, after = model.opset_imports.get("", context.target_opset), context.target_opset
    if before >= after:
        return notes.result(model)
    if model.functions:
        notes.refuse(f"the model has functions, whose opset ({before}) cannot be converted")
        return notes.result(model)
    if before >= COMPATIBLE_FROM:
        _bump(model, after, notes)
    else:
        _convert(model, after, notes)
    if not notes.refused:
        model.ir_version = max(model.ir_version, IR_VERSION)
        notes.did(f"raised the opset from {before} to {after}")
    return notes.result(model)


def _bump(model: "ir.Model", after: int, notes: Notes) -> None:
    for node in nodes_of(model):
        if is_op(node, "RoiAlign"):
            notes.refuse("RoiAlign rounds its coordinates differently from opset 16 on", label(node))
        elif is_op(node, "BatchNormalization") and len([o for o in node.outputs if o.name]) > 1:
            notes.refuse("the batch normalization is in training mode, which changed with opset 14", label(node))
    if not notes.refused:
        model.graph.opset_imports[""] = after


def _convert(model: "ir.Model", after: int, notes: Notes) -> None:
    import onnx.version_converter
    import onnx_ir as ir

    if node_count(model) != len(model.graph):
        branching = [label(node) for node in model.graph if _has_subgraphs(node)]
        notes.refuse("the converter for opsets below 13 does not look into subgraphs", *branching)
        return
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


def _has_subgraphs(node: "ir.Node") -> bool:
    import onnx_ir as ir

    return any(a.type in {ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS} for a in node.attributes.values())


def _with_weights_as_inputs(model: "ir.Model") -> "ir.Model":
    """The converter knows no weights but those that are inputs too, as it was before IR version 4."""
    import onnx_ir as ir
    from onnx_ir.passes import common

    listed = ir.external_data.load_to_model(model.clone())
    common.AddInitializersToInputsPass()(listed)
    return listed


PASS = Pass("raise-opset", "older opsets are raised to 17", apply)
