"""The arithmetic, from what one device does and its price to costs; the speed-up's interval goes with it."""

import math
from collections.abc import Callable

import msgspec

from edgeopt.commands.cost.advice import advise
from edgeopt.commands.cost.records import Cost, Measured, Span, Terms

DAYS_PER_MONTH = 365 / 12
_MILLION = 1e6
_HOUR_S = 3600.0


def cost_of(name: str, measured: Measured, price_per_hour: float, terms: Terms) -> Cost:
    """What the work costs on this device, now and with the baseline."""
    does = measured.runs_per_s * terms.batch
    busy = does * terms.utilization_percent / 100
    million, thousand_fps = _million(price_per_hour, busy), 1000 * price_per_hour / busy
    monthly_each = price_per_hour * terms.hours_per_day * DAYS_PER_MONTH
    ratio = measured.speedup
    devices = _devices(ratio, busy, terms)
    plain = Cost(
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
    saving = _over(ratio, lambda s: _saved_devices(s, busy, terms) * monthly_each)
    months = _over(saving, lambda money: _divided(spent, money)) if spent is not None else None
    return _with_advice(_replace(found, monthly_saving=saving, break_even_months=months), terms)


def claims(measured: Measured) -> bool:
    """Whether there is a saving to speak of: the whole interval of the speed-up must lie above 1x."""
    ratio = measured.speedup
    return ratio is not None and measured.verdict == "faster" and 1 < ratio.low <= ratio.high and ratio.value > 1


def _million(price_per_hour: float, busy: float) -> float:
    return _MILLION * price_per_hour / (busy * _HOUR_S)


def _devices(ratio: Span | None, busy: float, terms: Terms) -> Span | None:
    """How many the load needs; None where nobody said how much there is."""
    if terms.load_per_s is not None:
        count = _whole(terms.load_per_s / busy)
        return Span(count, count, count)
    if terms.devices is None or ratio is None:
        return None
    return _over(ratio, lambda s: _after(s, busy, terms))


def _baseline_devices(ratio: Span, busy: float, terms: Terms) -> Span | None:
    if terms.load_per_s is None and terms.devices is None:
        return None
    return _over(ratio, lambda s: _before(s, busy, terms))


def _before(speedup: float, busy: float, terms: Terms) -> float:
    """How many devices the load needs with the baseline."""
    if terms.load_per_s is None:
        return float(terms.devices or 0)
    return _whole(terms.load_per_s * speedup / busy)


def _after(speedup: float, busy: float, terms: Terms) -> float:
    if terms.load_per_s is None:
        return _whole(_divided(float(terms.devices or 0), speedup))
    return _whole(terms.load_per_s / busy)


def _saved_devices(speedup: float, busy: float, terms: Terms) -> float:
    return _before(speedup, busy, terms) - _after(speedup, busy, terms)


def _whole(count: float) -> float:
    """No device can be bought in part; a hair above a whole number is rounding."""
    return float(math.ceil(count - 1e-9)) if math.isfinite(count) else count


def _divided(value: float, by: float) -> float:
    return value / by if by > 0 else (0.0 if value == 0 else math.inf)


def _over(ratio: Span, figure: Callable[[float], float]) -> Span:
    """A figure of the speed-up, at its middle and at both ends."""
    ends = figure(ratio.low), figure(ratio.high)
    return Span(figure(ratio.value), min(ends), max(ends))


def _each(found: Span, figure: Callable[[float], float]) -> Span:
    return Span(figure(found.value), figure(found.low), figure(found.high))


def _replace(cost: Cost, **changes: Span | None) -> Cost:
    return msgspec.structs.replace(cost, **changes)


def _with_advice(cost: Cost, terms: Terms) -> Cost:
    advice, reason = advise(cost, terms, claims(cost.measured))
    return msgspec.structs.replace(cost, advice=advice, reason=reason)
