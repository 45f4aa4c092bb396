"""Drops what exporters leave behind: doc strings, stack traces, the paths of their sources.

The model's own metadata stays: applications read class names, strides and the like from it.
"""

from typing import TYPE_CHECKING

from edgeopt.graph.passes.base import Notes, Pass, PassContext, PassResult, parts, plural

if TYPE_CHECKING:
    import onnx_ir as ir


def apply(model: "ir.Model", context: PassContext) -> PassResult:  # noqa: ARG001 - every pass has this signature
    """Clears doc strings and properties of graphs, nodes, values and weights."""
    model, notes = model.clone(), Notes()
    cleared = 0
    if model.doc_string:
        model.doc_string, cleared = None, 1
    for part in parts(model):
        things = [part, *part.inputs]
        things += [thing for node in part for thing in (node, *node.outputs)]
        for thing in (*things, *getattr(part, "initializers", {}).values()):
            if thing.doc_string or thing.metadata_props:
                thing.doc_string = None
                thing.metadata_props.clear()
                cleared += 1
    if cleared:
        notes.did(f"cleared notes of the exporter in {plural(cleared, 'place')}")
    return notes.result(model)


PASS = Pass("strip-metadata", "doc strings and exporters' notes go away", apply)
