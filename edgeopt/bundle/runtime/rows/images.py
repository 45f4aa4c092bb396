"""Rules of operators on images: rows on the first axis, channels on the second."""

from edgeopt.bundle.runtime.rows.sizes import ONE, Size, size
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
