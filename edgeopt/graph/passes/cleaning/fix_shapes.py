"""Gives inputs the shapes that the user names, so that all that depends on them is known before the model runs.

A dimension that other inputs or outputs share by name gets the same size there. -1 leaves a dimension as it is.
"""

from typing import TYPE_CHECKING

from edgeopt.graph.passes.base import Notes, Pass, PassContext, PassResult
from edgeopt.graph.shapes import infer_shapes
from edgeopt.graph.structure import turned
from edgeopt.nearest import near

if TYPE_CHECKING:
    import onnx_ir as ir

AS_IT_IS = -1


def apply(model: "ir.Model", context: PassContext) -> PassResult:
    """Sets the shapes of `context.shapes`; all of them, or none where one does not fit."""
    source, model, notes = model, context.copy(model), Notes()
    sizes: dict[str, int] = {}
    changed: list[str] = []
    for name, given in context.shapes.items():
        order = turned(model).get(name, ())
        wanted = tuple(given[axis] for axis in order) if len(order) == len(given) else given
        value = next((v for v in model.graph.inputs if v.name == name and not v.is_initializer()), None)
        reason = _why_not(model, name, wanted) if value is None else _misfit(value, wanted, sizes)
        if reason is not None:
            notes.refuse(reason, name)
        elif value is not None and _set(value, wanted):
            changed.append(f"{name} {_written(value)}")
    if notes.refused:
        return PassResult(source, (), notes.result(source).refused)
    if changed:
        others = [value for value in (*model.graph.inputs, *model.graph.outputs) if _bind(value, sizes)]
        changed += [f"{value.name} {_written(value)}" for value in others]
        _infer_again(model)
        notes.did(f"fixed the shapes of {', '.join(changed)}")
    return notes.result(model)


def _why_not(model: "ir.Model", name: str, wanted: tuple[int, ...]) -> str:  # noqa: ARG001 - like its sister
    names = [str(value.name) for value in model.graph.inputs if not value.is_initializer()]
    meant = near(name, names, alike=0.0)
    return f"the model has no input '{name}'" + (f"; did you mean '{meant[0]}'?" if meant else "")


def _misfit(value: "ir.Value", wanted: tuple[int, ...], sizes: dict[str, int]) -> str | None:
    """Why an input cannot have this shape; notes which size each named dimension gets."""
    if any(size < 1 and size != AS_IT_IS for size in wanted):
        return f"{_text(wanted)} is not a shape: sizes are at least 1, or -1 to keep a size"
    if value.shape is None:
        return None
    if len(value.shape) != len(wanted):
        return (
            f"{_text(wanted)} has {len(wanted)} dimensions, and the input {_written(value)} has {len(value.shape)}"
        )
    for have, size in zip(value.shape, wanted, strict=True):
        if size == AS_IT_IS:
            continue
        if isinstance(have, int):
            if have != size:
                return f"{_text(wanted)} contradicts the {have} in {_written(value)}"
        elif have.value is not None and sizes.setdefault(have.value, size) != size:
            return f"the dimension '{have.value}' cannot be {sizes[have.value]} and {size} at once"
    return None


def _set(value: "ir.Value", wanted: tuple[int, ...]) -> bool:
    import onnx_ir as ir

    before = value.shape
    have = [None] * len(wanted) if before is None else list(before)
    after = ir.Shape([old if new == AS_IT_IS else new for old, new in zip(have, wanted, strict=True)])
    value.shape = after
    return before is None or before != after


def _bind(value: "ir.Value", sizes: dict[str, int]) -> bool:
    import onnx_ir as ir

    if value.shape is None:
        return False
    after = ir.Shape([d if isinstance(d, int) else sizes.get(d.value or "", d) for d in value.shape])
    if after == value.shape:
        return False
    value.shape = after
    return True


def _infer_again(model: "ir.Model") -> None:
    """What was known of inner values holds the open dimensions; what follows of outputs is filled in too."""
    for value in (value for node in model.graph for value in node.outputs):
        if not value.is_graph_output():
            value.shape = None
    inputs = {str(v.name): v.shape for v in model.graph.inputs if v.shape is not None and v.shape.is_static()}
    infer_shapes(model, {name: tuple(shape.numpy()) for name, shape in inputs.items()})


def _written(value: "ir.Value") -> str:
    dims = [] if value.shape is None else [d if isinstance(d, int) else d.value or "?" for d in value.shape]
    return "[" + ", ".join(map(str, dims)) + "]"


def _text(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))


PASS = Pass("fix-shapes", "inputs get the shapes that --shape names", apply, on_request=True)
