"""Check for ONNX models that no runtime of edgeopt runs, with the reasons."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from edgeopt.errors import ModelError
from edgeopt.graph.analysis.categories import MICROSOFT_DOMAINS, STANDARD_DOMAINS
from edgeopt.graph.nodes import nodes_of

if TYPE_CHECKING:
    import onnx_ir as ir

    from edgeopt.graph.model import Model


def check_runs(model: "Model") -> None:
    """Raises ModelError for operators of other domains, and for complex numbers."""
    defined = {(function.domain, function.name) for function in model.ir.functions.values()}
    known = (*STANDARD_DOMAINS, *MICROSOFT_DOMAINS)
    custom = sorted(
        {
            f"{node.domain}:{node.op_type}"
            for node in nodes_of(model.ir)
            if node.domain not in known and (node.domain, node.op_type) not in defined
        }
    )
    if custom:
        raise ModelError(
            f"'{model.path.name}' has custom operators: {', '.join(custom)}.",
            "Export it with operators of ONNX alone; edgeopt bench --custom-ops measures it as it is.",
        )
    for value in _values(model.ir):
        if value.dtype is not None and value.dtype.name.startswith("COMPLEX"):
            raise ModelError(
                f"'{value.name}' holds complex numbers, which runtimes of ONNX do not take.",
                "Export the model with the real and imaginary parts as separate numbers.",
            )


def _values(model: "ir.Model") -> "Iterator[ir.Value]":
    yield from model.graph.inputs
    yield from model.graph.initializers.values()
    for node in nodes_of(model):
        yield from node.outputs
