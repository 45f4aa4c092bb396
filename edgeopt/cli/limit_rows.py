"""How limits that were held to a measurement are shown, in a terminal and on a page."""

from typing import TYPE_CHECKING

from edgeopt import events
from edgeopt.cli.console import fail
from edgeopt.commands.documents.blocks import Block, Table, Words, columns, lines, rows, section

if TYPE_CHECKING:
    from edgeopt.measure.report import Check, Judgement

# Sentences that people still read; of a suite's hundred, only those about failures are shown.
_FEW = 8
_COLUMNS = ("limit", "against", ">speed-up", ">interval", ">least allowed", "verdict")


def headline(judged: "Judgement") -> str:
    """The verdict on all limits in one sentence."""
    from edgeopt.commands.bench.limits import broken

    failed = broken(judged)
    if failed is not None:
        return failed.message
    undecided = sum(each.state == "undecided" for each in judged.checks)
    if undecided and len(judged.checks) == 1:
        return "The limit is undecided: neither broken nor met for certain."
    if undecided:
        return f"No limit is broken, but {undecided} of {len(judged.checks)} could not be decided."
    return "The limit holds." if len(judged.checks) == 1 else "All limits hold."


def show(judged: "Judgement | None") -> list[Block]:
    """A sentence for each; where there are many, for those that do not simply hold."""
    if judged is None:
        return []
    told = [each for each in judged.checks if len(judged.checks) <= _FEW or each.state != "held"]
    left = len(judged.checks) - len(told)
    rest = [f"{left} of {len(judged.checks)} limits hold."] if left else []
    return [section("", *lines((each.sentence for each in told), "strong"), *lines(rest))]


def on_page(judged: "Judgement | None") -> list[Block]:
    """The verdict on all of them, a table of the checks, and why those that were not judged were not."""
    if judged is None:
        return []
    why = (each.sentence for each in judged.checks if each.state in {"undecided", "not judged"})
    table = Table(columns(*_COLUMNS), rows(*(_row(judged, each) for each in judged.checks)))
    return [Words(headline(judged), "strong"), table, *lines(why)]


def _row(judged: "Judgement", each: "Check") -> tuple[str, ...]:
    ratio = each.speedup
    return (
        judged.limits.written(each.limit),
        f"{each.second}, by {each.measured}" if each.measured else each.second,
        "" if ratio is None else f"{ratio.median:.3f}x",
        "" if ratio is None else f"{100 * ratio.confidence:.4g} %: {ratio.low:.3f} to {ratio.high:.3f}",
        f"{each.least:.3f}x",
        each.state if each.passed or each.state != "undecided" else "not proved",
    )


def tell_broken(judged: "Judgement | None", hint: str, json: bool) -> None:
    """For people, on stderr: the result may have gone into a page. Programs read it in the result."""
    from edgeopt.commands.bench.limits import broken

    error = broken(judged, hint)
    if error is not None and not json:
        fail(events.Error(error.code, error.message, error.hint), json)
