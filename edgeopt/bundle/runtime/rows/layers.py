"""Rules of layers: convolutions, products, recurrent layers, attention."""

from edgeopt.bundle.runtime.rows.elements import broadcast
from edgeopt.bundle.runtime.rows.values import (
    ONE,
    UNKNOWN,
    OperatorCall,
    RowTensor,
    Size,
    dims_of,
    mixes,
    normal,
    row_size,
    size,
    unclear,
    unknown_size,
)


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
    """Resize and Upsample: by scales or to sizes; the axis of the rows must keep its size."""
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
