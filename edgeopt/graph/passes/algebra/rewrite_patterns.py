"""Simplification of small patterns by onnxscript's matcher, each change described in the user's words.

Only exact rules of onnxscript are used, with the checks that they lack (`knowledge/guarded_rules.py`). Excluded
from its default set, because they can change what a model computes: arithmetic with 0 or 1 (treats 1e-10 as 0),
clips and minima (wrong for disjoint limits), Slice pairs to Split (wrong for odd sizes), automatic to explicit
padding (ignores dilations), static ScatterND (ignores the reduction), pairs of casts (may round twice). Excluded
because other passes do the same and report reasons: batch normalization, identities, slices of everything.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from edgeopt.graph.passes.base import (
    Notes,
    Pass,
    PassContext,
    PassResult,
    adopt_orphans,
    constant,
    is_op,
    label,
    nodes_of,
    quiet,
)
from edgeopt.graph.passes.cleaning.identities import HOLDS
from edgeopt.graph.passes.knowledge import guarded_rules as guarded
from edgeopt.graph.passes.knowledge.guarded_rules import limit_rules

if TYPE_CHECKING:
    import onnx_ir as ir
    from onnxscript.rewriter import MatchResult, MatchStatus

SAYS_NOTHING = ("Condition function check failed", "")
"""Reasons that onnxscript reports for a check that returned False."""


class WhyNot:
    """A tracer for `apply_to_model` that records the node and the reason of each match whose check failed."""

    def __init__(self, tell: Callable[[str, str], None]) -> None:
        self.tell = tell

    def log(
        self,
        rule: object,  # noqa: ARG002
        container: object,  # noqa: ARG002
        node: "ir.Node",
        match: "MatchResult",
        status: "MatchStatus",
    ) -> None:
        from onnxscript.rewriter import MatchStatus

        if status is MatchStatus.CONDITION_FAILED:
            self.tell((match.reason or "").rstrip("."), label(node))


# onnxscript's builders, rules and verdicts, which have every operator as a method and carry no types.
Op = Any


def merge_rules() -> tuple[Op, ...]:
    """Rules of our own in onnxscript's form, for chains that its rules leave as they are.

        Slice(Slice(x, axes a), axes b)         = Slice(x, axes a and b)       a and b have no axis in common
        Unsqueeze(Unsqueeze(x, axes a), axes b) = Unsqueeze(x, a moved by b, and b)
        Reshape(Flatten(x), shape)              = Reshape(x, shape)            no 0 in the shape
        Reshape(Softmax(Flatten(x)), shape)     = Softmax(x)                   rows: x's last axis, shape: x's
        Cast(Cast(x, wide), type)               = Cast(x, type)                wide holds every value of x's type

    The Softmax is what onnx's converter makes of a Softmax older than opset 13.

    Returns onnxscript's RewriteRule objects.
    """
    from onnxscript.rewriter import RewriteRule

    return (
        RewriteRule(_slice_slice, _one_slice, _axes_are_apart, name="merge-slices", remove_nodes=False),
        RewriteRule(_unsqueeze_unsqueeze, _one_unsqueeze, _axes_are_known, name="merge-unsqueezes"),
        RewriteRule(_flatten_reshape, _one_reshape, _shape_is_complete, name="flatten-then-reshape"),
        RewriteRule(_flat_softmax, _one_softmax, _rows_are_the_last_axis, name="flat-softmax"),
        RewriteRule(_cast_cast, _one_cast, _holds_all_values, name="merge-casts"),
    )


# onnxscript reads from a pattern's signature what it binds, so that there is no shorter way to write it.
def _slice_slice(  # noqa: PLR0913, PLR0917 - see above
    op: Op, x: Op, s1: Op, e1: Op, a1: Op, t1: Op, s2: Op, e2: Op, a2: Op, t2: Op
) -> Op:
    return op.Slice(op.Slice(x, s1, e1, a1, t1, _outputs=["inner"]), s2, e2, a2, t2)


def _axes_are_apart(context: Op, x: "ir.Value", inner: "ir.Value", **bound: "ir.Value") -> Op:  # noqa: ARG001 - rules get all they bind
    from onnxscript.rewriter import MatchResult

    parameters = [bound[k] for k in ("s1", "e1", "a1", "t1", "s2", "e2", "a2", "t2")]
    arrays = [constant(value) for value in parameters]
    if any(array is None for array in arrays):
        return MatchResult().fail("a start, end, axis or step is not constant")
    if len({str(array.dtype) for array in arrays if array is not None}) != 1:
        return MatchResult().fail("the two slices have different index types")
    first, second = (_axes(bound[name], _rank(x)) for name in ("a1", "a2"))
    if first is None or second is None:
        return MatchResult().fail("the number of dimensions is not known")
    if set(first) & set(second):
        return MatchResult().fail("both cut the same axis")
    if inner.is_graph_output() or not all(is_op(user, "Slice") and at == 0 for user, at in inner.uses()):
        return MatchResult().fail("the result of the first slice is used elsewhere too")
    return True


def _one_slice(op: Op, x: "ir.Value", **bound: "ir.Value") -> Op:
    return op.Slice(x, *(_joined(op, bound[f"{k}1"], bound[f"{k}2"]) for k in ("s", "e", "a", "t")))


def _joined(op: Op, first: "ir.Value", second: "ir.Value") -> Op:
    import numpy as np
    import onnx_ir as ir

    arrays = [array for value in (first, second) if (array := constant(value)) is not None]
    return op.Constant(value=ir.tensor(np.concatenate(arrays)))


def _axes(value: "ir.Value", rank: int | None) -> list[int] | None:
    """Returns the axes counted from the front; None if that requires an unknown rank."""
    array = constant(value)
    if array is None:
        return None
    axes = [int(axis) for axis in array.reshape(-1)]
    if all(axis >= 0 for axis in axes):
        return axes
    return None if rank is None else [axis % rank for axis in axes]


def _rank(value: "ir.Value") -> int | None:
    return None if value.shape is None else len(value.shape)


def _unsqueeze_unsqueeze(op: Op, x: Op, a1: Op, a2: Op) -> Op:
    return op.Unsqueeze(op.Unsqueeze(x, a1), a2)


def _both_axes(x: "ir.Value", a1: "ir.Value", a2: "ir.Value") -> tuple[list[int], list[int]] | None:
    """Returns the axes of both steps, counted from the front; each step's axes refer to its own result."""
    first, second = constant(a1), constant(a2)
    if first is None or second is None:
        return None
    rank = _rank(x)
    between = None if rank is None else rank + first.size
    after = None if between is None else between + second.size
    axes = _axes(a1, between), _axes(a2, after)
    return None if axes[0] is None or axes[1] is None else (axes[0], axes[1])


def _axes_are_known(context: Op, x: "ir.Value", a1: "ir.Value", a2: "ir.Value") -> Op:  # noqa: ARG001 - rules get all they bind
    from onnxscript.rewriter import MatchResult

    if _both_axes(x, a1, a2) is None:
        return MatchResult().fail("an axis is not constant, or counts from an end that is not known")
    return True


def _one_unsqueeze(op: Op, x: "ir.Value", a1: "ir.Value", a2: "ir.Value") -> Op:
    import numpy as np
    import onnx_ir as ir

    moved, last = _both_axes(x, a1, a2) or ([], [])
    for axis in sorted(last):
        moved = [old + 1 if old >= axis else old for old in moved]
    return op.Unsqueeze(x, op.Constant(value=ir.tensor(np.array(sorted([*moved, *last]), dtype=np.int64))))


def _flatten_reshape(op: Op, x: Op, shape: Op) -> Op:
    return op.Reshape(op.Flatten(x), shape)


def _shape_is_complete(context: Op, x: "ir.Value", shape: "ir.Value") -> Op:  # noqa: ARG001 - rules get all they bind
    from onnxscript.rewriter import MatchResult

    array = constant(shape)
    if array is None:
        return MatchResult().fail("the shape is not constant")
    return True if 0 not in array else MatchResult().fail("the shape copies a dimension of the flattened tensor")


def _one_reshape(op: Op, x: "ir.Value", shape: "ir.Value") -> Op:
    return op.Reshape(x, shape)


def _flat_softmax(op: Op, x: Op, shape: Op) -> Op:
    rows = op.Flatten(x, _outputs=["rows"])
    return op.Reshape(op.Softmax(rows, _outputs=["chances"]), shape, _outputs=["result"])


def _rows_are_the_last_axis(
    context: Op,  # noqa: ARG001 - rules get all they bind
    x: "ir.Value",
    rows: "ir.Value",
    chances: "ir.Value",
    **bound: Op,
) -> Op:
    from onnxscript.rewriter import MatchResult

    if not _rank(x) or not all(isinstance(dim, int) for dim in x.shape):
        return MatchResult().fail("the shape is not known")
    rank, target = len(x.shape), constant(bound["shape"])
    result = None if bound["result"].is_graph_output() else bound["result"].shape  # a declared shape need not hold
    flat_axis = rows.producer().attributes.get_int("axis", 1) % rank
    if flat_axis != rank - 1 or chances.producer().attributes.get_int("axis", -1) not in {1, -1}:
        return MatchResult().fail("the Softmax goes over more than the last axis")
    if list(x.shape) not in (list(result or ()), [] if target is None else target.tolist()):
        return MatchResult().fail("the shape after the Softmax is not the one before")
    return True


def _one_softmax(op: Op, x: "ir.Value", **bound: Op) -> Op:  # noqa: ARG001 - rules get all they bind
    return op.Softmax(x, axis=-1)


def _cast_cast(op: Op, x: Op, wide: Op, to: Op) -> Op:
    return op.Cast(op.Cast(x, to=wide, _outputs=["between"]), to=to, _outputs=["result"])


def _holds_all_values(context: Op, x: "ir.Value", between: "ir.Value", **bound: Op) -> Op:  # noqa: ARG001 - rules get all they bind
    import onnx_ir as ir
    from onnxscript.rewriter import MatchResult

    first, second = x.dtype, ir.DataType(bound["wide"].as_int())
    last = ir.DataType(bound["to"].as_int())
    if first is None:
        return MatchResult().fail("the type of the cast tensor is unknown")
    wraps = first.is_integer() and second.is_floating_point() and last.is_integer()
    if wraps and last != first and last.name not in HOLDS.get(first.name, ()):
        return MatchResult().fail(f"{first.name} as {last.name} may wrap around, unlike from {second.name}")
    if second.name not in HOLDS.get(first.name, ()) or last.name not in NUMBERS:
        return MatchResult().fail(f"{first.name} through {second.name} to {last.name} rounds differently")
    return True


def _one_cast(op: Op, x: "ir.Value", to: Op, **bound: Op) -> Op:  # noqa: ARG001 - rules get all they bind
    return op.Cast(x, to=to)


NUMBERS = {*HOLDS, "DOUBLE", "INT64", "UINT16", "UINT32", "UINT64"}


ROUNDS = 6
_WITH_BIAS = ("Conv", "ConvTranspose", "QLinearConv", "Gemm")


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A family of rules; `speaks` if its refusals are worth reporting to the user."""

    what: str
    kinds: tuple[str, ...]
    """Operators that the patterns contain; a model without any of them is not searched."""
    rules: tuple[Any, ...]
    oldest_opset: int = 7
    speaks: bool = False


def rewrites() -> tuple[Rewrite, ...]:
    """Returns the rules in order; imports onnxscript here because that takes half a second."""
    slices, unsqueezes, flatten, softmax, casts = merge_rules()
    extremes, clips = limit_rules()
    known_shape, two_shapes = guarded.reshape_rules()
    return (
        Rewrite("multiplied matrices without reshaping them first", ("MatMul",), guarded.product_rules()),
        Rewrite("filled tensors directly in the wanted type", ("ConstantOfShape",), guarded.filling_rules(), 9),
        Rewrite("made the shape of a Reshape constant", ("Reshape",), (known_shape,), 14, speaks=True),
        Rewrite("merged minima and maxima", ("Min", "Max"), extremes, 11, speaks=True),
        Rewrite("merged activations and clips", ("Relu", "Clip"), clips, 11, speaks=True),
        Rewrite("merged casts", ("Cast",), (casts,), 9, speaks=True),
        Rewrite("merged reshapes", ("Reshape",), (two_shapes,), 14, speaks=True),
        Rewrite("merged slices", ("Slice",), (slices,), 10, speaks=True),
        Rewrite("merged unsqueezes", ("Unsqueeze",), (unsqueezes,), 13, speaks=True),
        Rewrite("dropped the Flatten before a Reshape", ("Flatten",), (flatten,), 9, speaks=True),
        Rewrite("dropped the Flatten and the Reshape around a Softmax", ("Flatten",), (softmax,), 13, speaks=True),
        Rewrite("dropped a squeeze and its reshape", ("Squeeze",), guarded.squeeze_rules(), 13, speaks=True),
        Rewrite("dropped a scatter over everything", ("ScatterND",), guarded.scatter_rules(), 16),
        Rewrite("let the convolution pad", ("Pad",), guarded.padding_rules(), 11, speaks=True),
        Rewrite("dropped biases of zero", _WITH_BIAS, guarded.bias_rules(), 11),
    )


def apply(model: "ir.Model", context: PassContext) -> PassResult:
    """Applies all rules until none matches, then collects the refusals of the rules that report them."""
    from onnx_ir.passes import common
    from onnxscript.rewriter import RewriteRuleSet

    model, notes = context.copy(model), Notes()
    opset = model.opset_imports.get("", 1)
    rewrites_here = [r for r in rewrites() if opset >= r.oldest_opset]
    before = {node: label(node) for node in nodes_of(model)}
    kinds = {node.op_type for node in before}
    rewrites_here = [r for r in rewrites_here if kinds.intersection(r.kinds)]
    with quiet():
        for _ in range(ROUNDS):
            changed = 0
            for rewrite in rewrites_here:
                if count := RewriteRuleSet(rewrite.rules).apply_to_model(model):
                    changed += count
                    adopt_orphans(model)
                    left = {node: label(node) for node in nodes_of(model)}
                    notes.did(rewrite.what, *(name for node, name in before.items() if node not in left))
                    before = left  # in graph order, because the order of a set varies between runs
            if not changed:
                break
            common.RemoveUnusedNodesPass()(model)
            common.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(model)
        common.NameFixPass()(model)
        # With a tracer, rules only match; works on a copy, because matching may still add opset imports.
        looked_at = model.clone()
        for rewrite in rewrites_here:
            if rewrite.speaks:
                RewriteRuleSet(rewrite.rules).apply_to_model(looked_at, tracer=_why_not(rewrite, notes))
    return notes.result(model)


def _why_not(rewrite: Rewrite, notes: Notes) -> WhyNot:
    def tell(reason: str, node: str) -> None:
        if reason not in SILENT:
            notes.refuse(f"not {rewrite.what}: {reason}", node)

    return WhyNot(tell)


# The first reason is no refusal: there is nothing to do.
SILENT = ("Shape input is already a constant", *SAYS_NOTHING)

# A convolution with padding of its own may sum in another order.
PASS = Pass("rewrite-patterns", "small patterns become simpler nodes", apply, tolerance_db=100.0)
