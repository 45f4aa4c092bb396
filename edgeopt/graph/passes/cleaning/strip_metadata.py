"""Drops what exporters leave behind: doc strings, stack traces, the paths of their sources, their own names.

The model's own metadata stays: applications read class names, strides and the like from it. So does the name of
a quantizer, from which tools know that a model is quantized.
"""

import re
from typing import TYPE_CHECKING

from edgeopt.graph.passes.base import Notes, Pass, PassContext, PassResult, parts, plural

if TYPE_CHECKING:
    import onnx_ir as ir

EXPORTERS = ("pkg.torch", "pkg.onnxscript", "pkg.onnx_ir", "torch.", "namespace")
PATH = re.compile(r"(^|[\s\"'(=])(/[^/\s]+){2,}|[A-Za-z]:\\[^\s]")


def apply(model: "ir.Model", context: PassContext) -> PassResult:
    """Clears doc strings and properties of graphs, nodes, values and weights; of the model, only exporters'."""
    model, notes = context.copy(model), Notes()
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
    leaks = [k for k, v in model.metadata_props.items() if k.startswith(EXPORTERS) or PATH.search(v)]
    for key in leaks:
        del model.metadata_props[key]
    if leaks:
        notes.did(
            f"dropped {plural(len(leaks), 'property')} of the exporter".replace("propertys", "properties"), *leaks
        )
    if (name := model.producer_name) and "quant" not in name:
        model.producer_name, model.producer_version = None, None
        notes.did(f"dropped the name of the exporter ({name})")
    return notes.result(model)


PASS = Pass("strip-metadata", "doc strings and exporters' notes are removed", apply)
