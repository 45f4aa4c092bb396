"""What must hold after every pass: the graph is valid ONNX, its inputs and outputs are what they were."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx_ir as ir


@dataclass(frozen=True, slots=True)
class Signature:
    """Names and types of what goes in and out, in order; weights that are listed as inputs do not count."""

    inputs: tuple[tuple[str, str], ...]
    outputs: tuple[tuple[str, str], ...]


def signature(model: "ir.Model") -> Signature:
    return Signature(
        tuple(_described(value) for value in model.graph.inputs if not value.is_initializer()),
        tuple(_described(value) for value in model.graph.outputs),
    )


def _described(value: "ir.Value") -> tuple[str, str]:
    return str(value.name), str(value.type)


def fault(model: "ir.Model", before: Signature) -> str | None:
    """Why a pass may not have left the model like this, as a sentence's end, or None."""
    import onnx
    from onnx_ir.passes import common

    after = signature(model)
    for role, old, new in (("input", before.inputs, after.inputs), ("output", before.outputs, after.outputs)):
        if [value[0] for value in old] != [value[0] for value in new]:
            return f"it changed the {role}s from {_names(old)} to {_names(new)}"
        for was, now in zip(old, new, strict=True):
            if was != now:
                return f"it changed the {role} '{was[0]}' from {was[1]} to {now[1]}"
    try:
        common.CheckerPass()(model)
    except (onnx.checker.ValidationError, ValueError, TypeError, RuntimeError) as error:
        # PassError wraps what onnx said; its own text only names the pass.
        cause = error.__cause__ or error
        lines = [line.strip() for line in str(cause).splitlines() if line.strip()]
        return f"it left an invalid graph: {lines[0] if lines else type(cause).__name__}"
    return None


def keep_declared_shapes(before: "ir.Model", after: "ir.Model") -> None:
    """Gives inputs and outputs back the shapes that they were declared with; passes may refine them."""
    pairs = ((before.graph.inputs, after.graph.inputs), (before.graph.outputs, after.graph.outputs))
    for old, new in pairs:
        declared = {value.name: value for value in old}
        for value in new:
            if value.name in declared:
                value.shape = declared[value.name].shape


def infer_shapes(model: "ir.Model") -> None:
    """Fills in shapes and types that are not known yet; those that are known, inputs and outputs stay."""
    import onnx
    import onnx_ir as ir
    from onnx_ir.passes.common._c_api_utils import call_onnx_api

    try:
        inferred = ir.from_proto(
            call_onnx_api(lambda proto: onnx.shape_inference.infer_shapes(proto, data_prop=True), model)
        )
    except (onnx.shape_inference.InferenceError, ValueError, RuntimeError):
        return  # without shapes some passes find less, and none finds anything wrong
    for graph, with_shapes in zip(model.graphs(), inferred.graphs(), strict=False):
        known = {value.name: value for node in with_shapes for value in node.outputs}
        for node in graph:
            for value in node.outputs:
                found = known.get(value.name)
                if found is None or value.is_graph_output():
                    continue
                value.type = value.type or found.type
                value.shape = _merged(value.shape, found.shape)


def _merged(known: "ir.Shape | None", found: "ir.Shape | None") -> "ir.Shape | None":
    import onnx_ir as ir

    if known is None or found is None or len(known) != len(found):
        return known if known is not None else found
    return ir.Shape(
        [
            new if not isinstance(old, int) and isinstance(new, int) else old
            for old, new in zip(known, found, strict=True)
        ]
    )


def _names(values: tuple[tuple[str, str], ...]) -> str:
    return ", ".join(value[0] for value in values)
