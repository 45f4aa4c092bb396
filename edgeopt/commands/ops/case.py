"""What a case is: one operator with its attributes, the shapes that it is tried at, and a precision."""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Literal, get_args

import msgspec

Precision = Literal["fp32", "fp16", "int8"]
Size = Literal["small", "medium", "large"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)
SIZES: tuple[Size, ...] = get_args(Size)
FLOATS: tuple[Precision, ...] = ("fp32", "fp16")
ALL: tuple[Precision, ...] = PRECISIONS

Number = int | float
Attribute = int | float | str | tuple[Number, ...]
Attributes = dict[str, Attribute]

OPSET = 19
"""Of cases that need no newer one."""
IMAGES = ((1, 16, 14, 14), (1, 64, 56, 56), (2, 64, 112, 112))
"""Batch, channels, height, width: in the middle of a small network, and at the start of a large one."""
TOKENS = ((1, 16, 128), (1, 128, 384), (4, 256, 768))
"""Batch, tokens, width: from a sentence to four paragraphs."""


class Port(msgspec.Struct, frozen=True):
    """One input of an operator: its shape, and what is drawn for it."""

    shape: tuple[int, ...]
    low: Number | None = None
    """Drawn uniformly from `low` to `high`, as integers if both are; otherwise from a normal distribution."""
    high: Number | None = None
    dtype: str = "float"
    """`float` is that of the case's precision, and its eight-bit form where that is int8."""
    constant: bool = False
    """Part of the model, like weights; otherwise an input."""
    fan_in: int = 1
    """The factor by which weights are smaller, so that results keep their size."""
    values: tuple[Number, ...] | None = None
    """Given instead of drawn: axes, shapes, limits."""


class Case(msgspec.Struct, frozen=True):
    operator: str
    variant: str
    """What tells it from other cases of its operator: `depth-wise`; empty where there is no other."""
    size: Size
    precision: Precision
    ports: tuple[Port | None, ...]
    """None is an input that is left out."""
    attributes: Attributes = {}
    outputs: int = 1
    opset: int = OPSET
    keeps_scale: bool = False
    """In int8: the operator moves numbers and computes none, so the output has the scale of the input."""

    @property
    def title(self) -> str:
        return " ".join(part for part in (self.operator, self.variant) if part)

    @property
    def name(self) -> str:
        return f"{self.title} {self.precision} {self.size}"

    @property
    def digest(self) -> str:
        """Changes with everything that is measured."""
        return hashlib.sha256(msgspec.json.encode(self, order="sorted")).hexdigest()[:32]


def fed(*shape: int, low: Number | None = None, high: Number | None = None, dtype: str = "float") -> Port:
    """An input that is data."""
    return Port(shape, low, high, dtype)


def weights(*shape: int, fan_in: int = 1) -> Port:
    """An input that is part of the model."""
    return Port(shape, constant=True, fan_in=fan_in)


def between(low: float, high: float, *shape: int) -> Port:
    """Weights of a given range: a variance is above zero."""
    return Port(shape, low, high, constant=True)


def numbers(*values: Number, dtype: str = "int64") -> Port:
    """A constant list of numbers: axes, shapes, pads."""
    return Port((len(values),), dtype=dtype, constant=True, values=values)


def number(value: Number, dtype: str = "float") -> Port:
    """A constant single number."""
    return Port((), dtype=dtype, constant=True, values=(value,))


def spread(  # noqa: PLR0913, PLR0917 - a row of a table
    operator: str,
    ports: Sequence[Sequence[Port | None]],
    variant: str = "",
    precisions: Sequence[Precision] = FLOATS,
    attributes: Attributes | Sequence[Attributes] | None = None,
    outputs: int = 1,
    opset: int = OPSET,
    keeps_scale: bool = False,
) -> Iterator[Case]:
    """The cases of one row: the ports for small, medium and large, at each precision."""
    for position, (size, given) in enumerate(zip(SIZES, ports, strict=True)):
        own = (attributes or {}) if not isinstance(attributes, Sequence) else attributes[position]
        for precision in precisions:
            yield Case(operator, variant, size, precision, tuple(given), own, outputs, opset, keeps_scale)
