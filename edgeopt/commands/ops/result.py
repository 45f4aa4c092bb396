"""What came out: of one case on one backend, and of all of them together."""

from typing import Literal, get_args

import msgspec

from edgeopt.commands.ops.case import Attribute, Precision, Size

SCHEMA = 1
Status = Literal["conforms", "deviates", "not supported", "failed"]
STATUSES: tuple[Status, ...] = get_args(Status)
"""From good to bad."""


class Measured(msgspec.Struct, frozen=True):
    """One case on one backend."""

    status: Status
    operations: int
    moved_bytes: int
    message: str = ""
    """What is wrong, as a sentence; empty where nothing is."""
    error_share: float | None = None
    """The largest error, in shares of what is allowed."""
    accuracy_db: float | None = None
    """Signal-to-noise ratio; None where nothing differs, or nothing could be compared."""
    load_ms: float | None = None
    time_us: float | None = None
    """Of one run: the median of slices; the fastest and the slowest slice are in the next two."""
    time_low_us: float | None = None
    time_high_us: float | None = None
    worth_measuring: bool | None = None
    """Whether the device was in a state for it; None where that was not looked at."""

    @property
    def lasts(self) -> bool:
        """It says something of the runtime: a failure may be one of the moment, as when memory is short."""
        return self.status != "failed"


class Figures(msgspec.Struct, frozen=True):
    """What is shown of one case on one backend."""

    measured: Measured
    roofline_share: float | None = None
    """How near to the best that this device could do: 1 is there."""
    roofline_reason: str = ""
    """Why there is no share."""


class CaseRow(msgspec.Struct, frozen=True):
    family: str
    operator: str
    variant: str
    size: Size
    precision: Precision
    opset: int
    inputs: tuple[str, ...]
    """`float32 [1, 64, 56, 56]`; empty for one that is left out."""
    attributes: dict[str, Attribute]
    results: dict[str, Figures]
    """By backend."""

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
    """None where it is not available; the reason is in `reason`, and in `extra` what would bring it."""
    reason: str = ""
    extra: str | None = None


class OperatorRow(msgspec.Struct, frozen=True):
    """One operator of a model, in one precision."""

    operator: str
    domain: str
    precision: str
    """`fp32`, `fp16`, `int8`; `other` for what computes with whole numbers or texts."""
    form: str
    """What tells it from other nodes of the operator: `3-D depth-wise`, `wrap`; empty for the usual one."""
    count: int
    share: float
    """Of the operations of the model, open dimensions being 1."""
    status: dict[str, str]
    """By backend: the worst status of its cases; `no case` of the operator, `no such case` of its form."""
    cases: int = 0
    flawed: dict[str, int] = {}
    """By backend: the number of cases that do not conform."""
    message: dict[str, str] = {}
    """By backend: what is wrong."""


class CoverageRow(msgspec.Struct, frozen=True):
    """What a backend itself says of a model."""

    supported: int | None
    """None where it could not say; the reason is in `reason`."""
    total: int | None = None
    unsupported: tuple[str, ...] = ()
    reason: str = ""


class Quickest(msgspec.Struct, frozen=True):
    """Which backend is the quickest at what dominates a model."""

    operators: tuple[str, ...]
    """What dominates: most of the operations first."""
    share: float
    """Of the operations of the model."""
    cases: int
    """The number of compared cases."""
    relative_time: dict[str, float]
    """By backend, 1 being the quickest."""


class Compatibility(msgspec.Struct, frozen=True):
    name: str
    digest: str
    nodes: int
    operators: tuple[OperatorRow, ...]
    coverage: dict[str, CoverageRow]
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
    """By backend: how many cases have which status."""
    doubtful: int = 0
    """The number of cached results that were measured while the device was busy or throttled."""
    model: Compatibility | None = None
    edgeopt: str = ""
    schema: int = SCHEMA
