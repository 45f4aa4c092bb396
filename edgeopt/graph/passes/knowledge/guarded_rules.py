"""Guarded versions of onnxscript's rules: the same patterns, with the checks that they lack.

| rule                           | what onnxscript (0.7.2) does not check                                     |
|--------------------------------|----------------------------------------------------------------------------|
| Reshape(Reshape(a) Reshape(b)) | of a product: what the first two shapes are; rows may have been cut        |
| Cast(ConstantOfShape)          | whether the number is the same in the other type (3.7 or 300 as uint8)     |
| Reshape(x, computed)           | whether the shape follows, or is what the file declares for an output      |
| Reshape(Reshape(x))            | the same                                                                   |
| Conv(Pad(x))                   | whether the amounts are an input that may be given                         |
| ConvInteger(Pad(x))            | whether zero is what stands for zero                                       |
| Conv(x, w, 0), Gemm, ...       | whether the bias is an input that may be given                             |
| ScatterND over all rows        | from where on dimensions are counted                                       |
"""

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from edgeopt.graph.passes.base import constant, is_op
from edgeopt.graph.passes.knowledge.arithmetic import widens

if TYPE_CHECKING:
    import onnx_ir as ir
    from numpy.typing import NDArray

# onnxscript's builders, rules and verdicts, which have every operator as a method and carry no types.
Op = Any
DECLARED = "its result is an output, whose declared shape may be wrong"


def product_rules() -> tuple[Op, ...]:
    """Returns rules for products whose operands and result are reshaped although MatMul broadcasts."""
    from onnxscript.rewriter import RewriteRule

    return (
        RewriteRule(_two_reshaped, _product, _is_product, name="product-of-two-reshaped"),
        RewriteRule(_one_reshaped, _product, _is_product, name="product-of-one-reshaped"),
    )


def _two_reshaped(op: Op, a: Op, b: Op, to_a: Op, to_b: Op, shape: Op) -> Op:
    left, right = op.Reshape(a, to_a, _outputs=["left"]), op.Reshape(b, to_b, _outputs=["right"])
    return op.Reshape(op.MatMul(left, right, _outputs=["product"]), shape)


def _one_reshaped(op: Op, a: Op, b: Op, to_a: Op, shape: Op) -> Op:
    left = op.Reshape(a, to_a, _outputs=["left"])
    return op.Reshape(op.MatMul(left, b, _outputs=["product"]), shape)


def _product(op: Op, a: "ir.Value", b: "ir.Value", **_: Op) -> Op:
    return op.MatMul(a, b)


def _is_product(
    context: Op,  # noqa: ARG001
    a: "ir.Value",
    b: "ir.Value",
    shape: "ir.Value",
    left: "ir.Value",
    right: "ir.Value | None" = None,
    **_: Op,
) -> bool:
    target = constant(shape)
    sizes = [_sizes(value) for value in (a, b, left, right if right is not None else b)]
    if target is None or target.ndim != 1 or any(each is None or len(each) < 2 for each in sizes):
        return False
    one, other, cut, other_cut = (each or () for each in sizes)
    if one[-1] != other[-2] or cut[-1] != one[-1] or other_cut[-2:] != other[-2:]:
        return False
    matrix = all(size == 1 for size in (*other[:-2], *other_cut[:-2]))
    # With one matrix for all rows, their grouping does not matter; otherwise each matrix must keep its rows.
    if not matrix and not (cut[-2] == one[-2] and one[:-2] == other[:-2] and cut[:-2] == other_cut[:-2]):
        return False
    try:
        batch = np.broadcast_shapes(one[:-2], other[:-2])
    except ValueError:
        return False
    return bool(target.tolist() == [*batch, one[-2], other[-1]])


def _sizes(value: "ir.Value") -> tuple[int, ...] | None:
    if value.shape is None or not value.shape.is_static():
        return None
    return tuple(int(size) for size in value.shape)


def filling_rules() -> tuple[Op, ...]:
    """Returns rules that fill a tensor directly in the target type, if the number is the same in it."""
    from onnxscript.rewriter import RewriteRule

    return (RewriteRule(_filled, _filled_at_once, _same_number, name="cast-filled"),)


def _filled(op: Op, shape: Op, to: Op) -> Op:
    return op.Cast(op.ConstantOfShape(shape, _outputs=["filled"]), to=to, _outputs=["cast"])


def _same_number(context: Op, filled: "ir.Value", cast: "ir.Value", to: Op, **_: Op) -> Op:  # noqa: ARG001 - rules get all they bind
    from onnxscript.rewriter import MatchResult

    if _filling(filled.producer(), to) is None:
        return MatchResult().fail("the value is not representable in that type")
    return True


def _filled_at_once(op: Op, shape: "ir.Value", filled: "ir.Value", to: Op, **_: Op) -> Op:
    import onnx_ir as ir

    return op.ConstantOfShape(shape, value=ir.tensor(_filling(filled.producer(), to)))


def _filling(node: "ir.Node", to: Op) -> "NDArray[Any] | None":
    """Returns the number in the other type; None if a cast may truncate it or wrap around."""
    import onnx_ir as ir

    kind = ir.DataType(to.as_int())
    if kind in {ir.DataType.STRING, ir.DataType.UNDEFINED} or kind.itemsize < 1:
        return None
    if "value" not in node.attributes:
        return np.zeros(1, kind.numpy())
    if node.attributes["value"].is_ref():
        return None
    number: NDArray[Any] = node.attributes["value"].as_tensor().numpy().reshape(1)
    if number.dtype.kind in "OSUc":
        return None
    with np.errstate(all="ignore"):
        cast = number.astype(kind.numpy())
        same = np.array_equal(cast.astype(number.dtype), number, equal_nan=bool(number.dtype.kind == "f"))
    return cast if same and np.signbit(cast[0] * 1.0) == np.signbit(number[0] * 1.0) else None


def reshape_rules() -> tuple[Op, Op]:
    """Returns rules for a computed shape that follows from others, and for consecutive Reshapes (our own)."""
    from onnxscript.rewriter import MatchResult, RewriteRule
    from onnxscript.rewriter.rules.common import _materialize_reshape_shape

    known = _materialize_reshape_shape.MaterializeReshapeShape()

    def follows(context: Op, data: "ir.Value", shape: "ir.Value") -> Op:
        result = context.output_values[0]
        if result.is_graph_output() and constant(shape) is None:
            return MatchResult().fail(DECLARED)
        sizes = list(result.shape or ())
        if 0 in sizes and not all(isinstance(size, int) for size in sizes):
            return MatchResult().fail("a zero dimension beside an open one cannot be expressed")
        return known.check(context, data, shape)

    return (
        RewriteRule(known.pattern, known.rewrite, follows, name="shape-that-follows"),
        RewriteRule(_two_reshapes, _one_reshape, _has_literal_shape, name="merge-reshapes"),
    )


def _two_reshapes(op: Op, x: Op, first: Op, shape: Op) -> Op:
    return op.Reshape(op.Reshape(x, first), shape, _outputs=["result"])


def _has_literal_shape(context: Op, shape: "ir.Value", result: "ir.Value", **_: Op) -> Op:  # noqa: ARG001 - rules get all they bind
    from onnxscript.rewriter import MatchResult

    array = constant(shape)
    if array is None:
        return MatchResult().fail("Shape is not a constant.")
    literal_shape = _literal_shape(array, result)
    return True if literal_shape is not None else MatchResult().fail("Shape copies dimensions that are not known.")


def _literal_shape(shape: "NDArray[Any]", result: "ir.Value") -> "NDArray[Any] | None":
    """Replaces the zeros of a shape, which copy intermediate dimensions, by known sizes; None if it cannot."""
    if result.producer().attributes.get_int("allowzero", 0):
        return shape
    inferred = None if result.is_graph_output() else result.shape
    known = [None] * shape.size if inferred is None else list(inferred)
    sizes = [size or have for size, have in zip(shape.tolist(), known, strict=True)]
    if any(size == 0 for size in sizes):
        return None
    sizes = [size if isinstance(size, int) else -1 for size in sizes]
    return np.asarray(sizes, np.int64) if sizes.count(-1) <= 1 else None


def _one_reshape(op: Op, x: "ir.Value", shape: "ir.Value", result: "ir.Value", **_: Op) -> Op:
    import onnx_ir as ir

    array = constant(shape)
    assert array is not None  # noqa: S101 - _can_say_at_once() has seen to it
    literal = bool(result.producer().attributes.get_int("allowzero", 0))
    target = op.Constant(value=ir.tensor(_literal_shape(array, result)))
    return op.Reshape(x, target, **({"allowzero": 1} if literal else {}))


def padding_rules() -> tuple[Op, ...]:
    """Returns rules for a Pad with zeros before a convolution; an integer one requires a zero point of zero."""
    from onnxscript.rewriter import MatchResult, RewriteRule
    from onnxscript.rewriter.rules.common import _fuse_pad_into_conv

    def rule(of_library: Op, why_not: Op) -> Op:
        def check(context: Op, x: "ir.Value", pad: "ir.Value", conv: "ir.Value") -> Op:
            if reason := _why_not_constant(*pad.producer().inputs[1:]) or why_not(conv.producer()):
                return MatchResult().fail(reason)
            return of_library.check(context, x, pad, conv)

        return RewriteRule(of_library.pattern, of_library.rewrite, check, remove_nodes=False)

    return (
        rule(_fuse_pad_into_conv.FuseConvPad(), lambda _: None),
        rule(_fuse_pad_into_conv.FuseConvIntegerPad(), _why_not_zero),
    )


def _why_not_constant(*values: "ir.Value | None") -> str | None:
    """Returns why values are not constant (they are graph inputs, which the caller may override), or None."""
    return next((f"'{each.name}' is an input" for each in values if each and each.is_graph_input()), None)


def _why_not_zero(conv: "ir.Node") -> str | None:
    point = conv.inputs[2] if len(conv.inputs) > 2 else None
    array = constant(point)
    if point is not None and (array is None or array.any()):
        return "the convolution pads with its zero point, which is not 0"
    return None


def bias_rules() -> tuple[Op, ...]:
    """Returns rules that remove biases of zero, unless they are inputs."""
    from onnxscript.rewriter import MatchResult, RewriteRule
    from onnxscript.rewriter.rules.common import _remove_optional_bias as library

    def rule(of_library: Op) -> Op:
        def check(context: Op, b: "ir.Value", **bound: Op) -> Op:
            if reason := _why_not_constant(b):
                return MatchResult().fail(reason)
            return of_library.check(context, b, **bound)

        return RewriteRule(of_library.pattern, of_library.rewrite, check)

    kinds = (
        library.RemoveOptionalBiasFromConv,
        library.RemoveOptionalBiasFromConvTranspose,
        library.RemoveOptionalBiasFromQLinearConv,
        library.RemoveOptionalBiasFromGemm,
    )
    return tuple(rule(kind()) for kind in kinds)


def scatter_rules() -> tuple[Op, ...]:
    """Returns the rule for a ScatterND over all rows, without dimensions counted from the end, which Shape
    clips."""
    from onnxscript.rewriter import MatchResult, RewriteRule
    from onnxscript.rewriter.rules.common import _redundant_scatter_nd

    of_library = _redundant_scatter_nd.ScatterAllDynamic()

    def check(context: Op, data: "ir.Value", axis: "ir.Value", **bound: Op) -> Op:
        place = constant(axis)
        if place is None or np.less(place, 0).any():
            return MatchResult().fail("the dimension is not known, or counted from the end")
        return of_library.check(context, data, axis, **bound)

    return (RewriteRule(of_library.pattern, of_library.rewrite, check, remove_nodes=False),)


def squeeze_rules() -> tuple[Op, ...]:
    """Returns the rule for Reshape(Squeeze(x), [-1]) of a vector, which compares the shape as integers."""
    from onnxscript.rewriter.rules.common import _basic_rules

    return (_basic_rules.squeeze_reshape_1d_rule,)


@dataclass(frozen=True, slots=True)
class Clipping:
    """A clipping of numbers to [`lowest`, `highest`]; None for a missing limit."""

    lowest: Op
    highest: Op

    def of(self, number: Op) -> Op:
        """Returns a number clipped to the limits."""
        number = number if self.lowest is None else max(number, self.lowest)
        return number if self.highest is None else min(number, self.highest)

    def then(self, after: "Clipping") -> "Clipping":
        """Returns the composition of two clippings, whose lower limit is never above the upper one."""
        low = after.lowest if self.lowest is None else after.of(self.lowest)
        high = after.highest if self.highest is None else after.of(self.highest)
        return Clipping(low if low is None or high is None else min(low, high), high)


def limit_rules() -> tuple[tuple[Op, ...], tuple[Op, ...]]:
    """Returns rules that merge consecutive Clip, Relu, Min and Max with constants.

        Clip(Clip(x, a, b), c, d)  =  Clip(x, limited(a), limited(b))     limited: by c and d, as all numbers are
        Min(Min(x, a), b)          =  Min(x, Min(a, b))                   Max alike

    The second limits clip the first ones like any number, in whatever order the four are: after Clip(0, 1) and
    Clip(5, 6) every number is 5. onnxscript's own rules take the larger of the lower limits and the smaller of the
    upper ones, which gives 1.

    Returns the rules of Min and Max, and those of Relu and Clip, as onnxscript's RewriteRule objects.
    """
    from onnxscript.rewriter import RewriteRule

    def rule(first: str, second: str) -> Op:
        return RewriteRule(_pattern(first, second), _merged, _can_merge, name=f"{first}-{second}".lower())

    return (
        (rule("Min", "Min"), rule("Max", "Max"), rule("Max", "Min"), rule("Min", "Max")),
        (
            rule("Relu", "Clip"),
            rule("Clip", "Relu"),
            RewriteRule(_relu_relu, _one_relu, name="relu-relu"),
            rule("Clip", "Clip"),
        ),
    )


def _relu_relu(op: Op, x: Op) -> Op:
    return op.Relu(op.Relu(x))


def _one_relu(op: Op, x: Op) -> Op:
    return op.Relu(x)


def _pattern(first: str, second: str) -> Op:
    def pattern(op: Op, x: Op) -> Op:
        before = getattr(op, first)(x, _allow_other_inputs=True, _outputs=["before"])
        return getattr(op, second)(before, _allow_other_inputs=True, _outputs=["behind"])

    return pattern


def _can_merge(context: Op, x: "ir.Value", before: "ir.Value", behind: "ir.Value", **_: Op) -> Op:  # noqa: ARG001 - rules get all they bind
    from onnxscript.rewriter import MatchResult

    reason = _why_not(before.producer(), behind.producer())
    return MatchResult().fail(reason) if reason else True


def _why_not(before: "ir.Node", behind: "ir.Node") -> str | None:
    x = before.inputs[0]
    if x is None or x.dtype is None:
        return "the type of the limited tensor is unknown"
    for node in (before, behind):
        if "min" in node.attributes or "max" in node.attributes:
            return "its limits are attributes, as before opset 11"
        for value in node.inputs[1:]:
            array = constant(value)
            if value is not None and array is None:
                return f"{value.name} is not a constant."
            if array is not None and np.isnan(array.astype(np.float64)).any():
                return f"{value.name if value is not None else ''} is not a number"
    if not _others(before, behind):
        return "it has no limits"
    if before.op_type == behind.op_type and is_op(before, "Min", "Max"):
        merged, limits = _joined(before, behind), [constant(value) for value in _others(before, behind)]
        larger = merged.size > sum(array.size for array in limits if array is not None)
        return "the merged limits would be larger than both" if larger else None
    for value in _others(before, behind):
        array = constant(value)
        if array is not None and (array.size != 1 or widens(x, array)):
            return f"{value.name if value is not None else ''} is not a scalar."
    return None


def _others(*nodes: "ir.Node") -> "list[ir.Value | None]":
    return [value for node in nodes for value in node.inputs[1:]]


def _joined(before: "ir.Node", behind: "ir.Node") -> "NDArray[Any]":
    both = [array for value in _others(before, behind) if (array := constant(value)) is not None]
    joined: NDArray[Any] = reduce(np.minimum if is_op(before, "Min") else np.maximum, both)
    return joined


def _merged(op: Op, x: "ir.Value", before: "ir.Value", behind: "ir.Value", **_: Op) -> Op:
    import onnx_ir as ir

    first, second = before.producer(), behind.producer()
    if first.op_type == second.op_type and is_op(first, "Min", "Max"):
        return getattr(op, first.op_type)(x, op.Constant(value=ir.tensor(_joined(first, second))))
    assert x.dtype is not None  # noqa: S101 - _why_not() has seen to it
    kind = x.dtype.numpy()
    limits = _limits(first, kind).then(_limits(second, kind))
    ends = [
        None if number is None or number == unsaid else op.Constant(value=ir.tensor(np.asarray(number, kind)))
        for number, unsaid in zip((limits.lowest, limits.highest), _unsaid("Clip", kind), strict=True)
    ]
    while ends and ends[-1] is None:
        ends.pop()
    return op.Clip(x, *ends)


def _unsaid(operator: str, kind: "np.dtype[Any]") -> tuple[Op, Op]:
    """Returns the default limits of an operator: finite for Clip, infinite for others, None if not of floats."""
    import ml_dtypes

    try:
        found = ml_dtypes.finfo(kind)  # type: ignore[no-untyped-call]
    except ValueError:
        return None, None
    if operator == "Clip":
        return found.min, found.max
    return kind.type(-np.inf), kind.type(np.inf)


def _limits(node: "ir.Node", kind: "np.dtype[Any]") -> Clipping:
    numbers = [None if array is None else array.reshape(())[()] for array in map(constant, node.inputs[1:])]
    low, high = _unsaid(node.op_type, kind)
    if is_op(node, "Relu"):
        return Clipping(np.zeros((), kind)[()], high)
    if is_op(node, "Clip"):
        lowest, highest = (*numbers, None, None)[:2]
        return Clipping(low if lowest is None else lowest, high if highest is None else highest)
    known = [number for number in numbers if number is not None]
    if is_op(node, "Min"):
        return Clipping(low, min(known, default=high))
    return Clipping(max(known, default=low), high)
