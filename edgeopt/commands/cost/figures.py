"""Costs: from what one device does and its price to figures, advice and their words.

The interval of the speed-up goes with every figure. The advice follows rules that anybody can check by hand.
"""

import math
from collections.abc import Callable
from typing import Literal

import msgspec

SCHEMA = 1
Evidence = Literal["bundle", "saved run", "measured now"]
Advice = Literal["do it", "consider", "not worth it", "not known"]
DAYS_PER_MONTH = 365 / 12
_MILLION = 1e6
_HOUR_S = 3600.0
# What holds 1x and reaches further up than this says too little to call it not worth it.
_FAR = 1.05
_SAY_LOAD = "Give the amount of work (--load or --devices) for a figure per month."
_LARGE = ((1e12, "trillion"), (1e9, "billion"), (1e6, "million"))


class Span(msgspec.Struct, frozen=True):
    """Figure with its range over the interval of the speed-up; a value that is not finite means never."""

    value: float
    low: float
    high: float


class PriceTerms(msgspec.Struct, frozen=True):
    """Prices and load that the user gave, already checked."""

    currency: str = "USD"
    utilization_percent: float = 70.0
    """The largest share of time that a device may be busy."""
    hours_per_day: float = 24.0
    batch: int = 1
    """Inferences in one run of the model."""
    load_per_s: float | None = None
    devices: int | None = None
    """Number of devices that do the work now, with the baseline."""
    engineering_hours: float | None = None
    hourly_rate: float | None = None
    pay_back_months: float = 12.0
    """Work that pays for itself within this number of months is worth doing."""

    @property
    def engineering_cost(self) -> float | None:
        if self.engineering_hours is None or self.hourly_rate is None:
            return None
        return self.engineering_hours * self.hourly_rate


class MeasuredRun(msgspec.Struct, frozen=True):
    source: str
    """The bundle or the saved run."""
    evidence: Evidence
    side: str
    """Side that was measured."""
    runs_per_s: float
    how: str
    """Calls behind this throughput: `one request at a time`, `2 threads at once`, ..."""
    counted: bool
    """Whether runs were counted over time; otherwise the latency of single requests gives the throughput."""
    baseline: str = ""
    baseline_runs_per_s: float | None = None
    """Measured throughput, for comparison only: the cost of the baseline is computed from the speed-up."""
    speedup: Span | None = None
    verdict: str = ""
    """Verdict on the speed-up; a saving is claimed only if it is `faster`."""
    device: dict[str, str] = {}
    """The parts of the device's fingerprint."""
    measured_at: str = ""
    notes: tuple[str, ...] = ()


class RunCost(msgspec.Struct, frozen=True):
    name: str
    price_per_hour: float
    measured: MeasuredRun
    inferences_per_s: float
    """Measured throughput of a device that is always busy."""
    million_inferences: float
    """Cost of a million inferences at the utilization of the terms, as in all fields below."""
    thousand_fps_hours: float
    """Cost of 1,000 inferences per second for an hour."""
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
    costs: tuple[RunCost, ...]
    terms: PriceTerms
    cheapest: str = ""
    """Sentence on the cheapest device, if there are several devices."""
    notes: tuple[str, ...] = ()
    schema: int = SCHEMA


def cost_of(name: str, measured: MeasuredRun, price_per_hour: float, terms: PriceTerms) -> RunCost:
    """Computes the cost of the work on this device, now and with the baseline."""
    does = measured.runs_per_s * terms.batch
    busy = does * terms.utilization_percent / 100
    million = _MILLION * price_per_hour / (busy * _HOUR_S)
    thousand_fps = 1000 * price_per_hour / busy
    monthly_each = price_per_hour * terms.hours_per_day * DAYS_PER_MONTH
    ratio = measured.speedup
    devices = _devices(ratio, busy, terms)
    plain = RunCost(
        name=name,
        price_per_hour=price_per_hour,
        measured=measured,
        inferences_per_s=does,
        million_inferences=million,
        thousand_fps_hours=thousand_fps,
        devices=devices,
        monthly_cost=_each(devices, lambda count: count * monthly_each) if devices else None,
    )
    if ratio is None:
        return _with_advice(plain, terms)
    before = _baseline_devices(ratio, busy, terms)
    claimed = claims(measured)
    found = _replace(
        plain,
        baseline_inferences_per_s=_over(ratio, lambda s: _divided(does, s)),
        baseline_million_inferences=_over(ratio, lambda s: million * s),
        baseline_thousand_fps_hours=_over(ratio, lambda s: thousand_fps * s),
        baseline_devices=before,
        baseline_monthly_cost=_each(before, lambda count: count * monthly_each) if before else None,
        saving_percent=_over(ratio, lambda s: 100 * (1 - 1 / s)) if claimed else None,
    )
    if not claimed:
        return _with_advice(found, terms)
    spent = terms.engineering_cost
    if spent is not None:
        inferences = _over(ratio, lambda s: _MILLION * _divided(spent, million * (s - 1)))
        found = _replace(found, break_even_inferences=inferences)
    if before is None:
        return _with_advice(found, terms)
    saving = _over(ratio, lambda s: (_before(s, busy, terms) - _after(s, busy, terms)) * monthly_each)
    months = _over(saving, lambda money: _divided(spent, money)) if spent is not None else None
    return _with_advice(_replace(found, monthly_saving=saving, break_even_months=months), terms)


def claims(measured: MeasuredRun) -> bool:
    """Whether there is a saving to speak of: the whole interval of the speed-up must lie above 1x."""
    ratio = measured.speedup
    return ratio is not None and measured.verdict == "faster" and 1 < ratio.low <= ratio.high and ratio.value > 1


def _devices(ratio: Span | None, busy: float, terms: PriceTerms) -> Span | None:
    """Returns the number of devices that the load needs; None if the load is unknown."""
    if terms.load_per_s is not None:
        count = _whole(terms.load_per_s / busy)
        return Span(count, count, count)
    if terms.devices is None or ratio is None:
        return None
    return _over(ratio, lambda s: _after(s, busy, terms))


def _baseline_devices(ratio: Span, busy: float, terms: PriceTerms) -> Span | None:
    if terms.load_per_s is None and terms.devices is None:
        return None
    return _over(ratio, lambda s: _before(s, busy, terms))


def _before(speedup: float, busy: float, terms: PriceTerms) -> float:
    """Returns the number of devices that the load needs with the baseline."""
    if terms.load_per_s is None:
        return float(terms.devices or 0)
    return _whole(terms.load_per_s * speedup / busy)


def _after(speedup: float, busy: float, terms: PriceTerms) -> float:
    if terms.load_per_s is None:
        return _whole(_divided(float(terms.devices or 0), speedup))
    return _whole(terms.load_per_s / busy)


def _whole(count: float) -> float:
    """Rounds up to whole devices; a hair above a whole number counts as rounding error."""
    return float(math.ceil(count - 1e-9)) if math.isfinite(count) else count


def _divided(value: float, by: float) -> float:
    return value / by if by > 0 else (0.0 if value == 0 else math.inf)


def _over(ratio: Span, figure: Callable[[float], float]) -> Span:
    """Computes a figure from the speed-up, at its middle and at both ends."""
    ends = figure(ratio.low), figure(ratio.high)
    return Span(figure(ratio.value), min(ends), max(ends))


def _each(found: Span, figure: Callable[[float], float]) -> Span:
    return Span(figure(found.value), figure(found.low), figure(found.high))


def _replace(cost: RunCost, **changes: Span | None) -> RunCost:
    return msgspec.structs.replace(cost, **changes)


def _with_advice(cost: RunCost, terms: PriceTerms) -> RunCost:
    advice, reason = advise(cost, terms, claims(cost.measured))
    return msgspec.structs.replace(cost, advice=advice, reason=reason)


def advise(cost: RunCost, terms: PriceTerms, claimed: bool) -> tuple[Advice, str]:
    """Returns the recommendation against the baseline, and its reason in sentences."""
    measured = cost.measured
    if measured.speedup is None:
        return "not known", "No baseline was measured interleaved with it, so the saving is unknown."
    from edgeopt.measure.stats import UNDECIDED  # not at the top: `--help` reads this file

    if measured.verdict in UNDECIDED and measured.speedup.low <= 1 and measured.speedup.high > _FAR:
        return "not known", (
            f"The measurement does not decide: {times(measured.speedup)} includes 1x, so no saving is "
            "claimed. Measure longer, or on an idle device."
        )
    if not claimed:
        return "not worth it", _unproved(cost)
    saving, spent = cost.monthly_saving, terms.engineering_cost
    if saving is None:
        return "consider", _without_load(cost, spent, terms)
    money = f"{terms.currency} {span(saving)} a month"
    if saving.value <= 0:
        needed = count(cost.devices) if cost.devices else ""
        needs = f"{needed} device{'' if needed == '1' else 's'}"
        reason = f"It is {times(measured.speedup)} faster, but the load needs {needs} in both cases."
        if saving.high > 0:
            reason += f" At the upper end of the speed-up it saves {terms.currency} {number(saving.high)} a month."
        return "not worth it", reason
    if disagrees := baselines_disagree(measured):
        return "consider", f"Saves {money}, but {disagrees}"
    if spent is None:
        if saving.low > 0:
            return "do it", f"Saves {money}. The cost of the work is not set (--engineering-hours)."
        return "consider", f"Saves {money}: at the lower end of the speed-up, nothing."
    return _paid_back(cost, terms, spent, money)


def baselines_disagree(measured: MeasuredRun) -> str:
    """Returns a note if both sides' separate times give another speed-up than the interleaved rounds, else ""."""
    if measured.speedup is None or not measured.baseline_runs_per_s:
        return ""
    plain = measured.runs_per_s / measured.baseline_runs_per_s
    if measured.speedup.low <= plain <= measured.speedup.high:
        return ""
    return (
        f"its own throughput is {plain:.2f} times the baseline's own, outside the interval of the "
        "interleaved speed-up. Savings use the speed-up; measure again on a quiet device."
    )


def _paid_back(cost: RunCost, terms: PriceTerms, spent: float, money: str) -> tuple[Advice, str]:
    months = cost.break_even_months
    assert months is not None  # noqa: S101 - there is a saving and something spent
    limit = f"{terms.pay_back_months:g} months (--pay-back-months)"
    work = f"the {terms.currency} {number(spent)} of work"
    reason = f"Saves {money}, and pays back {work} in {span(months)} months"
    if months.high <= terms.pay_back_months:
        return "do it", f"{reason}: within {limit} even at the lower end of the speed-up."
    if months.value <= terms.pay_back_months:
        return "consider", f"{reason}: within {limit}, but not at the lower end of the speed-up."
    return "not worth it", f"{reason}: later than {limit}."


def _unproved(cost: RunCost) -> str:
    measured = cost.measured
    assert measured.speedup is not None  # noqa: S101 - asked only where there is one
    against = f" than {measured.baseline}" if measured.baseline else ""
    if measured.verdict == "slower":
        return f"It is slower{against}: {times(measured.speedup)}."
    if measured.speedup.low <= 1:
        why = f"the interval of its speed-up includes 1x, {times(measured.speedup)}"
    else:
        why = f"{measured.verdict or 'no verdict'}, {times(measured.speedup)}"
    return f"It was not proved to be faster{against}: {why}. No saving is claimed."


def _without_load(cost: RunCost, spent: float | None, terms: PriceTerms) -> str:
    assert cost.saving_percent is not None  # noqa: S101 - it is proved to be faster
    reason = f"The same work costs {span(cost.saving_percent)} % less."
    if spent is not None and cost.break_even_inferences is not None:
        reason += (
            f" That pays back the {terms.currency} {number(spent)} of work after "
            f"{span(cost.break_even_inferences)} inferences."
        )
    return f"{reason} {_SAY_LOAD}"


def number(value: float) -> str:
    """Formats a number: `0.0123`, `12.3`, `1,234`, `17.0 billion`; `never` if it is not finite."""
    if not math.isfinite(value):
        return "never"
    size, word = _scale(value)
    return f"{_figures(value / size)} {word}".rstrip()


def span(found: Span) -> str:
    """Formats `12.3 [10.1 14.9]`, or the figure alone if it has no uncertainty."""
    if number(found.low) == number(found.high) == number(found.value):
        return number(found.value)
    size, word = _scale(found.value)
    ends = " ".join(_figures(end / size) if math.isfinite(end) else "never" for end in (found.low, found.high))
    middle = _figures(found.value / size) if math.isfinite(found.value) else "never"
    return f"{middle} [{ends}] {word}".rstrip()


def count(found: Span) -> str:
    """Formats a count of whole things: `19 [15 20]`."""
    low, middle, high = (
        f"{v:,.0f}" if math.isfinite(v) else "never" for v in (found.low, found.value, found.high)
    )
    return middle if low == high else f"{middle} [{low} {high}]"


def times(speedup: Span) -> str:
    """Formats `2.47x [1.96 2.60]`."""
    if speedup.low == speedup.high:
        return f"{speedup.value:.2f}x"
    high = f"{speedup.high:.2f}" if math.isfinite(speedup.high) else "open"
    return f"{speedup.value:.2f}x [{speedup.low:.2f} {high}]"


def _scale(value: float) -> tuple[float, str]:
    return next((row for row in _LARGE if math.isfinite(value) and abs(value) >= row[0]), (1.0, ""))


def _figures(value: float) -> str:
    if value == 0:
        return "0"
    return f"{value:,.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"
