"""Rules of operators that compute: element by element, along axes, on images, products, recurrent layers."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from edgeopt.bundle.runtime.rows.values import (
    ONE,
    UNKNOWN,
    OperatorCall,
    RowSize,
    RowTensor,
    dims_of,
    divided,
    mixes,
    normal,
    resized,
    row_size,
    size,
    unclear,
    unknown_dims,
    unknown_size,
    valued,
)


def broadcast(tensors: Sequence[RowTensor]) -> RowTensor:
    """Rows must meet rows, and what is the same for all rows must not have a size of its own there."""
    rows = [each for each in tensors if each.axis is not None]
    rank = max(len(dims_of(each)) for each in tensors)
    places = {each.axis - len(dims_of(each)) for each in rows if each.axis is not None}
    if len(places) > 1:
        mixes("it combines rows with each other")
    if len({row_size(each) for each in rows}) > 1:
        unclear("it combines tensors with different numbers of rows")
    place = places.pop() if places else None
    for each in tensors:
        reaches = place is not None and each.axis is None and len(dims_of(each)) >= -place
        if place is not None and reaches and dims_of(each)[place] != ONE:
            unclear("one of its inputs has a fixed size where another has the rows")
        if rows and each.counts_rows:
            mixes("it computes with the number of rows")
    dims = []
    for axis in range(-rank, 0):
        sizes = {dims_of(each)[axis] for each in tensors if len(dims_of(each)) >= -axis} - {ONE}
        fixed = {each for each in sizes if each.constant is not None}
        if axis == place:
            dims.append(row_size(rows[0]))
        elif len(sizes) <= 1:
            dims.append(sizes.pop() if sizes else ONE)
        else:
            dims.append(fixed.pop() if len(fixed) == 1 else unknown_size())
    return RowTensor(None if place is None else place + rank, tuple(dims))


def elementwise(call: OperatorCall) -> RowTensor:
    name = call.node.operator
    tensors = call.tensors[:1] if name == "CastLike" else call.tensors
    found = broadcast(tensors)
    if any(each.numbering for each in tensors):
        same = name in ("Cast", "Identity") and tensors[0].numbering == "number"
        return replace(found, numbering="number" if same else "derived")
    counts = any(each.counts_rows for each in tensors)
    count = dims_of(found)[0].constant if found.dims else 1
    followed = found.axis is None and count is not None and len(dims_of(found)) <= 1
    if not followed or any(each.value is None for each in tensors):
        if counts:
            unclear("it computes with the number of rows")
        return found
    columns = [each.value * (count or 0) if len(each.value) == 1 else each.value for each in tensors if each.value]
    if any(len(column) != count for column in columns):
        return unclear("its inputs do not fit") if counts else found
    value = tuple(_computed(name, [column[k] for column in columns]) for k in range(count or 0))
    return valued(value, dims_of(found), counts)


def _computed(name: str, operands: list[RowSize | None]) -> RowSize | None:
    """One number of a shape; None where it is not known."""
    if name in ("Cast", "CastLike", "Identity"):
        return operands[0]
    if name == "Where":
        condition = operands[0]
        if condition is None or condition.names:
            return None
        return operands[1] if condition.number else operands[2]
    one, other = operands if len(operands) == 2 else (None, None)
    if one is None or other is None:
        return None
    if name == "Mul":
        return one * other
    if name == "Div" and other.number:
        found, whole = divided(one, other)
        return found if whole and found.number.denominator == 1 else None
    if name == "Equal":
        plain, named = sorted((one, other), key=lambda each: len(each.names))
        apart = not named.names or (not plain.names and plain.number < 0 < named.number)
        return size(1) if one == other else size(0) if apart else None
    if name in ("Add", "Sub") and one.names == other.names:
        total = one.number + other.number * (1 if name == "Add" else -1)
        return RowSize(total, one.names) if total else size(0)
    return None


def _worked(call: OperatorCall, rank: int) -> Iterable[int]:
    """The axes that an operator works along."""
    name = call.node.operator
    if name == "CumSum":
        return call.listed("axis", 1) or ()
    if name == "Trilu":
        return (-2, -1)
    if name.startswith("Global"):
        return range(2, rank)
    if name.startswith("Arg"):
        return (call.integer("axis", 0),)
    if name.startswith("Reduce"):
        return call.listed("axes", 1) or (() if call.integer("noop_with_empty_axes", 0) else range(rank))
    if name in ("LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization"):
        return range(call.axis(-1, rank), rank)
    if name.endswith("max") and call.opset < 13:
        return range(call.axis(1, rank), rank)
    return (call.integer("axis", -1),)


def along(call: OperatorCall) -> RowTensor:
    rank = len(dims_of(call.x))
    if call.x.axis in {normal(axis, rank) for axis in _worked(call, rank)}:
        mixes("it works along the rows")
    return RowTensor(call.x.axis, call.x.dims)


def reduce(call: OperatorCall) -> RowTensor:
    x, dims, keeps = call.x, dims_of(call.x), call.integer("keepdims", 1)
    if x.axis is None and call.has("axes", 1) and call.numbers("axes", 1) is None:
        return UNKNOWN
    gone = {normal(axis, len(dims)) for axis in _worked(call, len(dims))}
    if x.axis in gone:
        mixes("it reduces over the rows")
    if keeps:
        return RowTensor(x.axis, tuple(ONE if axis in gone else each for axis, each in enumerate(dims)))
    kept = [axis for axis in range(len(dims)) if axis not in gone]
    return RowTensor(None if x.axis is None else kept.index(x.axis), tuple(dims[axis] for axis in kept))


def picked(call: OperatorCall) -> list[RowTensor]:
    """TopK and Compress: some of what lies along an axis, of Compress without one of all axes."""
    x, dims = call.x, dims_of(call.x)
    if call.node.operator == "Compress" and "axis" not in call.node.attributes:
        return [UNKNOWN] if x.axis is None else mixes("its results are collected over all rows")
    axis = call.axis(-1, len(dims))
    if axis == x.axis:
        mixes("it sorts the rows or picks some of them")
    return [RowTensor(x.axis, resized(dims, axis, unknown_size()))] * len(call.node.outputs)


def collective(call: OperatorCall) -> list[RowTensor]:
    if any(each.axis is not None for each in call.tensors):
        mixes("it finds one result or one quantization range for all rows")
    return [UNKNOWN] * len(call.node.outputs)


def dropout(call: OperatorCall) -> list[RowTensor]:
    if call.get(2) is not None and call.need(2).numbers != (0,):
        unclear("it may draw random numbers")
    return [RowTensor(call.x.axis, call.x.dims)] * len(call.node.outputs)


def quantize(call: OperatorCall) -> RowTensor:
    """QuantizeLinear and DequantizeLinear; a scale for each row would be a constant of one batch size."""
    x, scale = call.x, call.need(1)
    each_row = call.axis(1, len(dims_of(x))) == x.axis or call.integer("block_size", 0)
    if x.axis is not None and scale.dims not in ((), (ONE,)) and each_row:
        unclear("it has a scale for each row")
    return RowTensor(x.axis, x.dims)


def gather_elements(call: OperatorCall) -> RowTensor:
    data, indices = call.tensors
    axis = call.axis(0, len(dims_of(data)))
    if data.axis is not None and data.axis == axis:
        mixes("it gathers along the rows")
    if data.axis != indices.axis and (data.axis is not None or axis != indices.axis):
        unclear("its indices or its data have a fixed size where the other has the rows")
    return RowTensor(indices.axis, indices.dims)


def gather_nd(call: OperatorCall) -> RowTensor:
    """Followed only where each row asks of itself."""
    data, indices = call.tensors
    last = dims_of(indices)[-1].constant
    if data.axis is None and indices.axis is None:
        return UNKNOWN
    own = indices.numbering == "index" and data.axis == 0 and not data.numbering
    if last is None or not own or call.integer("batch_dims", 0):
        unclear("it takes places by indices, and either may have rows")
    return RowTensor(indices.axis, (*dims_of(indices)[:-1], *dims_of(data)[last:]))


def scatter(call: OperatorCall) -> RowTensor:
    if all(each.axis is None for each in call.tensors):
        return RowTensor(None, call.x.dims)
    if call.x.axis == call.axis(0, len(dims_of(call.x))):
        mixes("it scatters along the rows")
    return unclear("it scatters what belongs to rows")


def one_hot(call: OperatorCall) -> RowTensor:
    x, depth = call.x, call.need(1).numbers
    place = call.axis(-1, len(dims_of(x)) + 1)
    dims = (*dims_of(x)[:place], size(depth[0]) if depth else unknown_size(), *dims_of(x)[place:])
    return RowTensor(None if x.axis is None else x.axis + (x.axis >= place), dims)


def batch_norm(call: OperatorCall) -> RowTensor:
    old = call.opset < 7 or (call.opset < 14 and sum(map(bool, call.node.outputs)) > 1)
    if call.x.axis is not None and (old or call.integer("training_mode", 0)):
        mixes("it normalizes over the batch, in its training form")
    return image(call)


def image(call: OperatorCall) -> RowTensor:
    """Rows on the first axis, and parameters that are the same for all."""
    x = call.x
    if x.axis not in (None, 0):
        mixes("the rows are not on its batch axis")
    return RowTensor(x.axis, _image_dims(call, dims_of(x)))


def _image_dims(call: OperatorCall, dims: tuple[RowSize, ...]) -> tuple[RowSize, ...]:
    name = call.node.operator
    if "Norm" in name or name == "LRN":
        return dims
    weight = call.get(1)
    if name in ("AveragePool", "MaxPool", "LpPool"):
        return (*dims[:2], *_windows(call, dims[2:], call.integers("kernel_shape") or ()))
    if name in ("Conv", "ConvInteger") and weight and len(weight.dims or ()) == len(dims):
        kernel = [each.constant for each in dims_of(weight)[2:]]
        return (dims[0], dims_of(weight)[0], *_windows(call, dims[2:], kernel))
    return (dims[0], *unknown_dims(len(dims) - 1))


def _windows(call: OperatorCall, dims: tuple[RowSize, ...], kernel: Sequence[int | None]) -> Iterable[RowSize]:
    rank = len(dims)
    strides = call.integers("strides") or (1,) * rank
    dilations = call.integers("dilations") or (1,) * rank
    pads = call.integers("pads") or (0,) * (2 * rank)
    plain = call.text("auto_pad", "NOTSET") in ("NOTSET", "VALID") and not call.integer("ceil_mode", 0)
    for k, (each, extent) in enumerate(zip(dims, (*kernel, *(None,) * rank), strict=False)):
        if each.constant is None or extent is None or not plain:
            yield unknown_size()
        else:
            free = each.constant + pads[k] + pads[k + rank] - dilations[k] * (extent - 1) - 1
            yield size(free // strides[k] + 1)


def resize(call: OperatorCall) -> RowTensor:
    """Resize and Upsample by scales; to sizes it is not followed."""
    x, rank = call.x, len(dims_of(call.x))
    scales = call.get(1 if call.node.operator == "Upsample" or call.opset < 11 else 2)
    known = None if scales is None or call.integers("axes") else scales.value
    if x.axis is None:
        return RowTensor(None, unknown_dims(rank))
    if not known or known[x.axis] is None:
        unclear("its sizes are computed while it runs")
    if known[x.axis] != ONE:
        mixes("it scales along the rows")
    return RowTensor(x.axis, resized(unknown_dims(rank), x.axis, row_size(x)))


def packed_matmul(call: OperatorCall) -> RowTensor:
    """A product with weights of a few bits each, over the last axis."""
    return RowTensor(along(call).axis, (*dims_of(call.x)[:-1], size(call.integer("N", 0))))


def gemm(call: OperatorCall) -> RowTensor:
    """MatMul and MatMulInteger too."""
    a, b, *c = call.tensors
    found = _multiplied(_transposed(a, call.integer("transA", 0)), _transposed(b, call.integer("transB", 0)))
    return broadcast([found, *c]) if c else found


def _transposed(x: RowTensor, turn: int) -> RowTensor:
    return RowTensor(None if x.axis is None else 1 - x.axis, dims_of(x)[::-1]) if turn else x


def _multiplied(a: RowTensor, b: RowTensor) -> RowTensor:
    one, other = dims_of(a), dims_of(b)
    if len(one) < 2 or len(other) < 2:
        return UNKNOWN if a.axis is None and b.axis is None else unclear("it multiplies by a vector")
    if a.axis == len(one) - 1 or b.axis == len(other) - 2:
        mixes("it adds up over the rows")
    # The axes before the last two broadcast; the last two are those of the product.
    return broadcast([RowTensor(a.axis, (*one[:-1], ONE)), RowTensor(b.axis, resized(other, len(other) - 2, ONE))])


def einsum(call: OperatorCall) -> RowTensor:
    terms, arrow, result = call.text("equation", "").replace(" ", "").partition("->")
    labels = terms.split(",")
    if "." in terms or not arrow or len(labels) != len(call.tensors):
        unclear("its equation is not followed")
    pairs = list(zip(labels, call.tensors, strict=True))
    sizes = {letter: each for letters, x in pairs for letter, each in zip(letters, dims_of(x), strict=True)}
    found = {letters[each.axis]: row_size(each) for letters, each in pairs if each.axis is not None}
    if len(found) > 1:
        mixes("it combines rows with each other")
    for row in found:
        if row not in result or any(letters.count(row) > 1 for letters in labels):
            mixes("it adds up over the rows")
        if any(row in letters and each.axis is None for letters, each in pairs):
            unclear("one of its inputs has a fixed size where another has the rows")
    return RowTensor(result.index(next(iter(found))) if found else None, tuple(sizes[each] for each in result))


def recurrent(call: OperatorCall) -> list[RowTensor]:
    """LSTM, GRU and RNN: the batch is the second axis."""
    x = call.x
    if all(each.axis is None for each in call.tensors):
        return [UNKNOWN] * len(call.node.outputs)
    if x.axis != 1 and x.axis is not None and not call.integer("layout", 0):
        mixes("it takes the rows for steps of one sequence")
    others = [(call.get(place), axis) for place, axis in ((0, 1), (4, 0), (5, 1), (6, 1))]
    if call.integer("layout", 0) or any(each is not None and each.axis != axis for each, axis in others):
        unclear("its input, its sequence lengths or its first state have a fixed size")
    ways = size(2 if call.text("direction", "forward") == "bidirectional" else 1)
    hidden = size(call.integer("hidden_size", 0)) if call.integer("hidden_size", 0) else unknown_size()
    last = (ways, row_size(x), hidden)
    return [RowTensor(2, (dims_of(x)[0], *last)), RowTensor(1, last), RowTensor(1, last)]


def skip_normalization(call: OperatorCall) -> list[RowTensor]:
    """SkipLayerNormalization of com.microsoft and its like: a sum, normalized over the last axis."""
    found = broadcast(call.tensors)
    if found.axis == len(dims_of(found)) - 1:
        mixes("it normalizes over the rows")
    return [found] * len(call.node.outputs)


def batched(call: OperatorCall) -> list[RowTensor]:
    """MultiHeadAttention: each row works by itself if all inputs that have rows have them on their first axis."""
    rows = [each for each in call.tensors if each.axis is not None]
    if not rows:
        return [UNKNOWN] * len(call.node.outputs)
    if any(each.axis != 0 for each in rows):
        mixes("the rows are not on its batch axis")
    if call.x.axis is None:
        unclear("its first input has no rows")
    found = RowTensor(0, (row_size(rows[0]), *(unknown_size() for _ in dims_of(call.x)[1:])))
    return [found] * len(call.node.outputs)


def attention(call: OperatorCall) -> list[RowTensor]:
    """Attention of ONNX: query, key, value, mask; with a cache of keys it is not followed."""
    if any(call.get(place) is not None for place in (4, 5, 6)) or sum(map(bool, call.node.outputs)) > 1:
        unclear("it has a cache of keys and values")
    if call.x.axis is not None and any(call.need(place).axis is None for place in (1, 2)):
        unclear("its keys have a fixed size where its queries have the rows")
    mask = call.get(3)
    if mask is not None and mask.axis is not None and len(dims_of(mask)) != 4:
        unclear("its mask has rows, but not four axes")
    if mask is not None and mask.axis is None and len(dims_of(mask)) == 4 and dims_of(mask)[0] != ONE:
        unclear("its mask has a fixed size where its queries have the rows")
    return batched(call)
