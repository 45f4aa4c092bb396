"""Rules of operators that change shapes or make tensors of them: where the rows are afterwards."""

from dataclasses import replace

from edgeopt.graph.rows.rules import broadcast
from edgeopt.graph.rows.values import (
    ROW_COUNT,
    OperatorCall,
    RowTensor,
    dims_of,
    mixes,
    normal,
    of_rows,
    product,
    resized,
    unclear,
)
from edgeopt.graph.shapes.sizes import Size, quotient

_END = 2**31 - 1
"""A slice up to here, or further, goes to the end."""


def constant_node(call: OperatorCall) -> RowTensor:
    return call.result(None)


def constant_of_shape(call: OperatorCall) -> RowTensor:
    return _filled(call, 0)


def _filled(call: OperatorCall, place: int) -> RowTensor:
    """Returns a tensor of the shape that an input gives."""
    shape, dims = call.need(place), call.value(place)
    if dims is not None and None not in dims:
        axes = [axis for axis, each in enumerate(dims) if of_rows(each)]
        if len(axes) > 1:
            mixes("it makes a tensor with the rows on two axes")
        return call.sized(axes[0] if axes else None, dims)
    if shape.counts_rows or shape.axis is not None:
        unclear("it makes a shape that is computed while it runs")
    return call.result(None)


def expand(call: OperatorCall) -> RowTensor:
    if call.x.counts_rows:
        unclear("it computes with the number of rows")
    made = _filled(call, 1)
    return replace(broadcast([call.x, made]), numbering=call.x.numbering)


def range_of(call: OperatorCall) -> RowTensor:
    if (call.value(0), call.value(1), call.value(2)) == ((0,), (ROW_COUNT,), (1,)):
        return RowTensor(0, (ROW_COUNT,), numbering="number")
    if any(each.counts_rows or each.axis is not None for each in call.tensors):
        unclear("it computes with the number of rows")
    return call.result(None)


def reshape(call: OperatorCall) -> RowTensor:
    x, dims, out = call.x, dims_of(call.x), call.value(1)
    if out is None or None in out:
        return _filled(call, 1) if x.axis is None else unclear("its shape is computed while it runs")
    if x.counts_rows:
        unclear("it computes with the number of rows")
    if not call.integer("allowzero", 0):
        out = tuple(dims[place] if each == 0 and place < len(dims) else each for place, each in enumerate(out))
    rest = _rest(dims, out) if -1 in out else None
    return _refolded(call, tuple(rest if each == -1 else each for each in out))


def _rest(dims: tuple[Size, ...], out: tuple[Size, ...]) -> Size:
    """Returns the size that -1 stands for; None if it is unknown, and the same for all rows."""
    left, others = list(dims), [each for each in out if each != -1]
    for each in tuple(others):
        if each in left:
            left.remove(each)
            others.remove(each)
    found = quotient(product(left), product(others))
    if found is None and any(map(of_rows, left)) and not any(map(of_rows, others)):
        whole = all(isinstance(each, int) for each in others)
        if whole and [each for each in left if not isinstance(each, int)] == [ROW_COUNT]:
            mixes("it puts values of several rows into one")
        unclear("its sizes cannot be divided by names alone")
    return found


def _refolded(call: OperatorCall, out: tuple[Size, ...]) -> RowTensor:
    """The same values in their order, in other sizes."""
    x = call.x
    axes = [axis for axis, each in enumerate(out) if of_rows(each)]
    if x.axis is None:
        return call.sized(None, out) if not axes else unclear("it gives the batch's size to what is no row")
    if len(axes) != 1:
        mixes("it spreads the rows over two axes" if axes else "it folds the rows into a fixed shape")
    before, after = product(dims_of(x)[: x.axis]), product(out[: axes[0]])
    if before != after and not (isinstance(before, int) and isinstance(after, int)):
        unclear("it moves the rows among other axes")
    if before != after:
        mixes("it puts values of several rows into one")
    return call.sized(axes[0], out)


def flatten(call: OperatorCall) -> RowTensor:
    dims = dims_of(call.x)
    axis = call.axis(1, len(dims))
    return _refolded(call, (product(dims[:axis]), product(dims[axis:])))


def transpose(call: OperatorCall) -> RowTensor:
    return _moved(call.x, call.integers("perm") or tuple(reversed(range(len(dims_of(call.x))))))


def squeeze(call: OperatorCall) -> RowTensor:
    x, dims, axes = call.x, dims_of(call.x), call.listed("axes", 1)
    if not axes:  # an empty list of axes removes all, too
        if x.axis is not None or not all(isinstance(each, int) for each in dims):
            unclear("it removes whatever axes have the size 1")
        axes = tuple(axis for axis, each in enumerate(dims) if each == 1)
    gone = {normal(axis, len(dims)) for axis in axes}
    if x.axis in gone:
        mixes("it removes the axis of the rows")
    return _moved(x, tuple(axis for axis in range(len(dims)) if axis not in gone))


def _moved(x: RowTensor, order: tuple[int, ...]) -> RowTensor:
    axis = None if x.axis is None else order.index(x.axis)
    return RowTensor(axis, tuple(dims_of(x)[each] for each in order), x.counts_rows)


def unsqueeze(call: OperatorCall) -> RowTensor:
    x, axes = call.x, call.listed("axes", 1) or ()
    rank = len(dims_of(x)) + len(axes)
    new = {normal(axis, rank) for axis in axes}
    old, kept = iter(dims_of(x)), [axis for axis in range(rank) if axis not in new]
    if x.counts_rows:
        unclear("it computes with the number of rows")
    dims = tuple(1 if axis in new else next(old) for axis in range(rank))
    return RowTensor(None if x.axis is None else kept[x.axis], dims, numbering=x.numbering)


def concat(call: OperatorCall) -> RowTensor:
    tensors, rows = call.tensors, next((each for each in call.tensors if each.axis is not None), None)
    dims = dims_of(rows or tensors[0])
    place = call.axis(0, len(dims))
    if any(each.counts_rows for each in tensors):
        unclear("it computes with the number of rows")
    parts = [dims_of(each)[place] for each in tensors]
    joined = sum(each for each in parts if isinstance(each, int))
    dims = resized(dims, place, joined if all(isinstance(each, int) for each in parts) else None)
    if rows is None:
        return call.sized(None, dims)
    if place == rows.axis:
        mixes("it joins tensors along the rows")
    if any(each.axis is None for each in tensors):
        unclear("it joins rows with what is no row")
    if any(each.axis != rows.axis for each in tensors):
        mixes("it joins tensors whose rows are on different axes")
    found = call.sized(rows.axis, dims)
    if not any(each.numbering for each in tensors):
        return found
    begins = tensors[0].numbering == "number" and dims_of(tensors[0])[place] == 1
    index = begins and place == len(dims) - 1 and not any(each.numbering for each in tensors[1:])
    return replace(found, numbering="index" if index else "derived")


def split(call: OperatorCall) -> list[RowTensor]:
    if call.axis(0, len(dims_of(call.x))) == call.x.axis:
        mixes("it splits the rows")
    return call.results(call.x.axis)


def sliced(call: OperatorCall) -> RowTensor:
    x, dims, rank = call.x, dims_of(call.x), len(dims_of(call.x))
    starts, ends, axes = call.numbers("starts", 1), call.numbers("ends", 2), call.numbers("axes", 3)
    if axes is None:
        axes = tuple(range(rank if starts is None or call.has("axes", 3) else len(starts)))
        starts = None if call.has("axes", 3) else starts
    steps = call.numbers("steps", 4) if call.has("steps", 4) else (1,) * len(axes)
    if x.counts_rows:
        unclear("it computes with the number of rows")
    for place, listed_axis in enumerate(axes):
        axis = normal(listed_axis, rank)
        if axis != x.axis:
            dims = resized(dims, axis, None)
        elif starts is None or ends is None or steps is None:
            unclear("its bounds are computed while it runs")
        elif (starts[place], steps[place]) != (0, 1) or ends[place] < _END:
            mixes("it takes a part of the rows, or turns them round")
    return call.sized(x.axis, dims)


def pad(call: OperatorCall) -> RowTensor:
    dims = dims_of(call.x)
    pads = call.integers("pads") or call.integers("paddings") if call.get(1) is None else call.value(1)
    axes = call.listed("axes", 3) or tuple(range(len(dims)))
    for place, each in enumerate(axes):
        axis = normal(each, len(dims))
        edges = (None, None) if pads is None else (pads[place], pads[place + len(axes)])
        if edges == (0, 0):
            continue
        dims = resized(dims, axis, None)
        if axis == call.x.axis:
            mixes("it pads the rows") if None not in edges else unclear("its padding is computed while it runs")
    return call.sized(call.x.axis, dims)


def gather(call: OperatorCall) -> RowTensor:
    data, indices = call.tensors
    if indices.counts_rows:
        mixes("it takes places by the number of rows")
    if data.counts_rows:
        unclear("it takes a size by an index that is computed while it runs")
    place = call.axis(0, len(dims_of(data)))
    dims = dims_of(data)[:place] + dims_of(indices) + dims_of(data)[place + 1 :]
    if data.axis is None:
        return RowTensor(None if indices.axis is None else place + indices.axis, dims)
    if place == data.axis:
        mixes("it gathers along the rows")
    if indices.axis is not None:
        mixes("it gathers from each row what another row asks for")
    return RowTensor(data.axis if data.axis < place else data.axis + len(dims_of(indices)) - 1, dims)
