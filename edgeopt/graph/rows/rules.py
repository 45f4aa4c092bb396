"""Rules of operators that compute: element by element, along axes, on images, products, recurrent layers."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from edgeopt.graph.rows.values import (
    OperatorCall,
    RowTensor,
    dims_of,
    mixes,
    normal,
    resized,
    row_size,
    unclear,
)
from edgeopt.graph.shapes.sizes import Size, Sum


def broadcast(tensors: Sequence[RowTensor]) -> RowTensor:
    """Rows must meet rows, and what is the same for all rows must not have a size of its own there."""
    rows = [each for each in tensors if each.axis is not None]
    places = {each.axis - len(dims_of(each)) for each in rows if each.axis is not None}
    if len(places) > 1:
        mixes("it combines rows with each other")
    if len({row_size(each) for each in rows}) > 1:
        unclear("it combines tensors with different numbers of rows")
    place = places.pop() if places else None
    for each in tensors:
        reaches = place is not None and each.axis is None and len(dims_of(each)) >= -place
        if place is not None and reaches and dims_of(each)[place] != 1:
            unclear("one of its inputs has a fixed size where another has the rows")
        if rows and each.counts_rows:
            mixes("it computes with the number of rows")
    rank = max(len(dims_of(each)) for each in tensors)
    dims: list[Size] = []
    for axis in range(-rank, 0):
        sizes = {dims_of(each)[axis] for each in tensors if len(dims_of(each)) >= -axis} - {1}
        fixed = [each for each in sizes if isinstance(each, int) or len(sizes) == 1]
        # Of two open sizes one may be 1.
        either = Sum((((" or ".join(sorted(map(repr, sizes))),), 1),)) if sizes else 1
        dims.append(row_size(rows[0]) if axis == place else fixed[0] if fixed else either)
    return RowTensor(None if place is None else place + rank, tuple(dims))


def elementwise(call: OperatorCall) -> RowTensor:
    name = call.node.op_type
    tensors = call.tensors[:1] if name == "CastLike" else call.tensors
    found = broadcast(tensors)
    if any(each.numbering for each in tensors):
        same = name in ("Cast", "Identity") and tensors[0].numbering == "number"
        return replace(found, numbering="number" if same else "derived")
    if any(each.counts_rows for each in tensors):
        if len(dims_of(found)) > 1:
            unclear("it computes with the number of rows")
        return replace(found, counts_rows=True)
    return found


def _worked(call: OperatorCall, rank: int) -> Iterable[int]:
    """The axes that an operator works along."""
    name = call.node.op_type
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
    x, dims = call.x, dims_of(call.x)
    if x.axis is None:
        return call.result(None)
    gone = {normal(axis, len(dims)) for axis in _worked(call, len(dims))}
    if x.axis in gone:
        mixes("it reduces over the rows")
    keeps = call.integer("keepdims", 1)
    return call.result(x.axis if keeps else x.axis - sum(axis < x.axis for axis in gone))


def picked(call: OperatorCall) -> list[RowTensor]:
    """TopK and Compress: some of what lies along an axis, of Compress without one of all axes."""
    x, dims = call.x, dims_of(call.x)
    if call.node.op_type == "Compress" and not call.has_attribute("axis"):
        return call.results(None) if x.axis is None else mixes("its results are collected over all rows")
    if call.axis(-1, len(dims)) == x.axis:
        mixes("it sorts the rows or picks some of them")
    return call.results(x.axis)


def collective(call: OperatorCall) -> list[RowTensor]:
    if any(each.axis is not None for each in call.tensors):
        mixes("it finds one result or one quantization range for all rows")
    return call.results(None)


def dropout(call: OperatorCall) -> list[RowTensor]:
    if call.get(2) is not None and call.value(2) != (0,):
        unclear("it may draw random numbers")
    return call.results(call.x.axis)


def quantize(call: OperatorCall) -> RowTensor:
    """QuantizeLinear and DequantizeLinear; a scale for each row would be a constant of one batch size."""
    x, scale = call.x, call.need(1)
    each_row = call.axis(1, len(dims_of(x))) == x.axis or call.integer("block_size", 0)
    if x.axis is not None and scale.dims not in ((), (1,)) and each_row:
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
    if data.axis is None and indices.axis is None:
        return call.result(None)
    own = indices.numbering == "index" and data.axis == 0 and not data.numbering
    if not isinstance(dims_of(indices)[-1], int) or not own or call.integer("batch_dims", 0):
        unclear("it takes places by indices, and either may have rows")
    return call.result(indices.axis)


def scatter(call: OperatorCall) -> RowTensor:
    if all(each.axis is None for each in call.tensors):
        return call.result(None)
    if call.x.axis == call.axis(0, len(dims_of(call.x))):
        mixes("it scatters along the rows")
    return unclear("it scatters what belongs to rows")


def one_hot(call: OperatorCall) -> RowTensor:
    place = call.axis(-1, len(dims_of(call.x)) + 1)
    return call.result(None if call.x.axis is None else call.x.axis + (call.x.axis >= place))


def batch_norm(call: OperatorCall) -> RowTensor:
    old = call.opset < 7 or (call.opset < 14 and sum(map(bool, call.node.outputs)) > 1)
    if call.x.axis is not None and (old or call.integer("training_mode", 0)):
        mixes("it normalizes over the batch, in its training form")
    return image(call)


def image(call: OperatorCall) -> RowTensor:
    """Rows on the first axis, and parameters that are the same for all."""
    if call.x.axis not in (None, 0):
        mixes("the rows are not on its batch axis")
    return call.result(call.x.axis)


def resize(call: OperatorCall) -> RowTensor:
    """Resize and Upsample by scales; to sizes it is not followed."""
    x, place = call.x, 1 if call.node.op_type == "Upsample" or call.opset < 11 else 2
    if x.axis is None:
        return call.result(None)
    scales = None if call.get(place) is None or call.integers("axes") else call.array(place)
    if scales is None or not scales.size:
        unclear("its sizes are computed while it runs")
    if scales[x.axis] != 1:
        mixes("it scales along the rows")
    return call.result(x.axis)


def packed_matmul(call: OperatorCall) -> RowTensor:
    """A product with weights of a few bits each, over the last axis."""
    return RowTensor(along(call).axis, (*dims_of(call.x)[:-1], call.integer("N", 0)))


def gemm(call: OperatorCall) -> RowTensor:
    """MatMul and MatMulInteger too."""
    a, b, *c = call.tensors
    one, other = _transposed(a, call.integer("transA", 0)), _transposed(b, call.integer("transB", 0))
    first, second = dims_of(one), dims_of(other)
    if len(first) < 2 or len(second) < 2:
        return call.result(None) if a.axis is None and b.axis is None else unclear("it multiplies by a vector")
    if one.axis == len(first) - 1 or other.axis == len(second) - 2:
        mixes("it adds up over the rows")
    # The axes before the last two broadcast; the last two are those of the product.
    factors = RowTensor(one.axis, (*first[:-1], 1)), RowTensor(other.axis, resized(second, len(second) - 2, 1))
    found = broadcast(factors)
    found = RowTensor(found.axis, (*dims_of(found)[:-2], first[-2], second[-1]))
    return broadcast([found, *c]) if c else found


def _transposed(x: RowTensor, turn: int) -> RowTensor:
    return RowTensor(None if x.axis is None else 1 - x.axis, dims_of(x)[::-1]) if turn else x


def einsum(call: OperatorCall) -> RowTensor:
    terms, arrow, result = call.text("equation", "").replace(" ", "").partition("->")
    labels = terms.split(",")
    if "." in terms or not arrow or len(labels) != len(call.tensors):
        unclear("its equation is not followed")
    pairs = list(zip(labels, call.tensors, strict=True))
    found = {letters[each.axis] for letters, each in pairs if each.axis is not None}
    if len(found) > 1:
        mixes("it combines rows with each other")
    for row in found:
        if row not in result or any(letters.count(row) > 1 for letters in labels):
            mixes("it adds up over the rows")
        if any(row in letters and each.axis is None for letters, each in pairs):
            unclear("one of its inputs has a fixed size where another has the rows")
    return call.result(result.index(found.pop()) if found else None)


def recurrent(call: OperatorCall) -> list[RowTensor]:
    """LSTM, GRU and RNN: the batch is the second axis."""
    x = call.x
    if all(each.axis is None for each in call.tensors):
        return call.results(None)
    if x.axis != 1 and x.axis is not None and not call.integer("layout", 0):
        mixes("it takes the rows for steps of one sequence")
    others = [(call.get(place), axis) for place, axis in ((0, 1), (4, 0), (5, 1), (6, 1))]
    if call.integer("layout", 0) or any(each is not None and each.axis != axis for each, axis in others):
        unclear("its input, its sequence lengths or its first state have a fixed size")
    return [call.result(2 if place == 0 else 1, place=place) for place in range(len(call.node.outputs))]


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
        return call.results(None)
    if any(each.axis != 0 for each in rows):
        mixes("the rows are not on its batch axis")
    if call.x.axis is None:
        unclear("its first input has no rows")
    return call.results(0)


def attention(call: OperatorCall) -> list[RowTensor]:
    """Attention of ONNX: query, key, value, mask; with a cache of keys it is not followed."""
    if any(call.get(place) is not None for place in (4, 5, 6)) or sum(map(bool, call.node.outputs)) > 1:
        unclear("it has a cache of keys and values")
    if call.x.axis is not None and any(call.need(place).axis is None for place in (1, 2)):
        unclear("its keys have a fixed size where its queries have the rows")
    mask = call.get(3)
    if mask is not None and mask.axis is not None and len(dims_of(mask)) != 4:
        unclear("its mask has rows, but not four axes")
    if mask is not None and mask.axis is None and len(dims_of(mask)) == 4 and dims_of(mask)[0] != 1:
        unclear("its mask has a fixed size where its queries have the rows")
    return batched(call)
