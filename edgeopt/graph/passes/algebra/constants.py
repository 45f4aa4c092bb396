"""Merging of arithmetic with constants: chains into one step, and steps into the weights of linear operators."""

from typing import TYPE_CHECKING, Any

import numpy as np

from edgeopt.graph.passes.base import (
    Notes,
    Pass,
    PassContext,
    PassResult,
    constant,
    is_op,
    label,
    plural,
    replace_value,
)
from edgeopt.graph.passes.knowledge.arithmetic import (
    SIGN,
    Chain,
    ScaleAndShift,
    chained,
    lost,
    step_of,
    tells_zeros_apart,
    widens,
)
from edgeopt.graph.passes.knowledge.forms import spelled_out
from edgeopt.graph.passes.knowledge.linear import (
    LINEAR,
    Affine,
    by_channel,
    channel_axis,
    channels_before,
    channels_behind,
    fits,
    integer,
    new_weight,
    pads,
    put_before,
    put_behind,
    rounds_away,
    why_not_behind,
    why_not_weights,
)
from edgeopt.graph.passes.knowledge.names import separate_names

if TYPE_CHECKING:
    import onnx_ir as ir
    from numpy.typing import NDArray

_ROLE = {"Mul": "scale", "Add": "shift"}
_GROWTH = 2  # a column and a row become a matrix, which can be far larger than both


def apply_constant_chains(model: "ir.Model", context: PassContext) -> PassResult:
    """Merges chains of arithmetic with constants into one scale and one shift.

        ((x * a) + b) * c + d  =  x * (a c) + (b c + d)

    The constants are computed in float64 and rounded once. A chain is merged only if fewer nodes are left, no
    constant enlarges the tensor, and neither the chain nor the two steps round off what the other keeps: (x + 1) -
    1 is 0 for x = 1e-12. Integers are excluded: their arithmetic wraps around, and their division rounds.
    """
    model, notes = context.copy(model), Notes()
    for part in model.graphs():  # functions are inlined before; they can hold no weights
        for last in [node for node in part if step_of(node) and not _goes_on(node)]:
            _merge(part, last, notes)
    separate_names(model)
    return notes.result(model)


def _goes_on(node: "ir.Node") -> bool:
    """Whether the one node that reads the result continues the chain."""
    result = node.outputs[0]
    uses = list(result.uses())
    if result.is_graph_output() or len(uses) != 1:
        return False
    reader = uses[0].node
    return reader.graph is node.graph and step_of(reader) is not None


def _merge(part: "ir.Graph", last: "ir.Node", notes: Notes) -> None:
    chain, steps = _chain(last)
    source = steps[0].source
    if len(chain) < 2 or source.dtype is None:
        return
    whole = chained(steps, source.dtype.numpy())
    merged = [("Mul", whole.factor)] if not (whole.factor == 1).all() else []
    merged += [("Add", whole.shift)] if whole.shift.any() else []
    if len(merged) >= len(chain) or not merged:
        return
    names = [label(node) for node in reversed(chain)]
    if reason := _why_not(source, chain, merged, whole):
        notes.refuse(reason, *names)
        return
    _put(part, last, source, merged)
    for node in chain:
        part.remove(node, safe=True)
    notes.did("merged chains of arithmetic with constants", *names)


def _chain(last: "ir.Node") -> "tuple[list[ir.Node], list[ScaleAndShift]]":
    """Returns the nodes from the last to the first, and their steps from the first to the last."""
    chain, step = [last], step_of(last)
    assert step is not None  # noqa: S101 - tells mypy; the caller has seen it
    steps = [step]
    while True:
        before = steps[0].source.producer()
        further = step_of(before) if before is not None and _goes_on(before) else None
        if further is None or before is None:
            return chain, steps
        chain.append(before)
        steps.insert(0, further)


def _why_not(
    source: "ir.Value", chain: "list[ir.Node]", merged: "list[tuple[str, NDArray[Any]]]", whole: Chain
) -> str | None:
    assert source.dtype is not None  # noqa: S101 - tells mypy; the caller has seen it
    chain_elements = 0
    for node in chain:
        step = step_of(node)
        for value in node.inputs:
            if step is not None and value is not step.source and value is not None:
                number = constant(value)
                if number is None or widens(source, number):
                    return f"the constant '{value.name}' may broadcast the tensor to a larger shape"
                chain_elements += number.size
    numbers = [number for _, number in merged]
    if sum(number.size for number in numbers) > _GROWTH * chain_elements:
        return "the merged constants would be larger than those of the chain"
    if not all(fits(number, source.dtype.numpy()) for number in numbers):
        return f"the merged constants do not fit into {source.dtype.name.lower()}"
    if rounds_away(whole.largest, source.dtype.numpy()):
        return "it adds and subtracts so much that the merged chain would round differently"
    if whole.reason:
        return whole.reason
    adds = any(is_op(node, "Add", "Sub") for node in chain)
    if adds and not whole.shift.any() and tells_zeros_apart(chain[0].outputs[0]):
        return SIGN
    return None


def _put(part: "ir.Graph", last: "ir.Node", source: "ir.Value", merged: "list[tuple[str, NDArray[Any]]]") -> None:
    import onnx_ir as ir

    result, current = last.outputs[0], source
    assert source.dtype is not None  # noqa: S101 - _why_not() has seen to it
    stem = last.name or result.name or "chain"
    for kind, number in merged:
        weight = new_weight(part, f"{stem}_{_ROLE[kind]}", number.astype(source.dtype.numpy()))
        node = ir.node(kind, [current, weight], name=f"{stem}_{kind.lower()}")
        node.outputs[0].name = f"{result.name}_{kind.lower()}"
        node.outputs[0].shape, node.outputs[0].type = source.shape, source.type
        part.insert_before(last, node)
        current = node.outputs[0]
    name, shape, kind_ = result.name, result.shape, result.type
    result.replace_all_uses_with(current, replace_graph_outputs=True)
    result.name, current.name = f"{name}__merged", name
    current.shape, current.type = shape or current.shape, kind_ or current.type


CONSTANT_CHAINS = Pass(
    "constant-chains",
    "chains of arithmetic with constants become one scale and one shift",
    apply_constant_chains,
    tolerance_db=100.0,
)


def apply_scale_into_linear(model: "ir.Model", context: PassContext) -> PassResult:
    """Merges arithmetic with constants around Conv, ConvTranspose, Gemm and MatMul into their weights.

        (W x + b) * f + s = (f W) x + (f b + s)            f and s have one number for each channel of the result
        W (f * x + s) + b = (W f) x + (W s + b)            f and s have one number for each channel of the input

    A shift before a convolution with padding stays, because the zeros at the borders are not shifted. A MatMul has
    no bias, so it takes scales only.
    """
    model, notes, limit = context.copy(model), Notes(), context.folded_limit_bytes
    behind: list[str] = []
    before: list[str] = []
    whole = spelled_out(model)
    for part in model.graphs():  # functions are inlined before; they can hold no weights
        for node in list(part):
            step = step_of(node)
            if step is None or node.graph is not part:
                continue
            if node in whole:
                # Not a refusal to report: the runtimes fuse it into one operator.
                continue
            if is_op(step.source.producer(), *LINEAR):
                _try_behind(part, node, step, limit, notes, behind)
            elif (linear := _only_reader(node)) is not None:
                _try_before(part, node, step, linear, limit, notes, before)
    if behind:
        notes.did(f"put {plural(len(behind), 'node')} with constants into the weights before", *behind)
    if before:
        notes.did(f"put {plural(len(before), 'node')} with constants into the weights after", *before)
    separate_names(model)
    return notes.result(model)


def _try_behind(
    part: "ir.Graph", node: "ir.Node", step: ScaleAndShift, limit_bytes: int, notes: Notes, done: list[str]
) -> None:
    linear = step.source.producer()
    assert linear is not None  # noqa: S101 - tells mypy; the caller has seen it
    if is_op(linear, "MatMul") and step.shift.any():
        return  # a bias, which matmul-add-to-gemm and the runtimes handle
    if reason := why_not_behind(linear, node, limit_bytes):
        if not is_op(linear, "MatMul"):  # most matrix products have no weights at all
            notes.refuse(reason, label(node))
        return
    affine = _affine(step, linear, channels_behind(linear), linear.outputs[0])
    if isinstance(affine, str):
        notes.refuse(affine, label(node))
        return
    if _loses(linear, affine):
        notes.refuse("its constant would be rounded away in the bias", label(node))
        return
    if reason := put_behind(part, linear, affine, node.name or node.outputs[0].name or linear.op_type):
        notes.refuse(reason, label(node))
        return
    # Always succeeds: the linear node is in the same graph and its output has no other reader.
    replace_value(node.outputs[0], linear.outputs[0])
    part.remove(node, safe=True)
    done.append(label(node))


def _loses(linear: "ir.Node", affine: Affine) -> bool:
    """Whether an epsilon that is added to the result would vanish in a bias, although the result may be 0."""
    bias = constant(linear.inputs[2]) if len(linear.inputs) > 2 else None
    if bias is None or not affine.shifts:
        return False
    return lost(affine.shift, bias.astype(np.float64).reshape(-1) * affine.factor, bias.dtype)


def _try_before(
    part: "ir.Graph",
    node: "ir.Node",
    step: ScaleAndShift,
    linear: "ir.Node",
    limit_bytes: int,
    notes: Notes,
    done: list[str],
) -> None:
    reason = why_not_weights(linear, limit_bytes)
    if reason is None and is_op(linear, "Gemm") and integer(linear, "transA", 0):
        reason = "the Gemm reads its input transposed"
    if reason is None and step.shift.any():
        reason = _why_no_shift(linear)
    if reason is not None:
        if not is_op(linear, "MatMul"):
            notes.refuse(f"it cannot be merged into the {linear.op_type} after it: {reason}", label(node))
        return
    channels = channels_before(linear)
    affine = _affine(step, linear, channels, step.source)
    if isinstance(affine, Affine) and affine.by_channel and not _has_channels(linear, step.source, channels):
        affine = f"its constant may broadcast '{step.source.name}' to a larger shape"
    if isinstance(affine, str):
        notes.refuse(affine, label(node))
        return
    if reason := put_before(part, linear, affine, node.name or node.outputs[0].name or linear.op_type):
        notes.refuse(reason, label(node))
        return
    linear.replace_input_with(0, step.source)
    part.remove(node, safe=True)
    done.append(label(node))


def _why_no_shift(linear: "ir.Node") -> str | None:
    if is_op(linear, "MatMul"):
        return "a MatMul has no bias"
    if is_op(linear, "ConvTranspose"):
        return "a ConvTranspose sums fewer products at its borders"
    return (
        "the convolution pads with zeros, which are not shifted"
        if is_op(linear, "Conv") and pads(linear)
        else None
    )


def _only_reader(node: "ir.Node") -> "ir.Node | None":
    """Returns the linear node that is the only reader of a result, as its input (not as its weights)."""
    result = node.outputs[0]
    uses = result.uses()
    if result.is_graph_output() or len(uses) != 1:
        return None
    reader, place = next(iter(uses))
    return reader if place == 0 and is_op(reader, *LINEAR) and reader.graph is node.graph else None


def _affine(step: ScaleAndShift, linear: "ir.Node", channels: int, value: "ir.Value") -> Affine | str:
    """Returns the step by channel, or why it differs along other axes."""
    rank = _rank(linear, value)
    if rank is None:
        if max(step.factor.size, step.shift.size) > 1 or max(step.factor.ndim, step.shift.ndim) > 1:
            return f"the number of dimensions of '{value.name}' is not known"
        return Affine(step.factor.reshape(1), step.shift.reshape(1))
    axis = channel_axis(linear, rank)
    assert axis is not None  # noqa: S101 - the rank is known
    found = [by_channel(number, axis, rank, channels) for number in (step.factor, step.shift)]
    if found[0] is None or found[1] is None:
        return "its constant differs within a channel, or broadcasts the tensor"
    return Affine(found[0], found[1])


def _has_channels(linear: "ir.Node", value: "ir.Value", channels: int) -> bool:
    """Whether a tensor has all channels already, so that the constant makes it no wider."""
    axis = channel_axis(linear, _rank(linear, value))
    return axis is not None and value.shape is not None and value.shape[axis] == channels


def _rank(linear: "ir.Node", value: "ir.Value") -> int | None:
    if value.shape is not None:
        return len(value.shape)
    weights = linear.inputs[1]
    if is_op(linear, "MatMul") or weights is None or weights.const_value is None:
        return None
    return len(weights.const_value.shape)


SCALE_INTO_LINEAR = Pass(
    "scale-into-linear",
    "scales and shifts by constants go into the weights of convolutions and matrix products",
    apply_scale_into_linear,
    tolerance_db=100.0,
)
