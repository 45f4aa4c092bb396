"""Whether it is worth doing, and why: rules that anybody can check by hand."""

from edgeopt.commands.cost.records import Advice, Cost, Measured, Span, Terms
from edgeopt.commands.cost.words import count, number, span, times
from edgeopt.measure.stats import UNDECIDED

# What holds 1x and reaches further up than this says too little to call it not worth it.
_FAR = 1.05
_SAY_LOAD = "Give the amount of work (--load or --devices) for a figure per month."


def advise(cost: Cost, terms: Terms, claimed: bool) -> tuple[Advice, str]:
    """The recommendation against the baseline, and its reason in sentences."""
    measured = cost.measured
    if measured.speedup is None:
        return "not known", "No baseline was measured interleaved with it, so the saving is unknown."
    if _undecided(measured.verdict, measured.speedup):
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
        said = f"It is {times(measured.speedup)} faster, but the load needs {needs} in both cases."
        if saving.high > 0:
            said += f" At the upper end of the speed-up it saves {terms.currency} {number(saving.high)} a month."
        return "not worth it", said
    if disagrees := baselines_disagree(measured):
        return "consider", f"Saves {money}, but {disagrees}"
    if spent is None:
        if saving.low > 0:
            return "do it", f"Saves {money}. The cost of the work is not set (--engineering-hours)."
        return "consider", f"Saves {money}: at the lower end of the speed-up, nothing."
    return _paid_back(cost, terms, spent, money)


def baselines_disagree(measured: Measured) -> str:
    """Whether the separate times of both sides give another speed-up than the interleaved rounds."""
    if measured.speedup is None or not measured.baseline_runs_per_s:
        return ""
    plain = measured.runs_per_s / measured.baseline_runs_per_s
    if measured.speedup.low <= plain <= measured.speedup.high:
        return ""
    return (
        f"its own throughput is {plain:.2f} times the baseline's own, outside the interval of the "
        "interleaved speed-up. Savings use the speed-up; measure again on a quiet device."
    )


def _paid_back(cost: Cost, terms: Terms, spent: float, money: str) -> tuple[Advice, str]:
    months = cost.break_even_months
    assert months is not None  # noqa: S101 - there is a saving and something spent
    limit = f"{terms.pay_back_months:g} months (--pay-back-months)"
    work = f"the {terms.currency} {number(spent)} of work"
    said = f"Saves {money}, and pays back {work} in {span(months)} months"
    if months.high <= terms.pay_back_months:
        return "do it", f"{said}: within {limit} even at the lower end of the speed-up."
    if months.value <= terms.pay_back_months:
        return "consider", f"{said}: within {limit}, but not at the lower end of the speed-up."
    return "not worth it", f"{said}: later than {limit}."


def _undecided(verdict: str, speedup: Span) -> bool:
    """Not so of a search that decided to keep the baseline."""
    return verdict in UNDECIDED and speedup.low <= 1 and speedup.high > _FAR


def _unproved(cost: Cost) -> str:
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


def _without_load(cost: Cost, spent: float | None, terms: Terms) -> str:
    assert cost.saving_percent is not None  # noqa: S101 - it is proved to be faster
    said = f"The same work costs {span(cost.saving_percent)} % less."
    if spent is not None and cost.break_even_inferences is not None:
        said += (
            f" That pays back the {terms.currency} {number(spent)} of work after "
            f"{span(cost.break_even_inferences)} inferences."
        )
    return f"{said} {_SAY_LOAD}"
