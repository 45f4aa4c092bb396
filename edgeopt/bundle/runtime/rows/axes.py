"""Rules of operators that work along axes: reductions, sorting, normalization, indices, products, convolutions."""

from edgeopt.bundle.runtime.rows.elements import broadcast
from edgeopt.bundle.runtime.rows.sizes import ONE, Size, product, size
from edgeopt.bundle.runtime.rows.values import (
    UNKNOWN,
    OperatorCall,
    RowTensor,
    dims_of,
    mixes,
    normal,
    row_size,
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
    call.only_shared(1)
    if x.axis is None:
        return [UNKNOWN, UNKNOWN]
    axis = normal(call.integer("axis", -1), len(dims_of(x)))
    if axis == x.axis:
        mixes("it sorts the rows")
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


def batch_norm(call: OperatorCall) -> list[RowTensor]:
    training = call.integer("training_mode", 0) or (call.opset < 7 and not call.integer("is_test", 0))
    training = training or (call.opset < 14 and sum(map(bool, call.node.outputs)) > 1)
    if training and call.x.axis is not None:
        mixes("it normalizes over the batch, in its training form")
    return [spatial(call)] * len(call.node.outputs)


def spatial(call: OperatorCall) -> RowTensor:
    """Operators on images: rows on the first axis, and parameters that are the same for all."""
    call.only_shared(*range(1, len(call.inputs)))
    return _image(call.x)


def _image(x: RowTensor) -> RowTensor:
    if x.axis is None:
        return RowTensor(None, x.dims)
    if x.axis != 0:
        mixes("the rows are not on its batch axis")
    return RowTensor(0, x.dims)


def resized(call: OperatorCall) -> RowTensor:
    """The same; what it does to sizes of axes after the first is not followed."""
    call.only_shared(*range(1, len(call.inputs)))
    x = _image(call.x)
    if x.axis is None:
        return RowTensor(None, tuple(unknown_size() for _ in x.dims) if x.dims is not None else None)
    return RowTensor(0, (row_size(x), *(unknown_size() for _ in dims_of(x)[1:])))


def mean_variance(call: OperatorCall) -> RowTensor:
    if call.x.axis is not None and call.x.axis in (call.integers("axes") or (0, 2, 3)):
        mixes("it normalizes over the rows")
    return RowTensor(call.x.axis, call.x.dims)


def resize(call: OperatorCall) -> RowTensor:
    """Resize and Upsample: by scales or to sizes, of which that of the rows must leave them alone."""
    x = call.x
    if x.axis is None:
        return UNKNOWN
    call.only_shared(*range(1, len(call.inputs)))
    axes = call.integers("axes")
    rank = len(dims_of(x))
    named = [normal(each, rank) for each in axes] if axes is not None else list(range(rank))
    dims = tuple(row_size(x) if axis == x.axis else unknown_size() for axis in range(rank))
    if x.axis not in named:
        return RowTensor(x.axis, dims)
    place = named.index(x.axis)
    sizes = call.get(3)
    scales = call.get(1 if call.node.operator == "Upsample" or call.opset < 11 else 2)
    if sizes is not None and sizes.value:
        if sizes.value[place] == row_size(x):
            return RowTensor(x.axis, dims)
        if sizes.value[place] is not None:
            mixes("it scales along the rows")
    if scales is not None and scales.value:
        if scales.value[place] == ONE:
            return RowTensor(x.axis, dims)
        if scales.value[place] is not None:
            mixes("it scales along the rows")
    return unclear("its sizes are computed while it runs")


def conv(call: OperatorCall) -> RowTensor:
    """Conv and its relatives; of FusedConv, the fourth input is a tensor that is added."""
    added = call.get(3) if call.node.operator in ("FusedConv", "NhwcFusedConv") else None
    call.only_shared(*(place for place in range(1, len(call.inputs)) if added is None or place != 3))
    x = _image(call.x)
    if added is not None and added.axis != x.axis:
        unclear("it adds what is no row")
    if x.dims is None:
        return x if x.axis is None else unclear("the rank of its input is unknown")
    weight = call.get({"QLinearConv": 3}.get(call.node.operator, 1))
    plain = call.node.operator in ("Conv", "ConvInteger", "QLinearConv", "FusedConv")
    spatial_rank = len(x.dims) - 2
    if not plain or weight is None or weight.dims is None or len(weight.dims) != len(x.dims):
        return RowTensor(x.axis, (x.dims[0], *(unknown_size() for _ in x.dims[1:])))
    kernel = [each.constant for each in weight.dims[2:]]
    return RowTensor(x.axis, (x.dims[0], weight.dims[0], *_windows(call, x.dims[2:], kernel, spatial_rank)))


def pool(call: OperatorCall) -> list[RowTensor]:
    call.only_shared(*range(1, len(call.inputs)))
    x = _image(call.x)
    if x.dims is None:
        return [UNKNOWN] * len(call.node.outputs) if x.axis is None else unclear("the rank is unknown")
    kernel = list(call.integers("kernel_shape") or ())
    sizes = _windows(call, x.dims[2:], [*kernel], len(x.dims) - 2)
    return [RowTensor(x.axis, (*x.dims[:2], *sizes))] * len(call.node.outputs)


def _windows(call: OperatorCall, dims: tuple[Size, ...], kernel: list[int | None], rank: int) -> list[Size]:
    strides = call.integers("strides") or (1,) * rank
    dilations = call.integers("dilations") or (1,) * rank
    pads = call.integers("pads") or (0,) * (2 * rank)
    automatic = call.text("auto_pad", "NOTSET")
    found = []
    for k, each in enumerate(dims):
        width, extent = each.constant, kernel[k] if k < len(kernel) else None
        if width is None or extent is None or call.integer("ceil_mode", 0) or automatic not in ("NOTSET", "VALID"):
            found.append(unknown_size())
        else:
            free = width + pads[k] + pads[k + rank] - dilations[k] * (extent - 1) - 1
            found.append(size(free // strides[k] + 1))
    return found


def global_pool(call: OperatorCall) -> RowTensor:
    x = _image(call.x)
    return RowTensor(x.axis, None if x.dims is None else (*x.dims[:2], *(ONE for _ in x.dims[2:])))


def matmul(call: OperatorCall) -> RowTensor:
    """MatMul and its integer and fused relatives."""
    operator = call.node.operator
    places = (0, 3) if operator == "QLinearMatMul" else (0, 1)
    call.only_shared(*(place for place in range(len(call.inputs)) if place not in places))
    if any(call.integer(name, 0) for name in ("transA", "transB", "transBatchA", "transBatchB")):
        unclear("it transposes its inputs")
    return multiplied(call.need(places[0]), call.need(places[1]))


def multiplied(a: RowTensor, b: RowTensor) -> RowTensor:
    if a.dims is None or b.dims is None:
        if a.axis is None and b.axis is None:
            return UNKNOWN
        unclear("the rank of an input is unknown")
    if len(a.dims) < 2 or len(b.dims) < 2:
        return _by_vector(a, b)
    if a.axis == len(a.dims) - 1 or b.axis == len(b.dims) - 2:
        mixes("it adds up over the rows")
    # The axes before the last two broadcast; the last two are those of the product.
    lines, columns = a.dims[-2], b.dims[-1]
    one = RowTensor(a.axis, (*a.dims[:-2], lines, ONE))
    other = RowTensor(b.axis, (*b.dims[:-2], ONE, columns))
    return broadcast([one, other])


def _by_vector(a: RowTensor, b: RowTensor) -> RowTensor:
    if a.axis is None and b.axis is None:
        return UNKNOWN
    if a.axis is not None and b.axis is None and len(b.dims or ()) == 1 and len(dims_of(a)) >= 2:
        if a.axis == len(dims_of(a)) - 1:
            mixes("it adds up over the rows")
        return RowTensor(a.axis, dims_of(a)[:-1])
    if (a.axis is not None and len(dims_of(a)) == 1) or (b.axis is not None and len(dims_of(b)) == 1):
        mixes("it adds up over the rows")
    return unclear("it multiplies by a vector")


def gemm(call: OperatorCall) -> RowTensor:
    if call.node.operator == "QGemm":
        call.only_shared(1, 2, 3, 4, 5, 6, 7, 8)
        a, b, c = call.x, call.need(3), None
    else:
        a, b, c = call.x, call.need(1), call.get(2)
    found = multiplied(_turned(a, call.integer("transA", 0)), _turned(b, call.integer("transB", 0)))
    return found if c is None else broadcast([found, c])


def _turned(x: RowTensor, turn: int) -> RowTensor:
    if not turn or x.dims is None:
        return x
    return RowTensor(None if x.axis is None else 1 - x.axis, (x.dims[1], x.dims[0]))


def weight_only(call: OperatorCall) -> RowTensor:
    """MatMulNBits: a product with packed weights, over the last axis."""
    call.only_shared(*range(1, len(call.inputs)))
    x = call.x
    if x.axis is not None and x.axis == len(dims_of(x)) - 1:
        mixes("it adds up over the rows")
    width = size(call.integer("N", 0)) if call.integer("N", 0) else unknown_size()
    return RowTensor(x.axis, None if x.dims is None else (*x.dims[:-1], width))


def einsum(call: OperatorCall) -> RowTensor:
    terms, arrow, result = call.text("equation", "").replace(" ", "").partition("->")
    labels = terms.split(",")
    if "." in terms or not arrow or len(labels) != len(call.given):
        unclear("its equation is not followed")
    sizes: dict[str, Size] = {}
    rows = set()
    for letters, each in zip(labels, call.given, strict=True):
        if each.axis is not None:
            rows.add(letters[each.axis])
        for letter, known in zip(letters, each.dims or (), strict=False):
            if letter not in sizes or each.axis is not None:
                sizes[letter] = known
    if len(rows) > 1:
        mixes("it combines rows with each other")
    row = rows.pop() if rows else ""
    if row and (row not in result or any(each.count(row) > 1 for each in labels)):
        mixes("it adds up over the rows")
    for letters, each in zip(labels, call.given, strict=True):
        if row and row in letters and each.axis is None:
            unclear("one of its inputs has a fixed size where another has the rows")
    return RowTensor(
        result.index(row) if row else None, tuple(sizes.get(letter) or unknown_size() for letter in result)
    )


def recurrent(call: OperatorCall) -> list[RowTensor]:
    """LSTM, GRU and RNN: the batch is the second axis, or the first with layout 1."""
    x = call.x
    call.only_shared(1, 2, 3, 7)
    if x.axis is None:
        if any(each.axis is not None for each in call.given):
            unclear("its state has rows and its input has none")
        return [UNKNOWN] * len(call.node.outputs)
    batch_first = call.integer("layout", 0)
    if x.axis != (0 if batch_first else 1):
        mixes("it takes the rows for steps of one sequence")
    lengths = call.get(4)
    if lengths is not None and lengths.axis != 0:
        unclear("its sequence lengths have a fixed size")
    for place in (5, 6):
        state = call.get(place)
        if state is not None and state.axis != (0 if batch_first else 1):
            unclear("its first state has a fixed size")
    rows = row_size(x)
    steps = dims_of(x)[1 if batch_first else 0]
    directions = size(2 if call.text("direction", "forward") == "bidirectional" else 1)
    hidden = size(call.integer("hidden_size", 0)) if call.integer("hidden_size", 0) else unknown_size()
    if batch_first:
        last = RowTensor(0, (rows, directions, hidden))
        every = RowTensor(0, (rows, steps, directions, hidden))
    else:
        last = RowTensor(1, (directions, rows, hidden))
        every = RowTensor(2, (steps, directions, rows, hidden))
    return [every, last, last][: len(call.node.outputs)]


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


def batched(call: OperatorCall) -> list[RowTensor]:
    """Attention: rows on the first axis of all inputs that have rows; each works within its row."""
    given = [each for each in call.given if each.axis is not None]
    if any(each.counts_rows for each in call.given):
        mixes("it computes with the number of rows")
    if any(each.axis != 0 for each in given):
        mixes("the rows are not on its batch axis")
    for each in call.given:
        if given and each.axis is None and each.dims is None:
            unclear("the rank of an input is unknown")
    if given and call.x.axis is None:
        unclear("its first input has no rows")
    if not given:
        return [UNKNOWN] * len(call.node.outputs)
    rank = len(dims_of(call.x))
    found = RowTensor(0, (row_size(given[0]), *(unknown_size() for _ in range(rank - 1))))
    return [found] * len(call.node.outputs)


def attention(call: OperatorCall) -> list[RowTensor]:
    """Attention of ONNX: query, key, value, mask; with a cache of keys it is not followed."""
    if any(call.get(place) is not None for place in (4, 5, 6)) or sum(map(bool, call.node.outputs)) > 1:
        unclear("it has a cache of keys and values")
    mask = call.get(3)
    shared = [call.get(place) for place in (1, 2)]
    if call.x.axis is not None and any(each is None or each.axis is None for each in shared):
        unclear("its keys have a fixed size where its queries have the rows")
    if mask is not None and mask.axis is not None and mask.rank != 4:
        unclear("its mask has rows, but not four axes")
    if mask is not None and mask.axis is None and mask.rank == 4 and dims_of(mask)[0] != ONE:
        unclear("its mask has a fixed size where its queries have the rows")
    return batched(call)


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
