"""Makes of a case the model, its inputs, and what must come out; always the same.

In int8 each float input is quantized, dequantized before the operator, and the result is quantized: the form that
runtimes know and fuse. The reference goes the same way in float64.
"""

import zlib
from dataclasses import dataclass, field

import numpy as np

from edgeopt.backends.base import Array
from edgeopt.commands.ops import cost
from edgeopt.commands.ops.case import Case, Port
from edgeopt.commands.ops.references import compute
from edgeopt.measure.peaks import onnx

_DTYPES = {"fp32": "float32", "fp16": "float16", "int8": "float32"}
_ZERO_POINT = np.array(128, np.uint8)
_WITH_BIAS = ("Conv", "Gemm")


@dataclass(frozen=True, slots=True)
class Prepared:
    case: Case
    model: bytes
    feeds: dict[str, Array]
    expected: dict[str, Array]
    """In float64 where a float of the case's precision is meant, else in the type of the output."""
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
    """Of the inputs that are quantized."""
    nodes: list[bytes] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)
    feeds: dict[str, Array] = field(default_factory=dict)

    def add(self, name: str, exact: Array | None, stored: Array | None, constant: bool) -> None:
        self.names.append(name if stored is not None else "")
        self.exact.append(exact)
        self.stored_bytes.append(0 if stored is None else stored.nbytes)
        if stored is not None:
            (self.constants if constant else self.feeds)[name.removesuffix("_float")] = stored


def prepare(case: Case) -> Prepared:
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


def output_dtype(case: Case, expected: Array) -> str:
    """The type of an output in the model."""
    return _DTYPES[case.precision] if expected.dtype == np.float64 else str(expected.dtype.name)


def _prepared(
    case: Case, draft: _Draft, expected: dict[str, Array], out_shapes: list[tuple[int, ...]]
) -> Prepared:
    dtypes = {name: output_dtype(case, array) for name, array in expected.items()}
    given = [onnx.port(name, array.dtype.name, array.shape) for name, array in draft.feeds.items()]
    ends = [onnx.port(name, dtypes[name], array.shape) for name, array in expected.items()]
    shapes = [() if array is None else array.shape for array in draft.exact]
    out_bytes = sum(array.size * np.dtype(dtypes[name]).itemsize for name, array in expected.items())
    return Prepared(
        case,
        onnx.model(draft.nodes, draft.constants, given, ends, case.opset),
        draft.feeds,
        expected,
        cost.operations(case.operator, shapes, out_shapes, case.attributes),
        cost.bytes_moved(case.operator, draft.stored_bytes, out_bytes),
        cost.fan_in(case.operator, shapes, out_shapes, case.attributes),
    )


def _drawn(draw: np.random.Generator, port: Port) -> Array:
    if port.values is not None:
        given: Array = np.array(port.values).reshape(port.shape)
        return given
    if port.low is None or port.high is None:
        normal: Array = draw.standard_normal(port.shape) / port.fan_in**0.5
        return normal
    if isinstance(port.low, int) and isinstance(port.high, int):
        whole: Array = draw.integers(port.low, port.high, port.shape)
        return whole
    values: Array = draw.uniform(port.low, port.high, port.shape)
    return values


def _add_quantized(draft: _Draft, name: str, port: Port, values: Array, bias: bool) -> None:
    """As runtimes want it: data unsigned, weights signed, a bias in 32 bits with the scale of the products."""
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


def _quantized_results(draft: _Draft, case: Case, outputs: list[str], results: list[Array]) -> dict[str, Array]:
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
    """So that the largest value takes the last step."""
    return np.float32(np.abs(values).max() / 127)
