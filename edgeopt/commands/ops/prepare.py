"""Preparation of a case: the model, its inputs and the expected outputs, always the same.

In int8 each float input is quantized, dequantized before the operator, and the result is quantized: the form that
runtimes know and fuse. The reference goes the same way in float64: by ONNX's reference evaluator, or computed here
where that is slow or rounds.
"""

import warnings
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from math import prod

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from edgeopt.backends.base import Array
from edgeopt.commands.ops.case import Attributes, OperatorCase, Port
from edgeopt.errors import MissingExtraError
from edgeopt.graph.analysis.cost import Call, Operand, Unknown, arithmetic
from edgeopt.measure.peaks import onnx

Shape = tuple[int, ...]

MOVES = (
    "Reshape", "Transpose", "Concat", "Split", "Slice", "Gather", "Squeeze", "Unsqueeze", "Pad", "Expand",
    "Flatten", "DepthToSpace", "Identity", "Constant", "Shape", "ConstantOfShape", "Cast",
)  # fmt: skip
"""Operators that move numbers and compute none."""
CHOICES = (
    "Neg", "Abs", "Relu", "Clip", "Where", "Max", "Min", "Floor", "MaxPool", "GlobalMaxPool", "ReduceMax",
)  # fmt: skip
"""Operators that return one of their input numbers, rounded to a whole number, or with another sign."""
_PRODUCTS = ("Conv", "ConvInteger", "QLinearConv", "MatMul", "MatMulInteger", "QLinearMatMul", "Gemm")
_POOLS = ("AveragePool", "MaxPool")
_RECURRENT = ("LSTM", "GRU", "RNN")
STEPWISE = (*_RECURRENT, "Attention")
"""Operators that combine several others, or repeat one."""
NORMS = (
    "BatchNormalization", "Softmax", "LogSoftmax", "LayerNormalization", "InstanceNormalization",
    "GroupNormalization", "RMSNormalization",
)  # fmt: skip
_READ_IN_PART = ("Gather", "Slice")


def operations(operator: str, inputs: list[Shape], outputs: list[Shape], attributes: Attributes) -> int:
    """Returns the operations of one run, as `graph.analysis.cost` counts them; 0 if the shapes are unknown."""
    call = Call(operator, _operands(inputs), _operands(outputs), attributes=attributes)
    try:
        return arithmetic(call).operations
    except Unknown:
        return 0


def _operands(shapes: list[Shape]) -> tuple[Operand, ...]:
    return tuple(Operand(str(place), shape) for place, shape in enumerate(shapes))


def fan_in(operator: str, inputs: list[Shape], outputs: list[Shape], attributes: Attributes) -> int:
    """Counts the products or numbers summed up for one output number, except those averaged on the way."""
    if not inputs or not outputs:
        return 1
    first = inputs[0]
    found = 1
    if operator in {"Conv", "ConvInteger"}:
        found = prod(inputs[1][1:])
    elif operator == "QLinearConv":
        found = prod(inputs[3][1:])
    elif operator == "ConvTranspose":
        found = prod(inputs[1]) // inputs[1][1] // prod(_integers(attributes, "strides", (1,)))
    elif operator in {"MatMul", "QLinearMatMul", "MatMulInteger"}:
        found = first[-1] if first else 1
    elif operator == "Gemm":
        found = prod(first) // max(1, outputs[0][0])
    elif operator in _RECURRENT:
        found = inputs[1][2] + inputs[2][2]
    elif operator == "Attention":
        found = 4 * (first[-1] + inputs[1][-2])  # two sums and an exponential function, one after the other
    elif operator in _POOLS:
        found = prod(_integers(attributes, "kernel_shape", (1,)))
    elif operator.startswith(("Reduce", "Global")):
        found = prod(first) // max(1, prod(outputs[0]))
    return max(1, found)


def bytes_moved(operator: str, inputs_bytes: list[int], outputs_bytes: int) -> int:
    if operator in _READ_IN_PART:
        return min(inputs_bytes[0], outputs_bytes) + sum(inputs_bytes[1:]) + outputs_bytes
    return sum(inputs_bytes) + outputs_bytes


Inputs = Sequence[Array | None]
Reference = Callable[[Inputs, Attributes], Array]


def compute(case: OperatorCase, inputs: Inputs) -> list[Array]:
    """Returns all outputs of a case; inputs that are left out are None, floats are float64.

    An output in float64 stands for a float of the case's precision; any other type is meant.
    """
    if case.operator in OWN:
        return [OWN[case.operator](inputs, case.attributes)]
    return evaluate(case, inputs)


def evaluate(case: OperatorCase, inputs: Inputs) -> list[Array]:
    """Returns the outputs by ONNX's reference evaluator, which computes in the type of the inputs."""
    try:
        from onnx.reference import ReferenceEvaluator
    except ImportError:
        raise MissingExtraError("optimize", "Computing the expected outputs of operators") from None

    feeds = {f"x{position}": array for position, array in enumerate(inputs) if array is not None}
    names = [f"x{position}" if array is not None else "" for position, array in enumerate(inputs)]
    outputs = [f"y{position}" for position in range(case.outputs)]
    ports = [onnx.port(name, array.dtype.name, array.shape) for name, array in feeds.items()]
    model = onnx.model(
        [onnx.node(case.operator, names, outputs, **case.attributes)],
        {},
        ports,
        [onnx.port(name, "float64", ()) for name in outputs],
        case.opset,
    )
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # about numbers on the way to the result
        return [np.asarray(array) for array in ReferenceEvaluator(model).run(None, feeds)]


def _required(inputs: Inputs, position: int) -> Array:
    array = inputs[position]
    assert array is not None  # noqa: S101 - the operator requires it
    return array


def _integers(attributes: Attributes, name: str, default: tuple[int, ...]) -> tuple[int, ...]:
    value = attributes.get(name, default)
    return tuple(int(each) for each in value) if isinstance(value, tuple) else default


def _leaky_relu(inputs: Inputs, attributes: Attributes) -> Array:
    x, alpha = _required(inputs, 0), attributes["alpha"]
    return np.where(x < 0, x * alpha, x)


def _conv_transpose(inputs: Inputs, attributes: Attributes) -> Array:
    """Adds a whole kernel to the output for each number of the input; overlaps are added up."""
    x, kernels, bias = (_required(inputs, position) for position in range(3))
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
    return _over_kernel(np.maximum, _required(inputs, 0), attributes, -np.inf)


def _average_pool(inputs: Inputs, attributes: Attributes) -> Array:
    x = _required(inputs, 0)
    total = _over_kernel(np.add, x, attributes, 0.0)
    if attributes.get("count_include_pad"):
        return total / prod(_integers(attributes, "kernel_shape", ()))
    return total / _over_kernel(np.add, np.ones((1, 1, *x.shape[2:])), attributes, 0.0)


def _over_kernel(
    function: Callable[[Array, Array], Array], x: Array, attributes: Attributes, fill: float
) -> Array:
    """Reduces one place of the kernel after the other, which numpy does several times faster than all at once."""
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
"""Operators whose outputs ONNX's evaluator loops over in Python: seconds per case instead of milliseconds."""
OWN: dict[str, Reference] = {**TOO_SLOW, "LeakyRelu": _leaky_relu}
"""Operators that are computed here instead of by ONNX's evaluator.

The evaluator rounds alpha of LeakyRelu to float32: 0.1 of five steps is then above the middle of two steps, where
runtimes round to even.
"""


_DTYPES = {"fp32": "float32", "fp16": "float16", "int8": "float32"}
_ZERO_POINT = np.array(128, np.uint8)
_WITH_BIAS = ("Conv", "Gemm")


@dataclass(frozen=True, slots=True)
class PreparedCase:
    case: OperatorCase
    model: bytes
    feeds: dict[str, Array]
    expected: dict[str, Array]
    """Expected outputs: float64 for floats in the case's precision, else the type of the output."""
    operations: int
    moved_bytes: int
    fan_in: int


@dataclass(frozen=True, slots=True)
class _Draft:
    """A model in the making; the lists have an entry for each input of the operator."""

    names: list[str] = field(default_factory=list)
    exact: list[Array | None] = field(default_factory=list)
    stored_bytes: list[int] = field(default_factory=list)
    scales: list[np.float32] = field(default_factory=list)
    """Scales of the quantized inputs."""
    nodes: list[bytes] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)
    feeds: dict[str, Array] = field(default_factory=dict)

    def add(self, name: str, exact: Array | None, stored: Array | None, constant: bool) -> None:
        self.names.append(name if stored is not None else "")
        self.exact.append(exact)
        self.stored_bytes.append(0 if stored is None else stored.nbytes)
        if stored is not None:
            (self.constants if constant else self.feeds)[name.removesuffix("_float")] = stored


def prepare(case: OperatorCase) -> PreparedCase:
    """Draws the inputs, computes the reference, writes the model."""
    draw = np.random.default_rng(zlib.crc32(f"{case.title} {case.size}".encode()))
    draft = _Draft()
    for position, port in enumerate(case.ports):
        name = f"x{position}"
        values = None if port is None else _drawn(draw, port)
        if port is None or values is None:
            draft.add(name, None, None, constant=True)
        elif case.precision == "int8" and port.dtype == "float" and port.shape:
            _add_quantized(draft, name, port, values, bias=case.operator in _WITH_BIAS and position == 2)
        else:
            array = values.astype(_DTYPES[case.precision] if port.dtype == "float" else port.dtype)
            exact = array.astype(np.float64) if array.dtype.kind == "f" else array
            draft.add(name, exact, array, port.constant)
    results = compute(case, draft.exact)
    outputs = [f"y{position}" for position in range(case.outputs)]
    if draft.scales:
        expected = _quantized_results(draft, case, outputs, results)
    else:
        draft.nodes.append(onnx.node(case.operator, draft.names, outputs, **case.attributes))
        expected = dict(zip(outputs, results, strict=True))
    return _prepared(case, draft, expected, [array.shape for array in results])


def output_dtype(case: OperatorCase, expected: Array) -> str:
    return _DTYPES[case.precision] if expected.dtype == np.float64 else str(expected.dtype.name)


def _prepared(
    case: OperatorCase, draft: _Draft, expected: dict[str, Array], out_shapes: list[tuple[int, ...]]
) -> PreparedCase:
    dtypes = {name: output_dtype(case, array) for name, array in expected.items()}
    ports = [onnx.port(name, array.dtype.name, array.shape) for name, array in draft.feeds.items()]
    ends = [onnx.port(name, dtypes[name], array.shape) for name, array in expected.items()]
    shapes = [() if array is None else array.shape for array in draft.exact]
    out_bytes = sum(array.size * np.dtype(dtypes[name]).itemsize for name, array in expected.items())
    return PreparedCase(
        case,
        onnx.model(draft.nodes, draft.constants, ports, ends, case.opset),
        draft.feeds,
        expected,
        operations(case.operator, shapes, out_shapes, case.attributes),
        bytes_moved(case.operator, draft.stored_bytes, out_bytes),
        fan_in(case.operator, shapes, out_shapes, case.attributes),
    )


def _drawn(draw: np.random.Generator, port: Port) -> Array:
    if port.values is not None:
        fixed: Array = np.array(port.values).reshape(port.shape)
        return fixed
    if port.low is None or port.high is None:
        normal: Array = draw.standard_normal(port.shape) / port.fan_in**0.5
        return normal
    if isinstance(port.low, int) and isinstance(port.high, int):
        whole: Array = draw.integers(port.low, port.high, port.shape)
        return whole
    values: Array = draw.uniform(port.low, port.high, port.shape)
    return values


def _add_quantized(draft: _Draft, name: str, port: Port, values: Array, bias: bool) -> None:
    """Adds an input as runtimes quantize it: unsigned data, signed weights, 32-bit bias in the products' scale."""
    zero: Array = _ZERO_POINT
    if bias:
        scale, zero = draft.scales[0] * draft.scales[1], np.array(0, np.int32)
    elif port.constant:
        scale, zero = _scale(values), np.array(0, np.int8)
    else:
        # The second of two like inputs takes the scale of the first: what is joined must have one.
        scale = draft.scales[0] if draft.scales else _scale(values)
    stored = _quantize(values, float(scale), zero)
    draft.scales.append(scale)
    draft.constants.update({f"{name}_scale": np.array(scale), f"{name}_zero": zero})
    draft.nodes.append(onnx.node("DequantizeLinear", [name, f"{name}_scale", f"{name}_zero"], f"{name}_float"))
    exact = (stored.astype(np.float64) - zero.astype(np.float64)) * float(scale)
    draft.add(f"{name}_float", exact, stored, port.constant)


def _quantized_results(
    draft: _Draft, case: OperatorCase, outputs: list[str], results: list[Array]
) -> dict[str, Array]:
    floats = [f"{name}_float" for name in outputs]
    draft.nodes.append(onnx.node(case.operator, draft.names, floats, **case.attributes))
    expected = {}
    for name, before, result in zip(outputs, floats, results, strict=True):
        scale = draft.scales[0] if case.keeps_scale else _scale(result)
        draft.constants.update({f"{name}_scale": np.array(scale), f"{name}_zero": _ZERO_POINT})
        draft.nodes.append(onnx.node("QuantizeLinear", [before, f"{name}_scale", f"{name}_zero"], name))
        expected[name] = _quantize(result, float(scale), _ZERO_POINT)
    return expected


def _quantize(x: Array, scale: float, zero: Array) -> Array:
    """Rounds half to even and cuts off what does not fit."""
    limits = np.iinfo(zero.dtype)
    rounded = np.rint(x / scale) + zero.astype(np.float64)
    found: Array = np.clip(rounded, limits.min, limits.max).astype(zero.dtype)
    return found


def _scale(values: Array) -> np.float32:
    """Returns the scale at which the largest value takes the last step."""
    return np.float32(np.abs(values).max() / 127)
