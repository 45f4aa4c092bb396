"""Puts the bodies of the model's own functions where they are called, so that other passes see them."""

from typing import TYPE_CHECKING

from edgeopt.graph.passes.base import Notes, Pass, PassContext, PassResult, plural, quiet

if TYPE_CHECKING:
    import onnx_ir as ir


def apply(model: "ir.Model", context: PassContext) -> PassResult:  # noqa: ARG001 - every pass has this signature
    """Inlines all functions."""
    from onnx_ir.passes import common

    model, notes = model.clone(), Notes()
    if model.functions:
        names = [f"{domain}.{name}" if domain else name for domain, name, _ in model.functions]
        with quiet():
            model = common.InlinePass()(model).model
            common.NameFixPass()(model)
        notes.did(f"inlined {plural(len(names), 'function')}", *names)
    return notes.result(model)


PASS = Pass("inline-functions", "calls of the model's own functions become their nodes", apply)
