"""Operator cases (an operator with attributes, shapes and a precision), and the results of cases."""

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
"""Opset of cases that need no newer one."""
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
    """Whether the port is part of the model, like weights, rather than an input."""
    fan_in: int = 1
    """The factor by which weights are smaller, so that results keep their size."""
    values: tuple[Number, ...] | None = None
    """Values that are given instead of drawn: axes, shapes, limits."""


class OperatorCase(msgspec.Struct, frozen=True):
    operator: str
    variant: str
    """Difference from other cases of the operator, such as `depth-wise`; empty if there is only one."""
    size: Size
    precision: Precision
    ports: tuple[Port | None, ...]
    """Inputs of the operator; None for an input that is left out."""
    attributes: Attributes = {}
    outputs: int = 1
    opset: int = OPSET
    keeps_scale: bool = False
    """Whether the int8 operator only moves numbers, so that the output has the scale of the input."""

    @property
    def title(self) -> str:
        return " ".join(part for part in (self.operator, self.variant) if part)

    @property
    def name(self) -> str:
        return f"{self.title} {self.precision} {self.size}"

    @property
    def digest(self) -> str:
        """Digest that changes with everything that is measured."""
        return hashlib.sha256(msgspec.json.encode(self, order="sorted")).hexdigest()[:32]


def fed(*shape: int, low: Number | None = None, high: Number | None = None, dtype: str = "float") -> Port:
    """Returns an input that is data."""
    return Port(shape, low, high, dtype)


def weights(*shape: int, fan_in: int = 1) -> Port:
    """Returns an input that is part of the model."""
    return Port(shape, constant=True, fan_in=fan_in)


def between(low: float, high: float, *shape: int) -> Port:
    """Weights of a given range: a variance is above zero."""
    return Port(shape, low, high, constant=True)


def numbers(*values: Number, dtype: str = "int64") -> Port:
    """Returns a constant list of numbers: axes, shapes, pads."""
    return Port((len(values),), dtype=dtype, constant=True, values=values)


def number(value: Number, dtype: str = "float") -> Port:
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
) -> Iterator[OperatorCase]:
    """Yields the cases of one row: the ports for small, medium and large, at each precision."""
    for position, (size, inputs) in enumerate(zip(SIZES, ports, strict=True)):
        own = (attributes or {}) if not isinstance(attributes, Sequence) else attributes[position]
        for precision in precisions:
            yield OperatorCase(operator, variant, size, precision, tuple(inputs), own, outputs, opset, keeps_scale)


SCHEMA = 1
Status = Literal["conforms", "deviates", "not supported", "failed"]
STATUSES: tuple[Status, ...] = get_args(Status)
"""Statuses from good to bad."""


class MeasuredOperator(msgspec.Struct, frozen=True):
    """One case on one backend."""

    status: Status
    operations: int
    moved_bytes: int
    message: str = ""
    """Description of the problem, as a sentence; empty if there is none."""
    error_share: float | None = None
    """The largest error, in shares of what is allowed."""
    accuracy_db: float | None = None
    """Signal-to-noise ratio; None where nothing differs, or nothing could be compared."""
    load_ms: float | None = None
    time_us: float | None = None
    """Time of one run: the median of slices; the fastest and the slowest slice are in the next two fields."""
    time_low_us: float | None = None
    time_high_us: float | None = None
    worth_measuring: bool | None = None
    """Whether the device was in a state worth measuring; None if this was not checked."""

    @property
    def lasts(self) -> bool:
        """Whether the result describes the runtime; a failure may be temporary, such as a lack of memory."""
        return self.status != "failed"


class OperatorFigures(msgspec.Struct, frozen=True):
    measured: MeasuredOperator
    roofline_share: float | None = None
    """Share of the best that this device could do (1.0 = the best)."""
    roofline_reason: str = ""
    """Reason why there is no share."""


class CaseRow(msgspec.Struct, frozen=True):
    family: str
    operator: str
    variant: str
    size: Size
    precision: Precision
    opset: int
    inputs: tuple[str, ...]
    """Inputs such as `float32 [1, 64, 56, 56]`; empty for an input that is left out."""
    attributes: dict[str, Attribute]
    results: dict[str, OperatorFigures]
    """Figures by backend."""

    @property
    def title(self) -> str:
        return " ".join(part for part in (self.operator, self.variant) if part)

    @property
    def name(self) -> str:
        return f"{self.title} {self.precision} {self.size}"


class BackendRow(msgspec.Struct, frozen=True):
    name: str
    title: str
    version: str | None
    """Version of the backend; None if it is not available: see `reason`, and `extra` for what to install."""
    reason: str = ""
    extra: str | None = None


class OperatorResult(msgspec.Struct, frozen=True):
    """One operator of a model, in one precision."""

    operator: str
    domain: str
    precision: str
    """`fp32`, `fp16`, `int8`; `other` for what computes with whole numbers or texts."""
    form: str
    """Difference from other nodes of the operator: `3-D depth-wise`, `wrap`; empty for the usual form."""
    count: int
    share: float
    """Share of the model's operations, with open dimensions as 1."""
    status: dict[str, str]
    """Worst status of the cases by backend; `no case` of the operator, `no such case` of its form."""
    cases: int = 0
    flawed: dict[str, int] = {}
    """Number of cases that do not conform, by backend."""
    message: dict[str, str] = {}
    """Description of the problem, by backend."""


class OperatorCoverage(msgspec.Struct, frozen=True):
    """Support of a model as reported by a backend itself."""

    supported: int | None
    """Number of supported nodes; None, with a reason in `reason`, if the backend could not report it."""
    total: int | None = None
    unsupported: tuple[str, ...] = ()
    reason: str = ""


class Quickest(msgspec.Struct, frozen=True):
    """Comparison of backends by the operators that dominate a model."""

    operators: tuple[str, ...]
    """Dominating operators, most operations first."""
    share: float
    """Share of the model's operations."""
    cases: int
    """The number of compared cases."""
    relative_time: dict[str, float]
    """Time relative to the quickest backend, by backend (1.0 = the quickest)."""


class Compatibility(msgspec.Struct, frozen=True):
    name: str
    digest: str
    nodes: int
    operators: tuple[OperatorResult, ...]
    coverage: dict[str, OperatorCoverage]
    quickest: Quickest | None = None
    quickest_reason: str = ""


class Report(msgspec.Struct, frozen=True):
    backends: tuple[BackendRow, ...]
    cases: tuple[CaseRow, ...]
    threads: int
    took_s: float
    measured: int
    """The number of new results; the others come from the cache."""
    counts: dict[str, dict[Status, int]]
    """Number of cases of each status, by backend."""
    doubtful: int = 0
    """The number of cached results that were measured while the device was busy or throttled."""
    model: Compatibility | None = None
    edgeopt: str = ""
    schema: int = SCHEMA
