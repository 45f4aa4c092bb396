"""What costs are worked out from and what comes of it: the records of `edgeopt cost`."""

from typing import Literal

import msgspec

SCHEMA = 1
Evidence = Literal["bundle", "saved run", "measured now"]
Advice = Literal["do it", "consider", "not worth it", "not known"]


class Span(msgspec.Struct, frozen=True):
    """A figure, and between what it lies by the interval of the speed-up; what is not finite means never."""

    value: float
    low: float
    high: float


class Terms(msgspec.Struct, frozen=True):
    """What the user says of money and of the load; checked."""

    currency: str = "USD"
    utilization_percent: float = 70.0
    """The largest share of time that a device may be busy."""
    hours_per_day: float = 24.0
    batch: int = 1
    """Inferences in one run of the model."""
    load_per_s: float | None = None
    devices: int | None = None
    """How many do the work now, with the baseline."""
    engineering_hours: float | None = None
    hourly_rate: float | None = None
    pay_back_months: float = 12.0
    """Work that pays for itself within this number of months is worth doing."""

    @property
    def engineering_cost(self) -> float | None:
        if self.engineering_hours is None or self.hourly_rate is None:
            return None
        return self.engineering_hours * self.hourly_rate


class Measured(msgspec.Struct, frozen=True):
    """What was measured on one device."""

    source: str
    """The bundle or the saved run."""
    evidence: Evidence
    side: str
    """What ran."""
    runs_per_s: float
    how: str
    """Of what that is the throughput: `one request at a time`, `2 threads at once`, ..."""
    counted: bool
    """Runs were counted over time; otherwise it follows from the latency of one request at a time."""
    baseline: str = ""
    baseline_runs_per_s: float | None = None
    """As measured, for comparison: what the baseline costs is worked out from the speed-up."""
    speedup: Span | None = None
    verdict: str = ""
    """What the measurement says of the speed-up; only of `faster` a saving is claimed."""
    device: dict[str, str] = {}
    """The parts of the device's fingerprint."""
    measured_at: str = ""
    notes: tuple[str, ...] = ()


class Cost(msgspec.Struct, frozen=True):
    """One device at its price."""

    name: str
    price_per_hour: float
    measured: Measured
    inferences_per_s: float
    """As measured: always busy."""
    million_inferences: float
    """What a million cost, at the utilization of the terms; likewise all that follows."""
    thousand_fps_hours: float
    """What 1,000 inferences a second cost for an hour."""
    baseline_inferences_per_s: Span | None = None
    baseline_million_inferences: Span | None = None
    baseline_thousand_fps_hours: Span | None = None
    saving_percent: Span | None = None
    devices: Span | None = None
    baseline_devices: Span | None = None
    monthly_cost: Span | None = None
    baseline_monthly_cost: Span | None = None
    monthly_saving: Span | None = None
    break_even_months: Span | None = None
    break_even_inferences: Span | None = None
    advice: Advice = "not known"
    reason: str = ""


class CostReport(msgspec.Struct, frozen=True):
    costs: tuple[Cost, ...]
    terms: Terms
    cheapest: str = ""
    """A sentence, where there are several devices."""
    notes: tuple[str, ...] = ()
    schema: int = SCHEMA
