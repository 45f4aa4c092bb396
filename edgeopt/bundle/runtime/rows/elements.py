"""Rules of operators that compute each element by itself, with the broadcasting of ONNX."""

from collections.abc import Sequence
from dataclasses import replace

from edgeopt.bundle.runtime.rows.sizes import ONE, Size, quotient, size
from edgeopt.bundle.runtime.rows.values import (
    UNKNOWN,
    OperatorCall,
    RowTensor,
    dims_of,
    mixes,
    row_size,
    unclear,
    unknown_size,
    valued,
)

ELEMENTWISE = (
    "Abs Acos Acosh Add And Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor "
    "Cast CastLike Ceil Celu Clip Cos Cosh Div Elu Equal Erf Exp Floor Gelu Greater GreaterOrEqual "
    "HardSigmoid HardSwish Identity IsInf IsNaN LeakyRelu Less LessOrEqual Log Max Mean Min Mish Mod Mul "
    "Neg Not Or Pow PRelu Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign Sqrt "
    "Sub Sum Swish Tan Tanh ThresholdedRelu Where Xor BiasGelu FastGelu QuickGelu StringConcat "
    "RegexFullMatch"
)
"""Of com.microsoft too."""
QUANTIZED_ELEMENTWISE = {
    "QLinearAdd": (0, 3),
    "QLinearMul": (0, 3),
    "QLinearSigmoid": (0,),
    "QLinearLeakyRelu": (0,),
}
"""The places of their tensors; the other inputs are scales and zero points."""


def broadcast(given: Sequence[RowTensor]) -> RowTensor:
    """Rows must meet rows, and what is the same for all rows must not have a size of its own there."""
    rows = [each for each in given if each.axis is not None]
    if any(each.dims is None for each in given):
        if rows or any(each.counts_rows for each in given):
            unclear("the rank of an input is unknown")
        return UNKNOWN
    rank = max(len(dims_of(each)) for each in given)
    places = {each.axis - len(dims_of(each)) for each in rows if each.axis is not None}
    if len(places) > 1:
        mixes("it combines rows with each other")
    if len({row_size(each) for each in rows}) > 1:
        unclear("it combines tensors with different numbers of rows")
    place = places.pop() if places else None
    for each in given:
        reaches = each.axis is None and place is not None and len(dims_of(each)) >= -place
        if reaches and place is not None and dims_of(each)[place] != ONE:
            unclear("one of its inputs has a fixed size where another has the rows")
        if rows and each.counts_rows:
            mixes("it computes with the number of rows")
    dims = []
    for axis in range(-rank, 0):
        sizes = {dims_of(each)[axis] for each in given if len(dims_of(each)) >= -axis} - {ONE}
        if rows and axis == place:
            dims.append(row_size(rows[0]))
        elif len(sizes) <= 1:
            dims.append(sizes.pop() if sizes else ONE)
        else:
            fixed = {each for each in sizes if each.constant is not None}
            dims.append(fixed.pop() if len(fixed) == 1 else unknown_size())
    return RowTensor(None if place is None else place + rank, tuple(dims))


def elementwise(call: OperatorCall) -> RowTensor:
    given = call.given[:1] if call.node.operator == "CastLike" else call.given
    operator = call.node.operator
    found = broadcast(given)
    if any(each.numbering for each in given):
        same = operator in ("Cast", "Identity") and given[0].numbering == "number"
        return replace(found, numbering="number" if same else "derived")
    if found.axis is not None or found.dims is None or all(each.value is None for each in given):
        if any(each.counts_rows for each in given):
            unclear("it computes with the number of rows")
        return found
    counts = any(each.counts_rows for each in given)
    count = found.dims[0].constant if found.dims else 1
    if count is None or len(found.dims) > 1 or any(each.value is None for each in given):
        if counts:
            unclear("it computes with the number of rows")
        return found
    columns = [each.value * count if len(each.value) == 1 else each.value for each in given if each.value]
    if any(len(column) != count for column in columns):
        return found
    value = tuple(_computed(operator, [column[k] for column in columns]) for k in range(count))
    return valued(value, found.dims, counts)


def _computed(operator: str, given: list[Size | None]) -> Size | None:
    """One number of a shape; None where it is not known."""
    if operator in ("Cast", "CastLike", "Identity"):
        return given[0]
    if operator == "Where":
        return None if given[0] is None or given[0].names else given[1] if given[0].number else given[2]
    if any(each is None for each in given):
        return None
    one, *others = [each for each in given if each is not None]
    if len(others) != 1:
        return _single(operator, one) if not others else None
    return _double(operator, one, others[0])


def _single(operator: str, one: Size) -> Size | None:
    if operator in ("Floor", "Ceil", "Round") and one.number.denominator == 1:
        return one
    return size(-one.number) if operator == "Neg" and not one.names else None


def _double(operator: str, one: Size, other: Size) -> Size | None:
    if operator == "Mul":
        return one * other
    if operator == "Div" and other.number:
        found = quotient(one, other)
        return found.size if found.exact else None
    if operator == "Equal":
        return _equal(one, other)
    if one.names == other.names and operator in ("Add", "Sub"):
        total = one.number + other.number * (1 if operator == "Add" else -1)
        return Size(total, one.names) if total else size(0)
    if one.names or other.names:
        return None
    if operator in ("Min", "Max"):
        return size((min if operator == "Min" else max)(one.number, other.number))
    if operator in ("Greater", "Less"):
        return size(int(one.number > other.number if operator == "Greater" else one.number < other.number))
    return None


def _equal(one: Size, other: Size) -> Size | None:
    if one == other:
        return size(1)
    if not one.names and not other.names:
        return size(0)
    named, plain = (one, other) if one.names else (other, one)
    return size(0) if not plain.names and plain.number < 0 < named.number else None


def quantized_elementwise(call: OperatorCall) -> RowTensor:
    places = QUANTIZED_ELEMENTWISE[call.node.operator]
    call.only_shared(*(place for place in range(len(call.inputs)) if place not in places))
    return broadcast([call.need(place) for place in places])


def quantize(call: OperatorCall) -> RowTensor:
    """QuantizeLinear and DequantizeLinear; a scale for each row would be a constant of one batch size."""
    call.only_shared(1, 2)
    x, scale = call.x, call.need(1)
    if x.axis is not None and scale.rank != 0 and (scale.dims is None or scale.dims != (ONE,)):
        axis = call.integer("axis", 1)
        if x.dims is None or axis % len(x.dims) == x.axis or call.integer("block_size", 0):
            unclear("it has a scale for each row")
    return RowTensor(x.axis, x.dims)


def dropout(call: OperatorCall) -> list[RowTensor]:
    training = call.get(2)
    if training is not None and training.numbers != (0,):
        unclear("it may draw random numbers")
    call.only_shared(1)
    return [RowTensor(call.x.axis, call.x.dims)] * len(call.node.outputs)
