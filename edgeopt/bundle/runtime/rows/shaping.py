"""Rules of operators that compute shapes or change them: where the rows are afterwards."""

from dataclasses import replace

from edgeopt.bundle.runtime.rows.elements import broadcast
from edgeopt.bundle.runtime.rows.values import (
    ONE,
    ROW_COUNT,
    UNKNOWN,
    ConstantTensor,
    OperatorCall,
    RowTensor,
    Size,
    constant,
    dims_of,
    mixes,
    normal,
    product,
    quotient,
    size,
    unclear,
    unknown_size,
    valued,
    with_rows,
)

_END = 2**31 - 1
"""A slice up to here, or further, goes to the end."""


def shape_of(call: OperatorCall) -> RowTensor:
    if call.x.dims is None:
        return UNKNOWN if call.x.axis is None else unclear("the rank of its input is unknown")
    rank = len(call.x.dims)
    end = call.integer("end", rank)
    value = call.x.dims[slice(call.integer("start", 0), end)]
    return valued(value, (size(len(value)),))


def size_of(call: OperatorCall) -> RowTensor:
    if call.x.dims is None:
        return UNKNOWN if call.x.axis is None else unclear("the rank of its input is unknown")
    return valued((product(call.x.dims),), ())


def constant_node(call: OperatorCall) -> RowTensor:
    held = call.node.attributes.get("value")
    if isinstance(held, ConstantTensor):
        return constant(held)
    numbers = call.integers("value_ints")
    if numbers is not None:
        return valued(tuple(size(each) for each in numbers), (size(len(numbers)),))
    if "value_int" in call.node.attributes:
        return valued((size(call.integer("value_int", 0)),), ())
    if "value_float" in call.node.attributes:
        return RowTensor(None, ())
    return UNKNOWN


def constant_of_shape(call: OperatorCall) -> RowTensor:
    found = _made(call.x)
    held = call.node.attributes.get("value")
    count = product(found.dims).constant if found.dims is not None and len(found.dims) <= 1 else None
    if found.axis is None and count is not None and count <= 64:
        fill = held.values[0] if isinstance(held, ConstantTensor) and held.values else 0
        return valued((Size(size(0).number + fill),) * count, dims_of(found))
    return found


def _made(shape: RowTensor) -> RowTensor:
    """A tensor of the shape that an input gives."""
    if shape.value is None or None in shape.value:
        if shape.counts_rows or shape.axis is not None:
            unclear("it makes a shape that is computed while it runs")
        count = shape.dims[0].constant if shape.dims else None
        return RowTensor(None, tuple(unknown_size() for _ in range(count))) if count is not None else UNKNOWN
    return with_rows(tuple(each for each in shape.value if each is not None))


def expand(call: OperatorCall) -> RowTensor:
    found = broadcast([call.x, _made(call.need(1))])
    return replace(found, numbering=call.x.numbering)


def range_of(call: OperatorCall) -> RowTensor:
    if call.x.numbers == (0,) and call.need(1).value == (ROW_COUNT,) and call.need(2).numbers == (1,):
        return RowTensor(0, (ROW_COUNT,), numbering="number")
    if any(each.counts_rows for each in call.given):
        unclear("it computes with the number of rows")
    numbers = [each.numbers for each in call.given]
    if all(numbers):
        found = tuple(range(*(each[0] for each in numbers if each)))
        if len(found) <= 64:
            return valued(tuple(size(each) for each in found), (size(len(found)),))
    if any(each.axis is not None for each in call.given):
        unclear("its bounds are computed from the rows")
    return RowTensor(None, (unknown_size(),))


def eye_like(call: OperatorCall) -> RowTensor:
    if call.x.axis is not None:
        mixes("it makes a diagonal over the rows")
    return RowTensor(None, call.x.dims)


def reshape(call: OperatorCall) -> RowTensor:
    x, shape = call.x, call.need(1) if call.get(1) is not None else None
    # Version 1 has it as an attribute.
    old = tuple(size(each) for each in call.integers("shape") or ())
    target: tuple[Size | None, ...] | None = old if shape is None else shape.value
    if target is None or None in target:
        if x.axis is None and not (shape is not None and shape.counts_rows):
            count = shape.dims[0].constant if shape is not None and shape.dims else None
            return RowTensor(None, tuple(unknown_size() for _ in range(count))) if count is not None else UNKNOWN
        unclear("its shape is computed while it runs")
    wanted = [each for each in target if each is not None]
    copies = not call.integer("allowzero", 0)
    dims = x.dims
    if dims is None:
        if x.axis is not None or any(each.of_rows for each in wanted):
            unclear("the rank of its input is unknown")
        return RowTensor(None, tuple(unknown_size() if each.number <= 0 else each for each in wanted))
    out: list[Size | None] = []
    for place, each in enumerate(wanted):
        if each.constant == -1:
            out.append(None)
        else:
            out.append(dims[place] if each.constant == 0 and copies and place < len(dims) else each)
    found = refolded(x, tuple(each if each is not None else _rest(dims, out) for each in out))
    return valued(x.value, dims_of(found), x.counts_rows) if x.value is not None and len(out) <= 1 else found


def _rest(dims: tuple[Size, ...], out: list[Size | None]) -> Size:
    """The size that -1 stands for."""
    whole, others = product(dims), product(each for each in out if each is not None)
    found = quotient(whole, others)
    if found.exact:
        return found.size
    if found.size.of_rows:
        if not found.left and len(found.size.names) == 1:
            mixes("it puts values of several rows into one")
        unclear("its sizes cannot be divided by names alone")
    return unknown_size()


def refolded(x: RowTensor, out: tuple[Size, ...]) -> RowTensor:
    """The same values in their order, in other sizes."""
    axes = [axis for axis, each in enumerate(out) if each.of_rows]
    if x.axis is None:
        return RowTensor(None, out) if not axes else unclear("it gives the batch's size to what is no row")
    if not axes:
        mixes("it folds the rows into a fixed shape")
    if len(axes) > 1:
        mixes("it spreads the rows over two axes")
    axis = axes[0]
    before, after = product(dims_of(x)[: x.axis]), product(out[:axis])
    if before != after:
        if before.constant is not None and after.constant is not None:
            mixes("it puts values of several rows into one")
        unclear("it moves the rows among other axes")
    if out[axis].number.denominator != 1:
        mixes("it puts values of several rows into one")
    return RowTensor(axis, out)


def flatten(call: OperatorCall) -> RowTensor:
    if call.x.dims is None:
        return UNKNOWN if call.x.axis is None else unclear("the rank of its input is unknown")
    axis = normal(call.integer("axis", 1), len(call.x.dims))
    return refolded(call.x, (product(call.x.dims[:axis]), product(call.x.dims[axis:])))


def transpose(call: OperatorCall) -> RowTensor:
    if call.x.dims is None:
        return UNKNOWN if call.x.axis is None else unclear("the rank of its input is unknown")
    order = call.integers("perm") or tuple(reversed(range(len(call.x.dims))))
    axis = None if call.x.axis is None else order.index(call.x.axis)
    return RowTensor(axis, tuple(call.x.dims[each] for each in order), call.x.value, call.x.counts_rows)


def squeeze(call: OperatorCall) -> RowTensor:
    x, axes = call.x, call.listed("axes", 1)
    if x.dims is None:
        return UNKNOWN if x.axis is None else unclear("the rank of its input is unknown")
    if axes is None:
        if any(each.constant is None for axis, each in enumerate(x.dims) if axis != x.axis) or x.axis is not None:
            unclear("it removes whatever axes have the size 1")
        axes = tuple(axis for axis, each in enumerate(x.dims) if each == ONE)
    gone = {normal(axis, len(x.dims)) for axis in axes}
    if x.axis in gone:
        mixes("it removes the axis of the rows")
    kept = [axis for axis in range(len(x.dims)) if axis not in gone]
    axis = None if x.axis is None else kept.index(x.axis)
    return RowTensor(axis, tuple(x.dims[each] for each in kept), x.value, x.counts_rows)


def unsqueeze(call: OperatorCall) -> RowTensor:
    x, axes = call.x, call.listed("axes", 1) or ()
    if x.dims is None:
        return UNKNOWN if x.axis is None else unclear("the rank of its input is unknown")
    rank = len(x.dims) + len(axes)
    new = {normal(axis, rank) for axis in axes}
    kept = [axis for axis in range(rank) if axis not in new]
    dims = [ONE] * rank
    for place, each in zip(kept, x.dims, strict=True):
        dims[place] = each
    value = x.value if rank <= 1 else None
    if x.counts_rows and value is None:
        unclear("it computes with the number of rows")
    axis = None if x.axis is None else kept[x.axis]
    return RowTensor(axis, tuple(dims), value, x.counts_rows, x.numbering)


def concat(call: OperatorCall) -> RowTensor:
    given = call.given
    axis = call.integer("axis", 0)
    if all(each.axis is None for each in given):
        lengths = [None if each.dims is None else each.dims[0].constant for each in given if each.rank != 0]
        if all(each.rank == 1 for each in given) and None not in lengths:
            value: list[Size | None] = []
            for each, length in zip(given, lengths, strict=True):
                value += each.value if each.value is not None else [None] * (length or 0)
            counts = any(each.counts_rows for each in given)
            return valued(tuple(value), (size(len(value)),), counts)
        if any(each.counts_rows for each in given):
            unclear("it computes with the number of rows")
        first = given[0]
        if first.dims is None:
            return UNKNOWN
        place = normal(axis, len(first.dims))
        return RowTensor(None, tuple(unknown_size() if k == place else d for k, d in enumerate(first.dims)))
    rows = next(each for each in given if each.axis is not None)
    dims = dims_of(rows)
    place = normal(axis, len(dims))
    if place == rows.axis:
        mixes("it joins tensors along the rows")
    if any(each.axis != rows.axis for each in given):
        if all(each.axis is None or each.axis == rows.axis for each in given):
            unclear("it joins rows with what is no row")
        mixes("it joins tensors whose rows are on different axes")
    parts = [dims_of(each)[place].constant for each in given]
    joined = unknown_size() if None in parts else size(sum(each for each in parts if each is not None))
    found = RowTensor(rows.axis, tuple(joined if k == place else each for k, each in enumerate(dims)))
    if not any(each.numbering for each in given):
        return found
    first, *others = given
    begins = first.numbering == "number" and dims_of(first)[place] == ONE
    index = begins and place == len(dims) - 1 and not any(each.numbering for each in others)
    return replace(found, numbering="index" if index else "derived")


def split(call: OperatorCall) -> list[RowTensor]:
    x, count = call.x, len(call.node.outputs)
    if x.dims is None:
        return [UNKNOWN] * count if x.axis is None else unclear("the rank of its input is unknown")
    place = normal(call.integer("axis", 0), len(x.dims))
    if place == x.axis:
        mixes("it splits the rows")
    if x.value is not None:
        unclear("it splits what shapes are computed with")
    sizes: list[Size] = [unknown_size() for _ in range(count)]
    given = call.listed("split", 1)
    whole = x.dims[place].constant
    if given is not None:
        sizes = [size(each) for each in given]
    elif whole is not None and whole % count == 0:
        sizes = [size(whole // count)] * count
    return [
        RowTensor(x.axis, tuple(each if k == place else d for k, d in enumerate(x.dims))) for each in sizes[:count]
    ]


def sliced(call: OperatorCall) -> RowTensor:
    x = call.x
    if x.dims is None:
        return UNKNOWN if x.axis is None else unclear("the rank of its input is unknown")
    cuts = _cuts(call, len(x.dims))
    if cuts is None:
        if x.axis is None and not x.counts_rows:
            return RowTensor(None, tuple(unknown_size() for _ in x.dims))
        unclear("its axes are computed while it runs")
    dims, value = list(x.dims), x.value
    for axis, cut in cuts.items():
        if cut == slice(0, None, 1):
            continue
        if axis == x.axis:
            if cut is None:
                unclear("its bounds are computed while it runs")
            mixes("it takes a part of the rows, or turns them round")
        if value is not None and cut is not None:
            value = value[cut]
            dims[axis] = size(len(value))
            continue
        if x.counts_rows:
            unclear("it computes with the number of rows")
        value, whole = None, dims[axis].constant
        known = cut is not None and whole is not None
        dims[axis] = size(len(range(*cut.indices(whole)))) if known and cut and whole else unknown_size()
    return RowTensor(x.axis, tuple(dims)) if value is None else valued(value, tuple(dims), x.counts_rows)


def _cuts(call: OperatorCall, rank: int) -> "dict[int, slice[int, int | None, int] | None] | None":
    """What a Slice takes of each axis, None where that is not known; None where not even the axes are."""
    starts, ends = call.integers("starts"), call.integers("ends")
    axes, steps, count = call.integers("axes"), None, len(starts or ())
    if starts is None:
        starts, ends = call.need(1).numbers, call.need(2).numbers
        length = (call.need(1).dims or (unknown_size(),))[0].constant
        given, stepped = call.get(3), call.get(4)
        if length is None or (given is not None and given.numbers is None):
            return None
        axes, count = None if given is None else given.numbers, length
        steps = (1,) * count if stepped is None else stepped.numbers
    else:
        steps = (1,) * count
    axes = tuple(range(count)) if axes is None else axes
    cuts: dict[int, slice[int, int | None, int] | None] = {}
    for place, axis in enumerate(axes):
        if starts is None or ends is None or steps is None:
            cuts[normal(axis, rank)] = None
        else:
            end = ends[place] if abs(ends[place]) < _END else None
            cuts[normal(axis, rank)] = slice(starts[place], end, steps[place])
    return cuts


def tile(call: OperatorCall) -> RowTensor:
    x, repeats = call.x, call.need(1)
    if x.dims is None:
        return (
            UNKNOWN if x.axis is None and not repeats.counts_rows else unclear("the rank of its input is unknown")
        )
    value = repeats.value or (None,) * len(x.dims)
    if x.axis is not None:
        times = value[x.axis]
        if times is None:
            unclear("its repeats are computed while it runs")
        if times != ONE:
            mixes("it repeats the rows")
    dims = []
    for axis, (each, times) in enumerate(zip(x.dims, value, strict=True)):
        if times is not None and times.of_rows:
            if x.axis is not None or each != ONE:
                mixes("it repeats values by the number of rows")
        elif times is None and repeats.counts_rows:
            unclear("its repeats are computed while it runs")
        dims.append(each if axis == x.axis else unknown_size() if times is None else each * times)
    return with_rows(tuple(dims))


def pad(call: OperatorCall) -> RowTensor:
    x = call.x
    call.only_shared(1, 2, 3)
    if x.dims is None:
        return UNKNOWN if x.axis is None else unclear("the rank of its input is unknown")
    rank = len(x.dims)
    given, axes = call.get(1), call.get(3)
    pads = (call.integers("pads") or call.integers("paddings")) if given is None else given.numbers
    which = tuple(range(rank)) if axes is None else axes.numbers
    if which is None:
        unclear("its axes are computed while it runs")
    places = [normal(each, rank) for each in which]
    dims = list(x.dims)
    for place, axis in enumerate(places):
        both = None if pads is None else (pads[place], pads[place + len(places)])
        if both == (0, 0):
            continue
        if axis == x.axis:
            if both is None and given is not None and given.value is not None:
                known = given.value[place], given.value[place + len(places)]
                if known == (size(0), size(0)):
                    continue
            if both is None:
                unclear("its padding is computed while it runs")
            mixes("it pads the rows")
        known_size = dims[axis].constant
        dims[axis] = unknown_size() if both is None or known_size is None else size(known_size + sum(both))
    return RowTensor(x.axis, tuple(dims))


def gather(call: OperatorCall) -> RowTensor:
    data, indices = call.x, call.need(1)
    if indices.counts_rows:
        mixes("it takes places by the number of rows")
    if data.value is not None:
        numbers = indices.numbers
        if numbers is not None and all(-len(data.value) <= each < len(data.value) for each in numbers):
            return valued(tuple(data.value[each] for each in numbers), indices.dims or (), data.counts_rows)
        if data.counts_rows:
            unclear("it takes a size by an index that is computed while it runs")
    if data.dims is None or indices.dims is None:
        if data.axis is None and indices.axis is None:
            return UNKNOWN
        unclear("the rank of an input is unknown")
    place = normal(call.integer("axis", 0), len(data.dims))
    dims = data.dims[:place] + indices.dims + data.dims[place + 1 :]
    if data.axis is None:
        return RowTensor(None if indices.axis is None else place + indices.axis, dims)
    if place == data.axis:
        mixes("it gathers along the rows")
    if indices.axis is not None:
        mixes("it gathers from each row what another row asks for")
    moved = data.axis if data.axis < place else data.axis + len(indices.dims) - 1
    return RowTensor(moved, dims)
