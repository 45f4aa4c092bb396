"""Puts the bodies of the model's own functions where they are called, so that other passes see them."""

from typing import TYPE_CHECKING

from edgeopt.graph.passes.base import Notes, Pass, PassContext, PassResult, inner_graphs, nodes_of, plural, quiet

if TYPE_CHECKING:
    import onnx_ir as ir


def apply(model: "ir.Model", context: PassContext) -> PassResult:
    """Inlines all functions that are written in the model's opsets, those that they call first."""
    import onnx_ir as ir
    from onnx_ir.passes import common

    source, model, notes = model, context.copy(model), Notes()
    if not model.functions:
        return notes.result(model)
    before = {_named(identifier) for identifier in model.functions}
    kept = {function: reason for function in model.functions.values() if (reason := _why_not(function, model))}
    for function, reason in kept.items():
        notes.refuse(reason, _named(function.identifier()))
    try:
        with quiet():
            model = common.InlinePass(criteria=lambda function: function not in kept)(model).model
            common.NameFixPass()(model)
    except ir.passes.PreconditionError:
        notes.refuse("functions call each other recursively", *sorted(before))
        return PassResult(source, (), notes.result(source).refused)
    gone = sorted(before - {_named(identifier) for identifier in model.functions})
    if gone:
        notes.did(f"inlined {plural(len(gone), 'function')}", *gone)
    return notes.result(model)


def _why_not(function: "ir.Function", model: "ir.Model") -> str | None:
    import onnx_ir as ir

    for domain, version in list(function.opset_imports.items()):
        here = model.opset_imports.get(domain, version)
        if here != version and _means_the_same(function, domain, version, here):
            function.opset_imports[domain] = here
        elif here != version:
            return f"it is written in opset {version} of '{domain or 'ai.onnx'}', and the model in {here}"
    calls = [node for node in nodes_of(model) if node.op_identifier() == function.identifier()]
    given = [attribute.type for call in calls for attribute in call.attributes.values()]
    if any(kind in {ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS} for kind in given):
        return "it is called with a graph as an attribute"
    return None


def _means_the_same(function: "ir.Function", domain: str, one: int, other: int) -> bool:
    """Whether no operator that the function uses changed between two opsets."""
    import onnx

    for node in function:
        if node.domain != domain:
            continue
        try:
            since = {onnx.defs.get_schema(node.op_type, opset, domain).since_version for opset in (one, other)}
        except onnx.defs.SchemaError:
            return False
        if len(since) > 1 or any(True for _ in inner_graphs(node)):
            return False
    return True


def _named(identifier: "ir.OperatorIdentifier") -> str:
    domain, name, overload = identifier
    return ".".join(part for part in (domain, name) if part) + (f":{overload}" if overload else "")


PASS = Pass("inline-functions", "calls of the model's own functions are replaced by their nodes", apply)
