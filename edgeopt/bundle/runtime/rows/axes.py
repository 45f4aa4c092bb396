"""Rules of operators that work along axes: reductions, sorting, normalization, indices."""

from edgeopt.bundle.runtime.rows.elements import broadcast
from edgeopt.bundle.runtime.rows.sizes import ONE, product, size
from edgeopt.bundle.runtime.rows.values import (
    UNKNOWN,
    OperatorCall,
    RowTensor,
    dims_of,
    mixes,
    normal,
    unclear,
    unknown_size,
    valued,
)


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
