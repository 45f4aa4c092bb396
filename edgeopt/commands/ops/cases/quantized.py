"""Operators on eight-bit numbers themselves; the other families' int8 cases are operators between Q and DQ."""

from collections.abc import Iterator

from edgeopt.commands.ops.case import Attributes, Case, Port, Precision, fed, number, spread
from edgeopt.commands.ops.cases.sizes import IMAGES

_INT8: tuple[Precision, ...] = ("int8",)
_PRODUCTS = ((16, 128, 128), (128, 384, 384), (384, 768, 1024))
_CONVS = ((8, 16, 14), (64, 64, 28), (64, 128, 56))
_3X3: Attributes = {"kernel_shape": (3, 3), "pads": (1, 1, 1, 1)}


def _bytes(*shape: int, dtype: str = "uint8", constant: bool = False) -> Port:
    low, high = (0, 256) if dtype == "uint8" else (-127, 128)
    return Port(shape, low, high, dtype, constant)


def _scale(value: float) -> Port:
    return number(value, "float32")


def _cases() -> Iterator[Case]:
    zero, signed_zero = number(128, "uint8"), number(0, "int8")
    floats = [fed(*s, dtype="float32") for s in IMAGES]
    to_bytes = [[x, _scale(0.03), zero] for x in floats]
    to_floats = [[_bytes(*s), _scale(0.03), zero] for s in IMAGES]
    yield from spread("QuantizeLinear", to_bytes, "uint8", _INT8)
    yield from spread("QuantizeLinear", [[x, _scale(0.03), signed_zero] for x in floats], "int8", _INT8)
    yield from spread("DequantizeLinear", to_floats, "uint8", _INT8)
    yield from spread("DynamicQuantizeLinear", [[x] for x in floats], "", _INT8, outputs=3)
    integer = [[_bytes(m, k), _bytes(k, n, dtype="int8", constant=True), zero] for m, k, n in _PRODUCTS]
    yield from spread("MatMulInteger", integer, "", _INT8)
    linear = [
        [
            *(_bytes(m, k), _scale(0.02), zero),
            *(_bytes(k, n, dtype="int8", constant=True), _scale(0.01), signed_zero),
            *(_scale(0.02 * 0.01 * 5000 * k**0.5 / 127 * 4), zero),
        ]
        for m, k, n in _PRODUCTS
    ]
    yield from spread("QLinearMatMul", linear, "", _INT8)
    kernels = [(_bytes(1, c, s, s), _bytes(g, c, 3, 3, dtype="int8", constant=True)) for c, g, s in _CONVS]
    yield from spread("ConvInteger", [[x, w, zero] for x, w in kernels], "", _INT8, _3X3)
    whole = [
        [
            *(x, _scale(0.02), zero, w, _scale(0.01), signed_zero),
            *(_scale(0.02 * 0.01 * 5000 * (9 * w.shape[1]) ** 0.5 / 127 * 4), zero),
        ]
        for x, w in kernels
    ]
    yield from spread("QLinearConv", whole, "", _INT8, _3X3)


CASES: tuple[Case, ...] = tuple(_cases())
