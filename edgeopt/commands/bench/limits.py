"""Limits that can fail a build: how they are written, where they make sense, what a measurement says of them."""

import math
import re
from collections.abc import Sequence

from edgeopt.errors import EXIT_CANCELLED, ConstraintError, UsageError
from edgeopt.measure.report import (
    Check,
    Comparison,
    ContestReport,
    Judgement,
    LimitName,
    Limits,
    State,
    Undecided,
    judgement,
    known,
    lies,
)
from edgeopt.measure.stats import TOO_FEW, TOO_NOISY, UNITY, Interval
from edgeopt.measure.workloads.records import ColdReport, ConcurrencyReport, GenerateReport, PacedReport

Judged = ContestReport | ColdReport | PacedReport | GenerateReport | ConcurrencyReport
"""Reports that compare sides with the first one."""

_NUMBER = r"(?P<number>\d+\.?\d*(e-?\d+)?|\.\d+)"
_SLOWDOWN = re.compile(rf"{_NUMBER}(?P<percent> ?%)?")
_SPEEDUP = re.compile(rf"{_NUMBER} ?x?")
# Below this, `0.1` was meant to say ten per cent faster, and would let everything pass.
_MIN_SPEEDUP = 0.5
_UNDECIDED: dict[str, Undecided] = {"pass": "pass", "fail": "fail"}
# From here on, a slowdown is easier to read as a factor than in per cent.
_IN_TIMES = 2.0
_TWO_DIGITS = 10.0
_ADVICE = "more rounds may tell"
_MEASURED = {
    "cold": "the time to the first answer",
    "paced": "the median at this rate",
    "generate": "tokens per second",
    "concurrent": "runs a second",
}


def read_limits(max_slowdown: str | None, min_speedup: str | None, undecided: str = "pass") -> Limits:
    """Reads `2%` or `0.02`, and `1.1` or `1.1x`; raises UsageError for anything else."""
    outcome = _UNDECIDED.get(undecided)
    if outcome is None:
        raise UsageError(f"--undecided is pass or fail, not '{undecided}'.", "Write --undecided fail.")
    if outcome == "fail" and max_slowdown is None and min_speedup is None:
        raise UsageError("--undecided fail needs a limit.", "Add --max-slowdown 2% or --min-speedup 1.1.")
    return Limits(
        None if max_slowdown is None else _slowdown(max_slowdown),
        None if min_speedup is None else _speedup(min_speedup),
        outcome,
    )


def _slowdown(text: str) -> float:
    hint = "Give a share of the time: --max-slowdown 2% or --max-slowdown 0.02"
    value, percent = _read(text, _SLOWDOWN, f"'{text}' is not a limit for --max-slowdown.", hint)
    if percent:
        return value / 100
    if value >= 1:
        raise UsageError(f"--max-slowdown {text} is ambiguous: {text} % or {text} times.", hint)
    return value


def _speedup(text: str) -> float:
    hint = "Give a factor: --min-speedup 1.1 or --min-speedup 1.1x"
    value, _ = _read(text, _SPEEDUP, f"'{text}' is not a limit for --min-speedup.", hint)
    if value < _MIN_SPEEDUP:
        raise UsageError(f"--min-speedup {text} would accept a side that is much slower.", hint)
    return value


def _read(text: str, pattern: re.Pattern[str], wrong: str, hint: str) -> tuple[float, bool]:
    found = pattern.fullmatch(text.strip())
    value = float(found["number"]) if found else math.nan
    if found is None or not math.isfinite(value):
        raise UsageError(wrong, hint)
    return value, bool(found.groupdict().get("percent"))


def refuse_without_verdict(limits: Limits, sides: int, duty: str, sweep: bool) -> None:
    """Raises UsageError where nothing would be judged: a limit must not pass because nobody looked."""
    if not limits.minimum:
        return
    options = " and ".join(f"--{name}" for name, _ in limits.minimum)
    if sweep:
        raise UsageError(f"{options}: a sweep does not compare sides.", "Measure the two values with --against.")
    if duty == "sustained":
        raise UsageError(
            f"{options}: sides run one after another with --duty sustained, and get no verdict.",
            "Leave --duty out, or use cold or paced.",
        )
    if sides < 2:
        raise UsageError(f"{options}: there is no other side to compare with.", "Add --against.")


def judge(report: Judged, limits: Limits) -> Judgement:
    """Judges the first side against each other one; a pair without an interval is not judged and not passed."""
    first = report.sides[0]
    comparisons = {each.second: each for each in report.comparisons}
    measured = _MEASURED.get(report.duty, "")
    checks = []
    for other in report.sides[1:]:
        found = comparisons.get(other.name)
        fallen = [(side.name, why) for side in (first, other) if (why := failure_of(side))]
        why = "; ".join(f"'{name}' {reason.rstrip('.')}" for name, reason in fallen) or "too few rounds to tell"
        checks += [
            _check(limits, name, minimum, (first.name, other.name), found or why, measured)
            for name, minimum in limits.minimum
        ]
    return judgement(limits, tuple(checks))


def failure_of(side: object) -> str:
    """Returns why a side of any duty failed; if it has levels, why the first failed one did."""
    levels: Sequence[object] = getattr(side, "levels", ())
    failures = (getattr(part, "failure", None) for part in (side, *levels))
    return next((why for why in failures if why), "")


def _check(
    limits: Limits,
    name: LimitName,
    minimum: float,
    pair: tuple[str, str],
    found: Comparison | str,
    measured: str,
) -> Check:
    """Judges one limit by a comparison; `found` is a reason if there is no comparison."""
    luck_percent = found.luck_percent if isinstance(found, Comparison) else 0.0
    interval = found.speedup or found.verdict if isinstance(found, Comparison) else found
    if isinstance(interval, Interval) and not interval.usable:
        interval = TOO_NOISY if known(interval) else TOO_FEW
    first, second = pair
    state: State = "not judged"
    if interval == TOO_NOISY:
        state, says = "undecided", f"{_NOT_SHOWN[name]}: {first} against {second} is {interval}"
    elif isinstance(interval, str):
        says = f"could not be judged: {first} against {second}: {interval}"
    else:
        by = f", by {measured}," if measured else ""
        state, says = _position(name, minimum, interval, luck_percent, f"{first} against {second}{by} is")
    if state == "undecided":
        says += f"; {_ADVICE}"
        if limits.undecided == "fail":
            says += "; an undecided limit fails (--undecided fail)"
    return Check(
        limit=name,
        minimum=minimum,
        first=first,
        second=second,
        state=state,
        passed=state == "held" or (state == "undecided" and name == "max-slowdown" and limits.undecided == "pass"),
        sentence=f"{limits.written(name)} {says}.",
        speedup=None if isinstance(interval, str) else interval,
        measured=measured,
    )


_NOT_SHOWN: dict[LimitName, str] = {"max-slowdown": "is undecided", "min-speedup": "is not proved"}


def _position(
    name: LimitName, minimum: float, interval: Interval, luck_percent: float, whose: str
) -> tuple[State, str]:
    """Returns the state of a limit for an interval, and the end of a sentence that explains it."""
    if interval == UNITY:
        return "held", f"holds: {whose} the same deployment"
    shown, limit = f"{whose} {precise(interval)}", f"the limit of {minimum:.3f}x"
    where = lies(interval, minimum, luck_percent)
    if where == "above":
        return "held", f"holds: {shown}, entirely above {limit}"
    if where == "below":
        return "broken", f"fails: {shown}, entirely below {limit}"
    if interval.low < minimum <= interval.high:
        why = f"which includes {limit}"
    else:
        why = (
            f"too close to {limit} for sides in the same processes, which may differ by {luck_percent:g} "
            "% by chance"
        )
    return "undecided", f"{_NOT_SHOWN[name]}: {shown}, {why}"


def precise(interval: Interval) -> str:
    """Formats an interval with one digit more than elsewhere, for limits of a per cent or two."""
    return f"{interval.median:.3f}x [{interval.low:.3f} {interval.high:.3f}]"


def broken(judged: Judgement | None, hint: str = "") -> ConstraintError | None:
    """Returns the error to exit with if a limit is not kept; None if all are kept or none was requested."""
    failed = [each for each in judged.checks if not each.passed] if judged else []
    if judged is None or judged.passed:
        return None
    words = {"undecided": "is not proved", "not judged": "could not be judged"}
    if judged.limits.undecided == "fail":
        words["undecided"] = "is undecided, which fails (--undecided fail)"
    problems = [
        _broken_words(each)
        if each.state == "broken"
        else f"{judged.limits.written(each.limit)} against {each.second} {words[each.state]}"
        for each in failed
    ]
    return ConstraintError(f"{'; '.join(problems) or 'Nothing could be judged'}.", hint)


def _broken_words(check: Check) -> str:
    """Describes how far a side is from the limit: `a is 6.5x slower than b; 5 % allowed`."""
    ratio = check.speedup.median if check.speedup is not None else math.nan
    by = f" by {check.measured}" if check.measured else ""
    if check.limit == "min-speedup":
        return f"{check.first} is {ratio:.3g}x as fast as {check.second}{by}; at least {check.minimum:g}x required"
    times = 1 / ratio
    percent = 100 * (times - 1)
    shown = f"{times:.1f}x" if times >= _IN_TIMES else f"{percent:.{1 if percent < _TWO_DIGITS else 0}f} %"
    return (
        f"{check.first} is {shown} slower than {check.second}{by}; {100 * (1 / check.minimum - 1):.3g} % allowed"
    )


def exit_code(judged: Judgement | None, otherwise: int = 0) -> int:
    """Returns 4 if a limit is broken, even after another failure, unless the command was stopped.

    `otherwise` is the exit code without limits. A limit that was not judged exits with the code of its reason.
    """
    if judged is None or judged.passed or otherwise >= EXIT_CANCELLED:
        return otherwise
    measured = any(not each.passed and each.state != "not judged" for each in judged.checks)
    return ConstraintError.exit_code if measured else otherwise or ConstraintError.exit_code
