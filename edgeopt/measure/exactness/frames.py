"""The resizing that `--resize` asks for: the model takes the frames of a camera, which are whole multiples larger.

As in OpenCV's resize, unless told otherwise, a pixel is weighed from those beside its centre (linear, half_pixel):
by an odd factor it is the one in the middle, by an even factor the mean of the middle two by two.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from edgeopt.errors import ConstraintError, UsageError, VerificationError
from edgeopt.graph.ledger import Change, Ledger, LedgerEntry

if TYPE_CHECKING:
    import onnx_ir as ir

    from edgeopt.backends.base import TensorInfo
    from edgeopt.graph.model import Model
    from edgeopt.graph.passes import Pass, PassContext
    from edgeopt.graph.passes.base import Resizing
    from edgeopt.measure.exactness.proof import SourceCheck

RESIZING = "resize-into-conv"
_CHANNELS = (1, 3, 4)
_PLACED_SINCE = 11


def taking_frames(
    model: "Model", passes: "Sequence[Pass]", context: "PassContext", check: "SourceCheck | None"
) -> "tuple[Model, Ledger]":
    """The model that resizes its input itself; the pass may then put the resizing into a convolution."""
    from edgeopt.graph.nodes import node_count
    from edgeopt.graph.pipeline import run_pipeline
    from edgeopt.measure.exactness.normalizing import BEFORE

    wanted, factors = context.resize, factors_of(model, context)
    if wanted is None or factors is None:
        return model, ()
    first = [one for one in passes if one.name in BEFORE]
    before = run_pipeline(model, passes=first, also=[one.name for one in first], context=context)
    done = before.model_ir.clone()
    source = next(value for value in done.graph.inputs if value.name == wanted.input_name)
    if (opset := done.opset_imports[""]) < _PLACED_SINCE:
        raise ConstraintError(
            f"In a model of opset {opset} a Resize cannot say where its samples lie.",
            "Let the pass raise-opset run, or leave out --resize.",
        )
    if source.is_graph_output():
        raise ConstraintError(f"The input '{source.name}' is an output too.", "Leave out --resize.")
    what = _put_before(done, source, factors)
    if check is not None and (reason := check.why_wrong(done)) is not None:
        raise VerificationError(
            f"The model that prepares its input itself gives other results: {reason}.",
            "Leave out --resize, and report this case.",
        )
    entry = LedgerEntry(
        RESIZING,
        applied=(Change(what, (str(source.name),)),),
        nodes_before=node_count(before.model_ir),
        nodes_after=node_count(done),
    )
    return replace(model, ir=done), (*(each for each in before.ledger if each.applied), entry)


def factors_of(model: "Model", context: "PassContext") -> tuple[int, int] | None:
    """How many pixels of a frame one of the input stands for, down and across; raises where there are no such."""
    wanted = context.resize
    if wanted is None:
        return None
    inputs = {str(value.name): value for value in model.ir.graph.inputs if not value.is_initializer()}
    if wanted.input_name not in inputs:
        raise UsageError(
            f"The model has no input '{wanted.input_name}'; its inputs are: {', '.join(inputs)}.",
            "Name one of these with --resize.",
        )
    name, dtype = wanted.input_name, inputs[wanted.input_name].dtype
    if dtype is None or not dtype.is_floating_point():
        kind = dtype.name.lower() if dtype is not None else "what is not known"
        raise ConstraintError(
            f"The input '{name}' holds {kind}, and only floating-point pixels are resized.",
            "Leave out --resize, and resize before the model.",
        )
    height, width = _sides(inputs[name], context)
    if wanted.height % height or wanted.width % width:
        swapped = wanted.width % height == 0 and wanted.height % width == 0
        raise UsageError(
            f"Frames of {wanted.width}x{wanted.height} are no whole multiple of the {width}x{height} that '{name}'"
            " takes (width x height).",
            f"Did you mean {wanted.height}x{wanted.width}?"
            if swapped
            else f"Such as {2 * width}x{2 * height} would be: --resize {name}={2 * width}x{2 * height}",
        )
    return wanted.height // height, wanted.width // width


def _sides(value: "ir.Value", context: "PassContext") -> tuple[int, int]:
    """The height and width of the pictures that an input takes, perhaps as --shape fixes them."""
    name = str(value.name)
    shape: Sequence[object] = context.shapes.get(name, ()) or tuple(value.shape or ())
    if len(shape) != 4 or (shape[3] in _CHANNELS and shape[1] not in _CHANNELS):
        raise ConstraintError(
            f"The input '{name}' does not take pictures as (number, channels, height, width).",
            "Where the channels come last, simplify with --layout channels-first before."
            if len(shape) == 4
            else "Leave out --resize.",
        )
    height, width = shape[2:]
    if not isinstance(height, int) or not isinstance(width, int):
        raise UsageError(
            f"How large the pictures are that '{name}' takes, is open.", f"Fix it: --shape {name}=1x3x240x320"
        )
    return height, width


def _put_before(model_ir: "ir.Model", source: "ir.Value", factors: tuple[int, int]) -> str:
    """Lets all that reads the input read what a Resize makes of it; returns that as a sentence."""
    import numpy as np
    import onnx_ir as ir

    from edgeopt.graph.passes.knowledge.linear import new_weight
    from edgeopt.graph.passes.knowledge.names import separate_names

    graph, shape = model_ir.graph, list(source.shape or ())
    sides = [int(size) * factor for size, factor in zip(shape[2:], factors, strict=True)]
    scales = [1.0, 1.0, *(_scale(side, factor) for side, factor in zip(sides, factors, strict=True))]
    given = new_weight(graph, f"{source.name}_scales", np.asarray(scales, np.float32))
    resize = ir.node(
        "Resize",
        [source, None, given],
        {"mode": "linear", "coordinate_transformation_mode": "half_pixel"},
        name=f"{source.name}_resize",
    )
    result = resize.outputs[0]
    result.name, result.type, result.shape = f"{source.name}_resized", source.type, source.shape
    for use in list(source.uses()):
        if use.node is not resize:
            use.node.replace_input_with(use.idx, result)
    graph.insert_before(graph[0], resize)
    source.shape = ir.Shape([*shape[:2], *sides])
    separate_names(model_ir)
    return f"resize '{source.name}' from {sides[1]}x{sides[0]} to {shape[3]}x{shape[2]} within the model"


def _scale(side: int, factor: int) -> float:
    """1 / factor as float32, so that the size that comes out is not rounded down to one less."""
    import numpy as np

    scale = np.float32(1) / np.float32(factor)
    while np.floor(side * float(scale)) < side // factor or np.floor(np.float32(side) * scale) < side // factor:
        scale = np.nextafter(scale, np.float32(1))
    return float(scale)


def frame_of(info: "TensorInfo", wanted: "Resizing | None") -> "TensorInfo":
    """An input as the rewritten model takes it."""
    import msgspec

    if wanted is None or info.name != wanted.input_name:
        return info
    return msgspec.structs.replace(info, shape=(*info.shape[:2], wanted.height, wanted.width))


def resized(sample: dict[str, Any], input_name: str, factors: tuple[int, int]) -> dict[str, Any]:
    """What the source gets where the rewritten model resizes this input itself."""
    import numpy as np

    pixels = np.asarray(sample[input_name])
    ready = pixels.astype(np.float64)
    for axis, factor in zip((2, 3), factors, strict=True):
        ready = np.moveaxis(ready, axis, -1)
        middle = (ready[..., (factor - 1) // 2 :: factor], ready[..., factor // 2 :: factor])
        ready = np.moveaxis((middle[0] + middle[1]) / 2, -1, axis)
    return {**sample, input_name: np.ascontiguousarray(ready.astype(pixels.dtype))}
