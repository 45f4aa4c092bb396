"""`edgeopt bench compare`: two saved runs against each other."""

from typing import TYPE_CHECKING

import typer

from edgeopt import events, units
from edgeopt.cli.console import (
    JsonFlag,
    MarkdownFlag,
    asks,
    execute,
    fail,
    failure_as_page,
    machine_line,
    refuse_two_voices,
)
from edgeopt.commands.bench.request import CompareRequest
from edgeopt.views.blocks import Block, Table, WordsBlock, lines, section, table_of, warnings

if TYPE_CHECKING:
    from edgeopt.commands.bench.compare import RunsCompared
    from edgeopt.events import Emit
    from edgeopt.measure.report import Judgement
    from edgeopt.measure.stats import Interval


# Sentences that people still read; of a suite's hundred, only those about failures are shown.
_FEW = 8


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


def limit_blocks(judged: "Judgement | None") -> list[Block]:
    """A sentence for each; where there are many, for those that do not simply hold."""
    if judged is None:
        return []
    told = [each for each in judged.checks if len(judged.checks) <= _FEW or each.state != "held"]
    left = len(judged.checks) - len(told)
    rest = [f"{left} of {len(judged.checks)} limits hold."] if left else []
    return [section("", *lines((each.sentence for each in told), "strong"), *lines(rest))]


def limits_on_page(judged: "Judgement | None") -> list[Block]:
    """The verdict on all of them, a table of the checks, and why those that were not judged were not."""
    if judged is None:
        return []
    why = (each.sentence for each in judged.checks if each.state in {"undecided", "not judged"})
    table = table_of(
        judged.checks,
        ("limit", lambda each: judged.limits.written(each.limit)),
        ("against", lambda each: f"{each.second}, by {each.measured}" if each.measured else each.second),
        (">speed-up", lambda each: f"{each.speedup.median:.3f}x" if each.speedup and each.speedup.usable else ""),
        (">interval", lambda each: _interval(each.speedup)),
        (">least allowed", lambda each: f"{each.least:.3f}x"),
        ("verdict", lambda each: "not proved" if each.state == "undecided" and not each.passed else each.state),
    )
    return [WordsBlock(headline(judged), "strong"), table, *lines(why)]


def _interval(ratio: "Interval | None") -> str:
    if ratio is None or not ratio.usable:
        return units.NO_INTERVAL
    return f"{100 * ratio.confidence:.4g} %: {ratio.low:.3f} to {ratio.high:.3f}"


def tell_broken(judged: "Judgement | None", hint: str, json: bool) -> None:
    """Prints broken limits for people on stderr, because the result may be in a page; programs read the result."""
    from edgeopt.commands.bench.limits import broken

    error = broken(judged, hint)
    if error is not None and not json:
        fail(events.Error(error.code, error.message, error.hint), json)


@asks(CompareRequest)
def compare(request: CompareRequest, markdown: MarkdownFlag = False, json: JsonFlag = False) -> None:
    """Compare two saved runs.

    \b
    Reads files written by --save, or the lines printed by --json. Sides are matched by name; --name
    OLD=NEW matches sides whose names differ. The runs were not interleaved, so the intervals include
    the variation between runs: measure with --against where you can.

    Limits apply to the first side: to the change of its ratio to each side in both runs, or to its
    own time if it was measured alone. --max-slowdown fails if the whole interval is beyond the
    limit, --min-speedup unless the whole interval is above it. A comparison without a verdict fails.
    A --max-slowdown inside the interval passes, unless --undecided fail is given.

    \b
    Examples:
      edgeopt bench model.onnx --save monday.json
      edgeopt bench compare monday.json tuesday.json
      edgeopt bench compare main.json mine.json --max-slowdown 5% --markdown
      edgeopt bench compare main.json mine.json --name old.onnx=new.onnx --max-slowdown 5%
    """
    from edgeopt.commands.bench.limits import exit_code

    def work(_emit: "Emit") -> "RunsCompared":
        from edgeopt.commands.bench.compare import compare_runs
        from edgeopt.commands.bench.saved import read_saved

        refuse_two_voices(json, markdown)
        limits, names = request.limits, (str(request.before), str(request.after))
        with failure_as_page(f"edgeopt bench compare: {names[0]} and {names[1]}", markdown):
            runs = read_saved(request.before), read_saved(request.after)
            return compare_runs(*runs, names, limits, request.names)

    judged = execute("bench-compare", work, _markdown if markdown else show, json).judgement
    tell_broken(judged, "", json)
    if code := exit_code(judged):
        raise typer.Exit(code)


def show(found: "RunsCompared") -> list[Block]:
    """Returns the differences between the runs, the sides, and how far the figures can be trusted."""
    trust, *more = trust_lines(found)
    return [
        *warnings(found.differences),
        _table(found, "="),
        *lines(ratio_lines(found)),
        WordsBlock(trust, "strong"),
        *lines([*more, *_lonely_lines(found)]),
        *limit_blocks(found.judgement),
    ]


def _markdown(found: "RunsCompared") -> str:
    """The same as a page: the verdict first."""
    from edgeopt.views.markdown import page

    trust, *more = trust_lines(found)
    shown = [
        *limits_on_page(found.judgement),
        WordsBlock(trust, "strong"),
        _table(found, "side"),
        *lines([*ratio_lines(found), *more, *_lonely_lines(found), machine_line(found.machine, found.versions)]),
        *warnings(found.differences),
    ]
    return page(f"edgeopt bench compare: {found.before} and {found.after}", shown, level=2)


def _table(found: "RunsCompared", names: str) -> Table:
    from edgeopt.cli.bench_rows import number

    return table_of(
        found.sides,
        (names, lambda side: side.name),
        (">before ms", lambda side: number(side.before_p50_ms)),
        (">after ms", lambda side: number(side.after_p50_ms)),
        (">speed-up", lambda side: str(side.speedup)),
        ("after is", lambda side: side.verdict),
    )


def ratio_lines(found: "RunsCompared") -> list[str]:
    """Returns a line on how each pair's ratio changed between the runs."""
    said = []
    for ratio in found.ratios:
        line = (
            f"{ratio.first} against {ratio.second}, interleaved: {ratio.before:.2f}x before, "
            f"{ratio.after:.2f}x after"
        )
        change = f"changed by {ratio.change}, {ratio.verdict}" if ratio.verdict != "no verdict" else "no verdict"
        said.append(f"{line}; {change}.")
    return said


def trust_lines(found: "RunsCompared") -> list[str]:
    """Returns a sentence on how far the figures can be trusted, and further lines."""
    from edgeopt.cli.bench_rows import number

    if found.no_verdict:
        return [f"{found.no_verdict[0].upper()}{found.no_verdict[1:]}: no verdict."]
    if found.times_unjudged:
        said = f"Not interleaved: no verdict on a side's own time, because {found.times_unjudged}."
        hint = "Measure a baseline in every run (--against): its ratios can be compared."
        return [said] if found.ratios else [said, hint]
    trust = max(side.trust_above_percent for side in found.sides)
    return [
        f"Not interleaved; trust differences above {number(trust)} %.",
        "This includes the variation and the drift within each run.",
    ]


def _lonely_lines(found: "RunsCompared") -> list[str]:
    both = ((found.only_before, found.before), (found.only_after, found.after))
    return [f"Only in {run}: {', '.join(names)}." for names, run in both if names]
