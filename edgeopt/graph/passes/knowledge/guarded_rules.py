"""onnxscript's rules where they take too much for granted: the same patterns, with what they leave unasked.

| rule                           | what onnxscript (0.7.2) does not ask                                       |
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

from typing import TYPE_CHECKING, Any

import numpy as np

from edgeopt.graph.passes.base import constant

if TYPE_CHECKING:
    import onnx_ir as ir
    from numpy.typing import NDArray

# onnxscript's builders, rules and verdicts, which have every operator as a method and carry no types.
Op = Any
DECLARED = "its result is an output, whose declared shape may be wrong"


def product_rules() -> tuple[Op, ...]:
    """Products whose operands and result are reshaped although MatMul broadcasts by itself."""
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
    wanted = constant(shape)
    sizes = [_sizes(value) for value in (a, b, left, right if right is not None else b)]
    if wanted is None or wanted.ndim != 1 or any(each is None or len(each) < 2 for each in sizes):
        return False
    one, other, cut, other_cut = (each or () for each in sizes)
    if one[-1] != other[-2] or cut[-1] != one[-1] or other_cut[-2:] != other[-2:]:
        return False
    matrix = all(size == 1 for size in (*other[:-2], *other_cut[:-2]))
    # With one matrix for all, it does not matter how rows are grouped; otherwise each matrix must keep its rows.
    if not matrix and not (cut[-2] == one[-2] and one[:-2] == other[:-2] and cut[:-2] == other_cut[:-2]):
        return False
    try:
        batch = np.broadcast_shapes(one[:-2], other[:-2])
    except ValueError:
        return False
    return bool(wanted.tolist() == [*batch, one[-2], other[-1]])


def _sizes(value: "ir.Value") -> tuple[int, ...] | None:
    if value.shape is None or not value.shape.is_static():
        return None
    return tuple(int(size) for size in value.shape)


def filling_rules() -> tuple[Op, ...]:
    """A filled tensor in the wanted type at once, where the number is the same in it."""
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
    """The number in the other type; None where a cast may cut off or wrap round."""
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
    """A computed shape that follows from others, and two reshapes one after the other (a rule of our own)."""
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
        RewriteRule(_two_reshapes, _one_reshape, _can_say_at_once, name="merge-reshapes"),
    )


def _two_reshapes(op: Op, x: Op, first: Op, shape: Op) -> Op:
    return op.Reshape(op.Reshape(x, first), shape, _outputs=["result"])


def _can_say_at_once(context: Op, shape: "ir.Value", result: "ir.Value", **_: Op) -> Op:  # noqa: ARG001 - rules get all they bind
    from onnxscript.rewriter import MatchResult

    array = constant(shape)
    if array is None:
        return MatchResult().fail("Shape is not a constant.")
    wanted = _said_at_once(array, result)
    return True if wanted is not None else MatchResult().fail("Shape copies dimensions that are not known.")


def _said_at_once(shape: "NDArray[Any]", result: "ir.Value") -> "NDArray[Any] | None":
    """The shape without zeros, which copy dimensions from between; those of an output are only declared."""
    if result.producer().attributes.get_int("allowzero", 0):
        return shape
    inferred = None if result.is_graph_output() else result.shape
    known = [None] * shape.size if inferred is None else list(inferred)
    wanted = [size or have for size, have in zip(shape.tolist(), known, strict=True)]
    if any(size == 0 for size in wanted):
        return None
    wanted = [size if isinstance(size, int) else -1 for size in wanted]
    return np.asarray(wanted, np.int64) if wanted.count(-1) <= 1 else None


def _one_reshape(op: Op, x: "ir.Value", shape: "ir.Value", result: "ir.Value", **_: Op) -> Op:
    import onnx_ir as ir

    array = constant(shape)
    assert array is not None  # noqa: S101 - _can_say_at_once() has seen to it
    literal = bool(result.producer().attributes.get_int("allowzero", 0))
    wanted = op.Constant(value=ir.tensor(_said_at_once(array, result)))
    return op.Reshape(x, wanted, **({"allowzero": 1} if literal else {}))


def padding_rules() -> tuple[Op, ...]:
    """A Pad with zeros before a convolution; one of integers only where zero stands for zero."""
    from onnxscript.rewriter import MatchResult, RewriteRule
    from onnxscript.rewriter.rules.common import _fuse_pad_into_conv

    def rule(of_library: Op, why_not: Op) -> Op:
        def check(context: Op, x: "ir.Value", pad: "ir.Value", conv: "ir.Value") -> Op:
            if reason := _given(*pad.producer().inputs[1:]) or why_not(conv.producer()):
                return MatchResult().fail(reason)
            return of_library.check(context, x, pad, conv)

        return RewriteRule(of_library.pattern, of_library.rewrite, check, remove_nodes=False)

    return (
        rule(_fuse_pad_into_conv.FuseConvPad(), lambda _: None),
        rule(_fuse_pad_into_conv.FuseConvIntegerPad(), _why_not_zero),
    )


def _given(*values: "ir.Value | None") -> str | None:
    """Why constants are none: they are inputs, for which others may be given."""
    return next((f"'{each.name}' is an input" for each in values if each and each.is_graph_input()), None)


def _why_not_zero(conv: "ir.Node") -> str | None:
    point = conv.inputs[2] if len(conv.inputs) > 2 else None
    array = constant(point)
    if point is not None and (array is None or array.any()):
        return "the convolution pads with its zero point, which is not 0"
    return None


def bias_rules() -> tuple[Op, ...]:
    """Biases of zero, where they are no inputs."""
    from onnxscript.rewriter import MatchResult, RewriteRule
    from onnxscript.rewriter.rules.common import _remove_optional_bias as library

    def rule(of_library: Op) -> Op:
        def check(context: Op, b: "ir.Value", **bound: Op) -> Op:
            if reason := _given(b):
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
    """A ScatterND whose rows are all there are; a dimension counted from the end may be cut off by the Shape."""
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
    """Reshape(Squeeze(x), [-1]) of a vector; the shape is compared as whole numbers."""
    from onnxscript.rewriter.rules.common import _basic_rules

    return (_basic_rules.squeeze_reshape_1d_rule,)
