"""Rules of operators that compute element by element or along axes."""

from collections.abc import Sequence
from dataclasses import replace

from edgeopt.bundle.runtime.rows.values import (
    ONE,
    UNKNOWN,
    OperatorCall,
    RowTensor,
    Size,
    dims_of,
    mixes,
    normal,
    product,
    quotient,
    row_size,
    size,
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


def softmax(call: OperatorCall) -> RowTensor:
    if call.x.axis is not None:
        rank = len(dims_of(call.x))
        old = call.opset < 13
        axis = normal(call.integer("axis", 1 if old else -1), rank)
        if axis == call.x.axis or (old and call.x.axis > axis):
            mixes("it works along the rows")
    return RowTensor(call.x.axis, call.x.dims)


def lp_norm(call: OperatorCall) -> RowTensor:
    if call.x.axis is not None and normal(call.integer("axis", -1), len(dims_of(call.x))) == call.x.axis:
        mixes("it normalizes over the rows")
    return RowTensor(call.x.axis, call.x.dims)


def cumulative_sum(call: OperatorCall) -> RowTensor:
    call.only_shared(1)
    if call.x.axis is not None:
        axis = call.need(1).numbers
        if axis is None:
            unclear("its axis is computed while it runs")
        if normal(axis[0], len(dims_of(call.x))) == call.x.axis:
            mixes("it adds up along the rows")
    return RowTensor(call.x.axis, call.x.dims)


def reduce(call: OperatorCall) -> RowTensor:
    x = call.x
    if x.value is not None and call.node.operator == "ReduceProd" and None not in x.value:
        whole = product(each for each in x.value if each is not None)
        return valued((whole,), (ONE,) if call.integer("keepdims", 1) else ())
    if x.counts_rows:
        unclear("it computes with the number of rows")
    call.only_shared(1)
    given = call.get(1)
    if x.axis is None and (x.dims is None or (given is not None and given.numbers is None)):
        return UNKNOWN
    axes = call.listed("axes", 1)
    rank = len(dims_of(x))
    if not axes:
        if call.integer("noop_with_empty_axes", 0):
            return RowTensor(x.axis, x.dims)
        axes = tuple(range(rank))
    return _reduced(x, {normal(axis, rank) for axis in axes}, bool(call.integer("keepdims", 1)))


def _reduced(x: RowTensor, gone: set[int], keeps: bool) -> RowTensor:
    if x.axis in gone:
        mixes("it reduces over the rows")
    dims = dims_of(x)
    if keeps:
        return RowTensor(x.axis, tuple(ONE if axis in gone else each for axis, each in enumerate(dims)))
    kept = [axis for axis in range(len(dims)) if axis not in gone]
    return RowTensor(None if x.axis is None else kept.index(x.axis), tuple(dims[axis] for axis in kept))


def arg_reduce(call: OperatorCall) -> RowTensor:
    if call.x.dims is None and call.x.axis is None:
        return UNKNOWN
    axis = normal(call.integer("axis", 0), len(dims_of(call.x)))
    return _reduced(call.x, {axis}, bool(call.integer("keepdims", 1)))


def top_k(call: OperatorCall) -> list[RowTensor]:
    x = call.x
    if x.axis is None:
        call.only_shared(1)
        return [UNKNOWN, UNKNOWN]
    axis = normal(call.integer("axis", -1), len(dims_of(x)))
    if axis == x.axis:
        mixes("it sorts the rows")
    call.only_shared(1)
    dims = tuple(unknown_size() if k == axis else each for k, each in enumerate(dims_of(x)))
    return [RowTensor(x.axis, dims)] * 2


def layer_norm(call: OperatorCall) -> list[RowTensor]:
    """LayerNormalization and RMSNormalization: over all axes from `axis` on."""
    x = call.x
    call.only_shared(1, 2)
    if x.axis is not None:
        axis = normal(call.integer("axis", -1), len(dims_of(x)))
        if x.axis >= axis:
            mixes("it normalizes over the rows")
        rest = tuple(ONE if k >= axis else each for k, each in enumerate(dims_of(x)))
        return [RowTensor(x.axis, x.dims), *[RowTensor(x.axis, rest)] * 2][: len(call.node.outputs)]
    return [RowTensor(None, x.dims), UNKNOWN, UNKNOWN][: len(call.node.outputs)]


def skip_layer_norm(call: OperatorCall) -> list[RowTensor]:
    """SkipLayerNormalization of com.microsoft: input, skip, gamma, beta, bias; over the last axis."""
    simplified = call.node.operator.startswith("SkipSimplified")
    call.only_shared(*((2, 3) if simplified else (2, 3, 4)))
    found = broadcast([call.x, call.need(1)])
    if found.axis is not None and found.axis == len(dims_of(found)) - 1:
        mixes("it normalizes over the rows")
    return [found] * len(call.node.outputs)


def gather_elements(call: OperatorCall) -> RowTensor:
    data, indices = call.x, call.need(1)
    if data.axis is None and indices.axis is None:
        return RowTensor(None, indices.dims)
    axis = normal(call.integer("axis", 0), len(dims_of(data)))
    if data.axis is not None and data.axis == axis:
        mixes("it gathers along the rows")
    if data.axis != indices.axis:
        if data.axis is None and axis == indices.axis:
            return RowTensor(indices.axis, indices.dims)
        unclear("its indices or its data have a fixed size where the other has the rows")
    return RowTensor(indices.axis, indices.dims)


def gather_nd(call: OperatorCall) -> RowTensor:
    data, indices, batch = call.x, call.need(1), call.integer("batch_dims", 0)
    if data.axis is None and indices.axis is None:
        return UNKNOWN
    last = dims_of(indices)[-1].constant
    if last is None or dims_of(data) is None:
        unclear("the depth of its indices is unknown")
    dims = (*dims_of(indices)[:-1], *dims_of(data)[batch + last :])
    if indices.numbering == "index" and not batch and data.axis == 0 and not data.numbering:
        return RowTensor(indices.axis, dims)  # from each row what it asks of itself
    if indices.numbering or data.numbering:
        unclear("it takes places by the numbers of rows")
    if data.axis is None:
        if indices.axis == len(dims_of(indices)) - 1:
            mixes("the rows are its indices")
        return RowTensor(indices.axis, dims)
    if data.axis < batch:
        if indices.axis != data.axis:
            unclear("its indices have a fixed size where its data has the rows")
        return RowTensor(data.axis, dims)
    if data.axis < batch + last or indices.axis is not None:
        mixes("it gathers along the rows")
    return RowTensor(len(dims_of(indices)) - 1 + data.axis - batch - last, dims)


def scatter_elements(call: OperatorCall) -> RowTensor:
    data, indices, updates = call.x, call.need(1), call.need(2)
    if all(each.axis is None for each in (data, indices, updates)):
        return RowTensor(None, data.dims)
    axis = normal(call.integer("axis", 0), len(dims_of(data)))
    if axis in (data.axis, indices.axis, updates.axis):
        mixes("it scatters along the rows")
    if not data.axis == indices.axis == updates.axis:
        unclear("one of its inputs has a fixed size where another has the rows")
    return RowTensor(data.axis, data.dims)


def scatter_nd(call: OperatorCall) -> RowTensor:
    if all(each.axis is None for each in call.given):
        return RowTensor(None, call.x.dims)
    last = dims_of(call.need(1))[-1].constant
    if call.x.axis is not None and last is not None and call.x.axis < last:
        mixes("it scatters along the rows")
    return unclear("it scatters what belongs to rows")


def trilu(call: OperatorCall) -> RowTensor:
    call.only_shared(1)
    if call.x.axis is not None and call.x.axis >= len(dims_of(call.x)) - 2:
        mixes("it makes a triangle over the rows")
    return RowTensor(call.x.axis, call.x.dims)


def one_hot(call: OperatorCall) -> RowTensor:
    call.only_shared(1, 2)
    if call.need(1).counts_rows:
        mixes("its depth is the number of rows")
    x = call.x
    if x.dims is None:
        return UNKNOWN if x.axis is None else unclear("the rank of its input is unknown")
    place = normal(call.integer("axis", -1), len(x.dims) + 1)
    depth = call.need(1).numbers
    dims = list(x.dims)
    dims.insert(place, size(depth[0]) if depth else unknown_size())
    return RowTensor(None if x.axis is None else x.axis + (x.axis >= place), tuple(dims))


def reverse_sequence(call: OperatorCall) -> RowTensor:
    x, lengths = call.x, call.need(1)
    if x.axis is not None and x.axis == call.integer("time_axis", 0):
        mixes("it turns the rows round")
    if x.axis is not None and (x.axis != call.integer("batch_axis", 1) or lengths.axis != 0):
        unclear("its sequence lengths have a fixed size")
    return RowTensor(x.axis, x.dims)


def quantized_dynamically(call: OperatorCall) -> list[RowTensor]:
    if any(each.axis is not None for each in call.given):
        mixes("it finds one quantization range for all rows")
    return [UNKNOWN] * len(call.node.outputs)


def searching(call: OperatorCall) -> list[RowTensor]:
    """NonZero, Unique, Compress, NonMaxSuppression: how many results there are depends on all rows."""
    if any(each.axis is not None for each in call.given):
        axis = call.node.attributes.get("axis")
        x = call.x
        if call.node.operator == "Compress" and isinstance(axis, int) and x.axis is not None:
            call.only_shared(1)
            place = normal(axis, len(dims_of(x)))
            if place != x.axis:
                dims = tuple(unknown_size() if k == place else each for k, each in enumerate(dims_of(x)))
                return [RowTensor(x.axis, dims)]
        mixes("its results are collected over all rows")
    return [UNKNOWN] * len(call.node.outputs)


def random(call: OperatorCall) -> list[RowTensor]:
    del call
    unclear("it draws random numbers")
