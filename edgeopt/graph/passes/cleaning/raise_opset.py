"""Conversion of a model to the opset that every later pass and all backends understand, by default 17.

From opset 9 on, `CHANGES` describes the differences between operators, and nodes are converted in place, including
subgraphs. onnx's converter, which ignores subgraphs, takes the steps up to 9 and those up to 13 that `CHANGES`
cannot.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from edgeopt.graph.passes.base import (
    Notes,
    Pass,
    PassContext,
    PassResult,
    constant,
    inner_graphs,
    is_op,
    label,
    nodes_of,
    quiet,
)
from edgeopt.graph.passes.knowledge.names import constant_before
from edgeopt.graph.shapes.infer import infer_shapes

if TYPE_CHECKING:
    import onnx_ir as ir

Change = Callable[["ir.Node"], str | None]
OLDEST = 9
"""Lowest opset from which `CHANGES` describes the differences."""
_ENLARGES = "edgeopt.enlarges"
_ZERO_IS_ZERO = "edgeopt.zero_is_zero"


def _attribute_to_input(name: str, index: int) -> Change:
    """Returns the change that turns an attribute with a list of numbers into an input."""

    def change(node: "ir.Node") -> str | None:
        import numpy as np

        attribute = node.attributes.pop(name, None)
        if attribute is not None:
            _set_input(node, index, name, np.array(attribute.as_ints(), np.int64))
        return None

    return change


def _set_input(node: "ir.Node", index: int, name: str, array: "object") -> None:
    if len(node.inputs) <= index:
        node.resize_inputs(index + 1)
    node.replace_input_with(index, constant_before(node, f"{node.outputs[0].name}__{name}", array))  # type: ignore[arg-type]


def _slice(node: "ir.Node") -> str | None:
    import numpy as np

    for index, name in enumerate(("starts", "ends", "axes"), start=1):
        attribute = node.attributes.pop(name, None)
        if attribute is not None:
            _set_input(node, index, name, np.array(attribute.as_ints(), np.int64))
    return None


def _top_k(node: "ir.Node") -> str | None:
    import numpy as np

    _set_input(node, 1, "k", np.array([node.attributes.pop("k").as_int()], np.int64))
    return None


def _clip(node: "ir.Node") -> str | None:
    kind = _float_type(node)
    if kind is None:
        return "the type of its input is not known"
    for index, name in enumerate(("min", "max"), start=1):
        attribute = node.attributes.pop(name, None)
        if attribute is not None:
            _set_input(node, index, name, kind(attribute.as_float()))
    return None


def _clip_of_halves(node: "ir.Node") -> str | None:
    """Sets infinite limits in a float16 Clip without limits, as ONNX Runtime limits it to finite numbers since
    opset 12."""
    import onnx_ir as ir

    value, kind = node.inputs[0], _float_type(node)
    if value is None or kind is None or value.dtype != ir.DataType.FLOAT16:
        return None
    for index, name, limit in ((1, "min", float("-inf")), (2, "max", float("inf"))):
        if len(node.inputs) <= index or node.inputs[index] is None:
            _set_input(node, index, name, kind(limit))
    return None


def _upsample(node: "ir.Node") -> str | None:
    node.op_type = "Resize"
    node.meta[_ENLARGES] = True
    return None


def _resize(node: "ir.Node") -> str | None:
    """Sets the old defaults: positions from the corner, the nearest pixel rounded down, or up when shrinking."""
    import numpy as np
    import onnx_ir as ir

    mode = node.attributes.get("mode")
    if mode is None or mode.as_string() == "nearest":
        found = constant(node.inputs[1])
        scales = None if found is None else found.astype(np.float64)
        enlarges = node.meta.get(_ENLARGES) or (scales is not None and bool((scales >= 1).all()))
        if not enlarges and (scales is None or bool((scales > 1).any())):
            return "its rounding of nearest neighbours is known only at run time"
        node.attributes["nearest_mode"] = ir.AttrString("nearest_mode", "floor" if enlarges else "ceil")
    places = "coordinate_transformation_mode"
    node.attributes[places] = ir.AttrString(places, "asymmetric")
    node.resize_inputs(3)
    node.replace_input_with(2, node.inputs[1])
    _set_input(node, 1, "roi", np.zeros(0, np.float32))
    return None


def _pad(node: "ir.Node") -> str | None:
    import numpy as np

    kind = _float_type(node)
    if kind is None:
        return "the type of its input is not known"
    _set_input(node, 1, "pads", np.array(node.attributes.pop("pads").as_ints(), np.int64))
    if (value := node.attributes.pop("value", None)) is not None:
        _set_input(node, 2, "value", kind(value.as_float()))
    return None


def _float_type(node: "ir.Node") -> "Callable[[float], object] | None":
    import numpy as np

    value = node.inputs[0]
    if value is None or value.dtype is None:
        return None
    kind = value.dtype.numpy()
    return lambda number: np.array(number, kind)


def _scatter(node: "ir.Node") -> str | None:
    node.op_type = "ScatterElements"
    return None


def _dropout(node: "ir.Node") -> str | None:
    """Removes the ratio, which only affects training; refuses a used mask, whose type changed."""
    node.attributes.pop("ratio", None)
    mask = node.outputs[1] if len(node.outputs) > 1 else None
    used = mask is not None and (mask.uses() or mask.is_graph_output())
    return "the mask of the Dropout is used" if used else None


def _softmax(node: "ir.Node") -> str | None:
    """Converts Softmax, which covers all axes from `axis` on before opset 13 and `axis` alone since."""
    import onnx_ir as ir

    attribute = node.attributes.get("axis")
    shape = node.inputs[0].shape if node.inputs[0] is not None else None
    axis = 1 if attribute is None else attribute.as_int()
    if shape is not None:
        last = len(shape) - 1
        if axis % len(shape) != last and any(size != 1 for size in shape[axis % len(shape) + 1 :]):
            return _softmax_of_flat(node, axis % len(shape))
        axis %= len(shape)
    elif axis != -1:
        return "the number of its axes is not known"
    node.attributes["axis"] = ir.AttrInt64("axis", axis)
    return None


def _softmax_of_flat(node: "ir.Node", axis: int) -> str | None:
    """Flattens several axes before a Softmax and restores the shape after it."""
    import onnx_ir as ir

    if node.op_type == "Hardmax":
        return "it covers several axes at once, which opset 13 cannot express"
    x, result = node.inputs[0], node.outputs[0]
    assert node.graph is not None  # noqa: S101 - it was found in one
    flat = ir.node("Flatten", [x], {"axis": axis})
    sizes = ir.node("Shape", [x])
    one = ir.node(node.op_type, [flat.outputs[0]], {"axis": -1})
    back = ir.node("Reshape", [one.outputs[0], sizes.outputs[0]], name=node.name)
    for new, title in ((flat, "flat"), (sizes, "sizes"), (one, "of_flat")):
        new.outputs[0].name = f"{result.name}__{title}"
        new.outputs[0].type = ir.TensorType(ir.DataType.INT64) if new is sizes else result.type
    back.meta[_ZERO_IS_ZERO] = True
    made = back.outputs[0]
    made.name, made.shape, made.type = result.name, result.shape, result.type
    node.graph.insert_before(node, [flat, sizes, one, back])
    result.replace_all_uses_with(made, replace_graph_outputs=True)
    node.graph.remove(node, safe=True)
    return None


def _reshape(node: "ir.Node") -> str | None:
    """Sets `allowzero` if a 0 in the shape of a Reshape is a size, not a copied dimension."""
    import onnx_ir as ir

    if node.meta.get(_ZERO_IS_ZERO):
        node.attributes["allowzero"] = ir.AttrInt64("allowzero", 1)
    return None


def _batch_normalization(node: "ir.Node") -> str | None:
    trains = len([output for output in node.outputs if output.name]) > 1
    return "the batch normalization is in training mode, which changed with opset 14" if trains else None


def _roi_align(node: "ir.Node") -> str | None:
    import onnx_ir as ir

    name = "coordinate_transformation_mode"
    node.attributes.setdefault(name, ir.AttrString(name, "output_half_pixel"))
    return None


def _split(node: "ir.Node") -> str | None:
    """Writes the sizes of a Split if they are known, as ONNX Runtime counts no outputs for an empty tensor."""
    import numpy as np
    import onnx_ir as ir

    if len(node.inputs) > 1 and node.inputs[1] is not None:
        return None
    axis, shape = node.attributes.get("axis"), node.inputs[0].shape if node.inputs[0] is not None else None
    size = None if shape is None else shape[0 if axis is None else axis.as_int()]
    count = len(node.outputs)
    if isinstance(size, int) and size % count == 0:
        _set_input(node, 1, "split", np.full(count, size // count, np.int64))
    else:
        node.attributes["num_outputs"] = ir.AttrInt64("num_outputs", count)
    return None


def _average_pool(node: "ir.Node") -> str | None:
    ceil = node.attributes.get("ceil_mode")
    rounds_up = ceil is not None and (ceil.is_ref() or ceil.as_int() != 0)
    return "averaging at the border changed with opset 19 for sizes that are rounded up" if rounds_up else None


def _grid_sample(node: "ir.Node") -> str | None:
    import onnx_ir as ir

    mode = node.attributes.get("mode")
    old = "bilinear" if mode is None else mode.as_string()
    node.attributes["mode"] = ir.AttrString("mode", {"bilinear": "linear", "bicubic": "cubic"}.get(old, old))
    return None


def _dft(node: "ir.Node") -> str | None:
    import numpy as np

    attribute = node.attributes.pop("axis", None)
    _set_input(node, 2, "axis", np.array(1 if attribute is None else attribute.as_int(), np.int64))
    return None


def _group_normalization(node: "ir.Node") -> str | None:
    """Repeats scale and bias, which are per group before opset 21 and per channel since."""
    import numpy as np

    shape = node.inputs[0].shape if node.inputs[0] is not None else None
    channels = shape[1] if shape is not None else None
    for index, name in ((1, "scale"), (2, "bias")):
        array = constant(node.inputs[index])
        if array is None or not isinstance(channels, int) or channels % array.size:
            return "its scales by group cannot be written as scales by channel: they or the channels are not known"
        _set_input(node, index, name, np.repeat(array, channels // array.size))
    return None


_AXES = _attribute_to_input("axes", 1)
_REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "SumSquare")

CHANGES: dict[int, dict[str, Change]] = {
    10: {"Slice": _slice, "TopK": _top_k, "Upsample": _upsample},
    11: {"Clip": _clip, "Pad": _pad, "Scatter": _scatter, "Resize": _resize},
    12: {"Clip": _clip_of_halves, "Dropout": _dropout},
    13: {
        **dict.fromkeys(("Softmax", "LogSoftmax", "Hardmax"), _softmax),
        **dict.fromkeys(("Squeeze", "Unsqueeze", "ReduceSum"), _AXES),
        "Split": _attribute_to_input("split", 1),
    },
    14: {"BatchNormalization": _batch_normalization, "Reshape": _reshape},
    16: {"RoiAlign": _roi_align},
    18: {"Split": _split, **{f"Reduce{name}": _AXES for name in _REDUCTIONS}},
    19: {"AveragePool": _average_pool},
    20: {"GridSample": _grid_sample, "DFT": _dft},
    21: {"GroupNormalization": _group_normalization},
}


COMPATIBLE_FROM = 13
MISCONVERTED = ("Dropout", "Hardmax", "Resize")
"""Operators that onnx's converter leaves unchanged although their meaning changed."""


def apply(model: "ir.Model", context: PassContext) -> PassResult:
    """Raises an older opset to the target."""
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
    """Raises the opset step by step; onnx's converter handles the steps that `CHANGES` does not."""
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
    """Converts all nodes to the next opset; returns the nodes that it cannot convert, with the reason."""
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
    """Returns a model whose weights are also inputs, as before IR version 4, which onnx's converter requires."""
    import onnx_ir as ir
    from onnx_ir.passes import common

    listed = ir.external_data.load_to_model(model.clone())
    common.AddInitializersToInputsPass()(listed)
    return listed


PASS = Pass("raise-opset", "older opsets are raised to 17, or to --opset", apply, nonempty_only=True)
