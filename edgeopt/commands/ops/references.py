"""What each operator gives, in float64: by ONNX's reference evaluator, or here where that is slow or rounds."""

import warnings
from collections.abc import Callable, Sequence
from functools import reduce
from math import prod

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from edgeopt.backends.base import Array
from edgeopt.commands.ops.case import Attributes, Case
from edgeopt.errors import MissingExtraError
from edgeopt.measure.peaks import onnx

Inputs = Sequence[Array | None]
Reference = Callable[[Inputs, Attributes], Array]


def compute(case: Case, inputs: Inputs) -> list[Array]:
    """All outputs of a case; inputs that are left out are None, floats are float64.

    An output in float64 stands for a float of the case's precision; any other type is meant.
    """
    if case.operator in OWN:
        return [OWN[case.operator](inputs, case.attributes)]
    return evaluate(case, inputs)


def evaluate(case: Case, inputs: Inputs) -> list[Array]:
    """The outputs by ONNX's reference evaluator, which computes in the type of the inputs."""
    try:
        from onnx.reference import ReferenceEvaluator
    except ImportError:
        raise MissingExtraError("optimize", "Computing the expected outputs of operators") from None

    feeds = {f"x{position}": array for position, array in enumerate(inputs) if array is not None}
    names = [f"x{position}" if array is not None else "" for position, array in enumerate(inputs)]
    outputs = [f"y{position}" for position in range(case.outputs)]
    given = [onnx.port(name, array.dtype.name, array.shape) for name, array in feeds.items()]
    model = onnx.model(
        [onnx.node(case.operator, names, outputs, **case.attributes)],
        {},
        given,
        [onnx.port(name, "float64", ()) for name in outputs],
        case.opset,
    )
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # about numbers on the way to the result
        return [np.asarray(array) for array in ReferenceEvaluator(model).run(None, feeds)]


def _given(inputs: Inputs, position: int) -> Array:
    array = inputs[position]
    assert array is not None  # noqa: S101 - the operator requires it
    return array


def _integers(attributes: Attributes, name: str, default: tuple[int, ...]) -> tuple[int, ...]:
    value = attributes.get(name, default)
    return tuple(int(each) for each in value) if isinstance(value, tuple) else default


def _leaky_relu(inputs: Inputs, attributes: Attributes) -> Array:
    x, alpha = _given(inputs, 0), attributes["alpha"]
    return np.where(x < 0, x * alpha, x)


def _conv_transpose(inputs: Inputs, attributes: Attributes) -> Array:
    """Each number of the input puts a whole kernel into the output, and what overlaps is added up."""
    x, kernels, bias = (_given(inputs, position) for position in range(3))
    kernel = kernels.shape[2:]
    strides = _integers(attributes, "strides", (1,) * len(kernel))
    pads = _integers(attributes, "pads", (0,) * 2 * len(kernel))
    extra = _integers(attributes, "output_padding", (0,) * len(kernel))
    full = [
        (size - 1) * stride + reach + more
        for size, stride, reach, more in zip(x.shape[2:], strides, kernel, extra, strict=True)
    ]
    made: Array = np.zeros((x.shape[0], kernels.shape[1], *full))
    for place in np.ndindex(*kernel):
        put = np.einsum("nc...,cg->ng...", x, kernels[(slice(None), slice(None), *place)], optimize=True)
        where = tuple(
            slice(at, at + (size - 1) * stride + 1, stride)
            for at, size, stride in zip(place, x.shape[2:], strides, strict=True)
        )
        made[(slice(None), slice(None), *where)] += put
    ends = [size - after for size, after in zip(full, pads[len(kernel) :], strict=True)]
    crop = tuple(slice(before, end) for before, end in zip(pads, ends, strict=False))
    found: Array = made[(slice(None), slice(None), *crop)] + bias.reshape(-1, *[1] * len(kernel))
    return found


def _max_pool(inputs: Inputs, attributes: Attributes) -> Array:
    return _over_kernel(np.maximum, _given(inputs, 0), attributes, -np.inf)


def _average_pool(inputs: Inputs, attributes: Attributes) -> Array:
    x = _given(inputs, 0)
    total = _over_kernel(np.add, x, attributes, 0.0)
    if attributes.get("count_include_pad"):
        return total / prod(_integers(attributes, "kernel_shape", ()))
    return total / _over_kernel(np.add, np.ones((1, 1, *x.shape[2:])), attributes, 0.0)


def _over_kernel(
    function: Callable[[Array, Array], Array], x: Array, attributes: Attributes, fill: float
) -> Array:
    """One place of the kernel after the other, which numpy does several times faster than all at once."""
    kernel = _integers(attributes, "kernel_shape", ())
    strides = _integers(attributes, "strides", (1,) * len(kernel))
    dilations = _integers(attributes, "dilations", (1,) * len(kernel))
    reach = [(size - 1) * dilation + 1 for size, dilation in zip(kernel, dilations, strict=True)]
    flat = _integers(attributes, "pads", (0,) * 2 * len(kernel))
    pads = list(zip(flat[: len(kernel)], flat[len(kernel) :], strict=True))
    if attributes.get("ceil_mode"):
        pads = [
            (before, after + -(size + before + after - far) % stride)
            for (before, after), size, far, stride in zip(pads, x.shape[2:], reach, strides, strict=True)
        ]
    padded = np.pad(x, [(0, 0), (0, 0), *pads], constant_values=fill)
    seen = sliding_window_view(padded, reach, axis=tuple(range(2, x.ndim)))
    steps = tuple(slice(None, None, stride) for stride in (*strides, *dilations))
    seen = seen[(slice(None), slice(None), *steps)]
    return reduce(function, (seen[(..., *place)] for place in np.ndindex(*kernel)))


TOO_SLOW: dict[str, Reference] = {
    "ConvTranspose": _conv_transpose,
    "MaxPool": _max_pool,
    "AveragePool": _average_pool,
}
"""ONNX's evaluator loops over their outputs in Python: seconds for a case instead of milliseconds."""
OWN: dict[str, Reference] = {**TOO_SLOW, "LeakyRelu": _leaky_relu}
"""For LeakyRelu the evaluator rounds alpha to float32: 0.1 of five steps is then above the middle of two steps,
where runtimes round to even.
"""
