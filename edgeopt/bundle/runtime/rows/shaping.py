"""Rules of operators that compute shapes or change them: where the rows are afterwards."""

from dataclasses import replace

from edgeopt.bundle.runtime.rows.rules import broadcast
from edgeopt.bundle.runtime.rows.values import (
    ONE,
    ROW_COUNT,
    ROWS,
    UNKNOWN,
    ConstantTensor,
    OperatorCall,
    RowSize,
    RowTensor,
    constant,
    dims_of,
    divided,
    mixes,
    normal,
    product,
    resized,
    size,
    unclear,
    unknown_dims,
    unknown_size,
    valued,
)

_END = 2**31 - 1
"""A slice up to here, or further, goes to the end."""


def shape_of(call: OperatorCall) -> RowTensor:
    dims = dims_of(call.x)
    value = dims[slice(call.integer("start", 0), call.integer("end", len(dims)))]
    return valued(value, (size(len(value)),))


def size_of(call: OperatorCall) -> RowTensor:
    return valued((product(dims_of(call.x)),), ())


def constant_node(call: OperatorCall) -> RowTensor:
    held, number = call.node.attributes.get("value"), call.node.attributes.get("value_int")
    numbers = call.integers("value_ints")
    if isinstance(held, ConstantTensor):
        return constant(held)
    if numbers is not None or isinstance(number, int):
        value = tuple(size(each) for each in ((call.integer("value_int", 0),) if numbers is None else numbers))
        return valued(value, () if numbers is None else (size(len(value)),))
    return RowTensor(None, ()) if "value_float" in call.node.attributes else UNKNOWN


def constant_of_shape(call: OperatorCall) -> RowTensor:
    found, held = _made(call.x), call.node.attributes.get("value")
    count = product(found.dims).constant if found.dims is not None and len(found.dims) <= 1 else None
    if found.axis is None and count is not None and count <= 64:
        fill = held.values[0] if isinstance(held, ConstantTensor) and held.values else 0
        return valued((size(fill),) * count, dims_of(found))
    return found


def _made(shape: RowTensor) -> RowTensor:
    """A tensor of the shape that an input gives."""
    if shape.value is not None and None not in shape.value:
        dims = tuple(each for each in shape.value if each is not None)
        axes = [axis for axis, each in enumerate(dims) for name in each.names if name == ROWS]
        if len(axes) > 1:
            mixes("it makes a tensor with the rows on two axes")
        return RowTensor(axes[0] if axes else None, dims)
    if shape.counts_rows or shape.axis is not None:
        unclear("it makes a shape that is computed while it runs")
    count = shape.dims[0].constant if shape.dims else None
    return UNKNOWN if count is None else RowTensor(None, unknown_dims(count))


def expand(call: OperatorCall) -> RowTensor:
    if call.x.counts_rows:
        unclear("it computes with the number of rows")
    return replace(broadcast([call.x, _made(call.need(1))]), numbering=call.x.numbering)


def range_of(call: OperatorCall) -> RowTensor:
    begin, end, step = call.tensors
    if begin.numbers == (0,) and end.value == (ROW_COUNT,) and step.numbers == (1,):
        return RowTensor(0, (ROW_COUNT,), numbering="number")
    if any(each.counts_rows or each.axis is not None for each in call.tensors):
        unclear("it computes with the number of rows")
    return RowTensor(None, (unknown_size(),))


def reshape(call: OperatorCall) -> RowTensor:
    x, dims, shape = call.x, dims_of(call.x), call.need(1)
    if shape.value is None or None in shape.value:
        return _made(shape) if x.axis is None else unclear("its shape is computed while it runs")
    out = [each for each in shape.value if each is not None]
    if not call.integer("allowzero", 0):
        out = [dims[place] if each.constant == 0 and place < len(dims) else each for place, each in enumerate(out)]
    others = product(each for each in out if each.constant != -1)
    found = _refolded(x, tuple(_rest(product(dims), others) if each.constant == -1 else each for each in out))
    if x.value is not None and len(out) <= 1:
        return valued(x.value, dims_of(found), x.counts_rows)
    return found if not x.counts_rows else unclear("it computes with the number of rows")


def _rest(whole: RowSize, others: RowSize) -> RowSize:
    """The size that -1 stands for."""
    found, divides = divided(whole, others)
    if divides and found.number.denominator == 1:
        return found
    if found.of_rows:
        if divides and len(found.names) == 1:
            mixes("it puts values of several rows into one")
        unclear("its sizes cannot be divided by names alone")
    return unknown_size()


def _refolded(x: RowTensor, out: tuple[RowSize, ...]) -> RowTensor:
    """The same values in their order, in other sizes."""
    axes = [axis for axis, each in enumerate(out) if each.of_rows]
    if x.axis is None:
        return RowTensor(None, out) if not axes else unclear("it gives the batch's size to what is no row")
    if len(axes) != 1:
        mixes("it spreads the rows over two axes" if axes else "it folds the rows into a fixed shape")
    before, after = product(dims_of(x)[: x.axis]), product(out[: axes[0]])
    if before != after and (before.constant is None or after.constant is None):
        unclear("it moves the rows among other axes")
    if before != after or out[axes[0]].number.denominator != 1:
        mixes("it puts values of several rows into one")
    return RowTensor(axes[0], out)


def flatten(call: OperatorCall) -> RowTensor:
    dims = dims_of(call.x)
    axis = call.axis(1, len(dims))
    return _refolded(call.x, (product(dims[:axis]), product(dims[axis:])))


def transpose(call: OperatorCall) -> RowTensor:
    x, dims = call.x, dims_of(call.x)
    order = call.integers("perm") or tuple(reversed(range(len(dims))))
    return _moved(x, order)


def squeeze(call: OperatorCall) -> RowTensor:
    x, dims, axes = call.x, dims_of(call.x), call.listed("axes", 1)
    if axes is None:
        if x.axis is not None or any(each.constant is None for each in dims):
            unclear("it removes whatever axes have the size 1")
        axes = tuple(axis for axis, each in enumerate(dims) if each == ONE)
    gone = {normal(axis, len(dims)) for axis in axes}
    if x.axis in gone:
        mixes("it removes the axis of the rows")
    return _moved(x, tuple(axis for axis in range(len(dims)) if axis not in gone))


def _moved(x: RowTensor, order: tuple[int, ...]) -> RowTensor:
    axis = None if x.axis is None else order.index(x.axis)
    return RowTensor(axis, tuple(dims_of(x)[each] for each in order), x.value, x.counts_rows)


def unsqueeze(call: OperatorCall) -> RowTensor:
    x, axes = call.x, call.listed("axes", 1) or ()
    rank = len(dims_of(x)) + len(axes)
    new = {normal(axis, rank) for axis in axes}
    old, kept = iter(dims_of(x)), [axis for axis in range(rank) if axis not in new]
    dims = tuple(ONE if axis in new else next(old) for axis in range(rank))
    value = x.value if rank <= 1 else None
    if x.counts_rows and value is None:
        unclear("it computes with the number of rows")
    return RowTensor(None if x.axis is None else kept[x.axis], dims, value, x.counts_rows, x.numbering)


def concat(call: OperatorCall) -> RowTensor:
    tensors, rows = call.tensors, next((each for each in call.tensors if each.axis is not None), None)
    dims = dims_of(rows or tensors[0])
    place = call.axis(0, len(dims))
    parts = [dims_of(each)[place].constant for each in tensors]
    joined = unknown_size() if None in parts else size(sum(each for each in parts if each is not None))
    if rows is None and len(dims) == 1 and None not in parts:
        value = [
            v for each, length in zip(tensors, parts, strict=True) for v in each.value or (None,) * (length or 0)
        ]
        return valued(tuple(value), (joined,), any(each.counts_rows for each in tensors))
    if any(each.counts_rows for each in tensors):
        unclear("it computes with the number of rows")
    found = RowTensor(None if rows is None else rows.axis, resized(dims, place, joined))
    if rows is None:
        return found
    if place == rows.axis:
        mixes("it joins tensors along the rows")
    if any(each.axis is None for each in tensors):
        unclear("it joins rows with what is no row")
    if any(each.axis != rows.axis for each in tensors):
        mixes("it joins tensors whose rows are on different axes")
    if not any(each.numbering for each in tensors):
        return found
    begins = tensors[0].numbering == "number" and dims_of(tensors[0])[place] == ONE
    index = begins and place == len(dims) - 1 and not any(each.numbering for each in tensors[1:])
    return replace(found, numbering="index" if index else "derived")


def split(call: OperatorCall) -> list[RowTensor]:
    x, dims, count = call.x, dims_of(call.x), len(call.node.outputs)
    place, lengths = call.axis(0, len(dims)), call.listed("split", 1)
    if place == x.axis:
        mixes("it splits the rows")
    if x.value is not None:
        unclear("it splits what shapes are computed with")
    whole = dims[place].constant
    if lengths is None and whole is not None and whole % count == 0:
        lengths = (whole // count,) * count
    sizes = unknown_dims(count) if lengths is None else tuple(size(each) for each in lengths)
    return [RowTensor(x.axis, resized(dims, place, each)) for each in sizes]


def sliced(call: OperatorCall) -> RowTensor:
    x, dims, value = call.x, dims_of(call.x), call.x.value
    starts, ends, axes = call.numbers("starts", 1), call.numbers("ends", 2), call.numbers("axes", 3)
    if axes is None:
        axes = tuple(range(len(dims) if starts is None or call.has("axes", 3) else len(starts)))
        starts = None if call.has("axes", 3) else starts
    steps = call.numbers("steps", 4) if call.has("steps", 4) else (1,) * len(axes)
    for place, listed_axis in enumerate(axes):
        axis, cut = normal(listed_axis, len(dims)), None
        if starts is not None and ends is not None and steps is not None:
            cut = slice(starts[place], ends[place] if abs(ends[place]) < _END else None, steps[place])
        if cut == slice(0, None, 1):
            continue
        if axis == x.axis:
            reason = "it takes a part of the rows, or turns them round"
            unclear("its bounds are computed while it runs") if cut is None else mixes(reason)
        whole = dims[axis].constant
        value = value[cut] if value is not None and cut is not None else None
        if value is None and x.counts_rows:
            unclear("it computes with the number of rows")
        length = unknown_size() if cut is None or whole is None else size(len(range(*cut.indices(whole))))
        dims = resized(dims, axis, length)
    return RowTensor(x.axis, dims) if value is None else valued(value, dims, x.counts_rows)


def pad(call: OperatorCall) -> RowTensor:
    x, dims, pads_input = call.x, dims_of(call.x), call.get(1)
    numbers = tuple(size(each) for each in call.integers("pads") or call.integers("paddings") or ())
    pads = numbers if pads_input is None else pads_input.value
    axes = call.listed("axes", 3) or tuple(range(len(dims)))
    for place, each in enumerate(axes):
        axis = normal(each, len(dims))
        begin, end = (pads[place], pads[place + len(axes)]) if pads is not None else (None, None)
        if begin == end == size(0):
            continue
        known = begin is not None and end is not None
        if axis == x.axis:
            mixes("it pads the rows") if known else unclear("its padding is computed while it runs")
        parts = [part.constant if part is not None else None for part in (begin, dims[axis], end)]
        length = unknown_size() if None in parts else size(sum(part for part in parts if part is not None))
        dims = resized(dims, axis, length)
    return RowTensor(x.axis, dims)


def gather(call: OperatorCall) -> RowTensor:
    data, indices = call.tensors
    if indices.counts_rows:
        mixes("it takes places by the number of rows")
    numbers = indices.numbers
    if data.value is not None and numbers and all(-len(data.value) <= each < len(data.value) for each in numbers):
        return valued(tuple(data.value[each] for each in numbers), dims_of(indices), data.counts_rows)
    if data.counts_rows:
        unclear("it takes a size by an index that is computed while it runs")
    place = call.axis(0, len(dims_of(data)))
    if data.axis is not None:
        if place == data.axis:
            mixes("it gathers along the rows")
        if indices.axis is not None:
            mixes("it gathers from each row what another row asks for")
    dims = dims_of(data)[:place] + dims_of(indices) + dims_of(data)[place + 1 :]
    if data.axis is None:
        return RowTensor(None if indices.axis is None else place + indices.axis, dims)
    return RowTensor(data.axis if data.axis < place else data.axis + len(dims_of(indices)) - 1, dims)
