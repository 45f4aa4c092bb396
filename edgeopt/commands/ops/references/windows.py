"""What looks through a window: convolutions and pooling, in any number of dimensions."""

from collections.abc import Callable
from functools import reduce
from math import prod

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from edgeopt.commands.ops.case import Attributes
from edgeopt.commands.ops.references.formula import Array, Arrays, Formula, Inputs, integer, integers, word


def convolve(x: Array, kernels: Array, attributes: Attributes) -> Array:
    groups = integer(attributes, "group", 1)
    seen = windows(x, kernels.shape[2:], attributes, 0.0)
    batch, channels, *out = seen.shape[: x.ndim]
    axes = (0, 1, *range(x.ndim, 2 * x.ndim - 2), *range(2, x.ndim))
    columns = seen.transpose(axes).reshape(batch, groups, channels // groups * prod(kernels.shape[2:]), prod(out))
    rows = kernels.reshape(groups, kernels.shape[0] // groups, -1)
    product: Array = np.matmul(rows, columns)
    return product.reshape(batch, kernels.shape[0], *out)


def windows(x: Array, kernel: tuple[int, ...], attributes: Attributes, fill: float) -> Array:
    """Batch, channels, each place of the output, each place of the kernel."""
    strides = integers(attributes, "strides", (1,) * len(kernel))
    dilations = integers(attributes, "dilations", (1,) * len(kernel))
    reach = [(size - 1) * dilation + 1 for size, dilation in zip(kernel, dilations, strict=True)]
    padded = np.pad(x, _pads(x, reach, strides, attributes), constant_values=fill)
    seen = sliding_window_view(padded, reach, axis=tuple(range(2, x.ndim)))
    steps = tuple(slice(None, None, stride) for stride in strides)
    inside = tuple(slice(None, None, dilation) for dilation in dilations)
    found: Array = seen[(slice(None), slice(None), *steps, *inside)]
    return found


def _pads(x: Array, reach: list[int], strides: tuple[int, ...], attributes: Attributes) -> list[tuple[int, int]]:
    """Before and after each axis; `ceil_mode` is more of it at the end."""
    spatial = len(reach)
    flat = integers(attributes, "pads", (0,) * 2 * spatial)
    pads = list(zip(flat[:spatial], flat[spatial:], strict=True))
    for axis, (size, stride) in enumerate(zip(x.shape[2:], strides, strict=True)):
        if word(attributes, "auto_pad", "NOTSET") == "SAME_UPPER":
            needed = max(0, (-(-size // stride) - 1) * stride + reach[axis] - size)
            pads[axis] = (needed // 2, needed - needed // 2)
        if integer(attributes, "ceil_mode", 0):
            before, after = pads[axis]
            short = -(size + before + after - reach[axis]) % stride
            pads[axis] = (before, after + short)
    return [(0, 0), (0, 0), *pads]


def _conv(inputs: Inputs, attributes: Attributes) -> Arrays:
    bias = inputs.get(2)
    made = convolve(inputs[0], inputs[1], attributes)
    return [made if bias is None else made + bias.reshape(-1, *[1] * (made.ndim - 2))]


def _conv_transpose(inputs: Inputs, attributes: Attributes) -> Arrays:
    """Each number of the input puts a whole kernel into the output, and what overlaps is added up."""
    x, kernels, bias = inputs[0], inputs[1], inputs.get(2)
    kernel = kernels.shape[2:]
    strides = integers(attributes, "strides", (1,) * len(kernel))
    pads = integers(attributes, "pads", (0,) * 2 * len(kernel))
    extra = integers(attributes, "output_padding", (0,) * len(kernel))
    full = [
        (size - 1) * stride + reach + more
        for size, stride, reach, more in zip(x.shape[2:], strides, kernel, extra, strict=True)
    ]
    made = np.zeros((x.shape[0], kernels.shape[1], *full))
    for place in np.ndindex(*kernel):
        put = np.einsum("nc...,cg->ng...", x, kernels[(slice(None), slice(None), *place)], optimize=True)
        where = tuple(
            slice(at, at + (size - 1) * stride + 1, stride)
            for at, size, stride in zip(place, x.shape[2:], strides, strict=True)
        )
        made[(slice(None), slice(None), *where)] += put
    ends = [size - after for size, after in zip(full, pads[len(kernel) :], strict=True)]
    crop = tuple(slice(before, end) for before, end in zip(pads, ends, strict=False))
    made = made[(slice(None), slice(None), *crop)]
    return [made if bias is None else made + bias.reshape(-1, *[1] * len(kernel))]


def _max_pool(inputs: Inputs, attributes: Attributes) -> Arrays:
    x = inputs[0]
    kernel = integers(attributes, "kernel_shape", ())
    return [_over_kernel(np.maximum, windows(x, kernel, attributes, -np.inf), kernel)]


def _average_pool(inputs: Inputs, attributes: Attributes) -> Arrays:
    x = inputs[0]
    kernel = integers(attributes, "kernel_shape", ())
    total = _over_kernel(np.add, windows(x, kernel, attributes, 0.0), kernel)
    if integer(attributes, "count_include_pad", 0):
        return [total / prod(kernel)]
    ones = np.ones((1, 1, *x.shape[2:]))
    return [total / _over_kernel(np.add, windows(ones, kernel, attributes, 0.0), kernel)]


def _over_kernel(function: Callable[[Array, Array], Array], seen: Array, kernel: tuple[int, ...]) -> Array:
    """One place of the kernel after the other, which numpy does several times faster than all at once."""
    return reduce(function, (seen[(..., *place)] for place in np.ndindex(*kernel)))


def _global(name: str) -> Formula:
    def pool(inputs: Inputs, _: Attributes) -> Arrays:
        return [getattr(np, name)(inputs[0], axis=tuple(range(2, inputs[0].ndim)), keepdims=True)]

    return pool


FORMULAS: dict[str, Formula] = {
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "MaxPool": _max_pool,
    "AveragePool": _average_pool,
    "GlobalAveragePool": _global("mean"),
    "GlobalMaxPool": _global("max"),
}
