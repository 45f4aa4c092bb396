"""What all duties share: sides against the first one by values paired within rounds, and sides that fail."""

from collections.abc import Sequence

from edgeopt.errors import TrialError
from edgeopt.measure.contender import Side
from edgeopt.measure.instruments.machine_state import StateSampler
from edgeopt.measure.report import Comparison, Verdict
from edgeopt.measure.stats import Interval, direction, paired_ratios, sign_interval
from edgeopt.measure.terms import LUCK_PERCENT, Turns


def compared(
    name: str, other: str, mine_ms: Sequence[float], theirs_ms: Sequence[float], terms: Turns
) -> Comparison | None:
    """How many times faster the first is than the second, judged once; None without a round of both."""
    rounds = min(len(mine_ms), len(theirs_ms))
    if not rounds:
        return None
    ratio = sign_interval(paired_ratios(theirs_ms[:rounds], mine_ms[:rounds]), 1 - terms.error)
    said = _verdict(ratio, terms)
    at_most = 100 * (max(ratio.high, 1 / max(ratio.low, 1e-9)) - 1) if said == "no difference seen" else None
    luck_percent = terms.same_percent if terms.same_percent >= LUCK_PERCENT else 0.0
    return Comparison(name, other, ratio, said, at_most, error=terms.error, luck_percent=luck_percent)


def _verdict(ratio: Interval, terms: Turns) -> Verdict:
    least = 1 + terms.same_percent / 100
    # Equal sides fall all on one side of 1x with this chance, and then no interval of theirs holds 1x.
    if 2 * 0.5**ratio.rounds > terms.error:
        return "too few rounds to tell"
    return direction(ratio, least)


def against_first(
    names: Sequence[str], values_ms: Sequence[Sequence[float]], terms: Turns
) -> tuple[Comparison, ...]:
    """The first side with each other one."""
    others = zip(names[1:], values_ms[1:], strict=True)
    made = (compared(names[0], name, values_ms[0], values, terms) for name, values in others)
    return tuple(c for c in made if c is not None)


def require_one(failures: dict[str, str | None], hint: str = "Run it in its own runtime for details.") -> None:
    """Raises TrialError when no side is left; a side that failed beside others is a part of the report."""
    if failures and all(why is not None for why in failures.values()):
        name, why = next(iter(failures.items()))
        raise TrialError(f"'{name}' {(why or '').rstrip('.')}.", hint)


def sampler_for(sides: Sequence[Side]) -> StateSampler:
    """What looks at the device; the server of a served model is one of the "others", and spoils no round."""
    return StateSampler(tuple, judge_others=all(side.kind != "url" for side in sides))


def warnings_of(failures: dict[str, str | None]) -> tuple[str, ...]:
    return tuple(
        f"'{name}' {why.rstrip('.')}; it was skipped from then on." for name, why in failures.items() if why
    )
