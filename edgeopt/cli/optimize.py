"""`edgeopt optimize`: the main job."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgeopt import units
from edgeopt.cli.console import JsonFlag, as_commands, asks, execute, next_steps
from edgeopt.errors import UsageError
from edgeopt.options import changed
from edgeopt.search.settings import Settings
from edgeopt.views.blocks import Block, Marked, Row, Table, Words, columns, lines, section

if TYPE_CHECKING:
    from edgeopt.commands.predict.records import Ahead, Planned
    from edgeopt.events import Emit
    from edgeopt.search.outcome import Candidate, CandidateReport, Outcome

_ON_THE_FRONT = "*"


@asks(Settings)
def optimize(
    settings: Settings,
    device: Annotated[
        Path | None,
        typer.Option(
            "--device",
            metavar="RECORD",
            help="Plan for another device: a file of `probe --json`, or a folder of `probe --record`.",
        ),
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Find the fastest way to run a model on this device, prove it, and write a bundle.

    \b
    Candidates run interleaved with plain ONNX Runtime and are checked on samples that were not used
    for calibration. If no candidate is proved faster, the bundle holds your model unchanged, and the
    table says why. Ctrl-C ends the search with the best candidate so far, if a short proof confirms
    it; a second Ctrl-C ends at once.

    \b
    Examples:
      edgeopt optimize model.onnx --data data.npz -o model.edgeopt
      edgeopt optimize m.onnx --data d.npz -o m.edgeopt --metric top1-labels --max-drop 0.5%
      edgeopt optimize m.onnx --data d.npz -o m.edgeopt --objective throughput --max-latency-ms 20
      edgeopt optimize model.onnx --data data.npz -o new.edgeopt --baseline model.edgeopt
      edgeopt optimize model.onnx --data data.npz -o other.edgeopt --pick 3
    """
    if device is not None:
        optimize_ahead(settings, device, json)
        return
    from edgeopt.search.optimize import asked
    from edgeopt.search.stopping import Stop

    stop = Stop()

    def shown(outcome: "Outcome") -> list[Block]:
        return [*show(outcome), next_steps(settings.out, settings.model, settings.data)]

    execute("optimize", lambda emit: asked(settings, emit, stop), shown, json, interrupt=stop.interrupt)


def show(outcome: "Outcome") -> list[Block]:
    """The candidates, the variants that could not be made, the verdict."""
    from edgeopt.search.shapes.shape_words import shape_lines

    front = [_said_of_front(outcome)] if len(outcome.front) > 1 else []
    unmade = [f"not raced: {each.name}: {each.failure}" for each in outcome.variants if each.failure]
    said = [_proved(outcome)]
    said += [outcome.proof.measured_while] if outcome.proof.measured_while else []
    said += [outcome.proof.weakest.sentence] if outcome.proof.weakest is not None else []
    said += shape_lines(outcome)
    if outcome.cut_short:
        said.append("Run the same command to complete the search from the cache.")
    said.append(f"Bundle: {outcome.bundle}")
    verdict = section("", Words(outcome.summary, "strong"), *lines(said))
    return [_candidates(outcome), *lines(front + unmade), verdict]


def _candidates(outcome: "Outcome") -> Table:
    from edgeopt.graph.accuracy import decibels
    from edgeopt.search.outcome import in_order

    rows = []
    for number, report in enumerate(in_order(outcome), start=1):
        chosen = report.candidate == outcome.winner
        mark = _ON_THE_FRONT if report.candidate.name in outcome.front else " "
        cells = (
            Marked(f"{number}{mark}", "faint"),
            _named(report),
            _speed(report),
            decibels(report.accuracy_db) if report.accuracy_db is not None else "",
            units.size(report.memory.peak_bytes) if report.memory and report.memory.peak_bytes is not None else "",
            "" if report.size_bytes is None else units.size(report.size_bytes),
            _verdict(report, outcome),
        )
        rows.append(Row(cells, "strong" if chosen else ""))
    titles = columns(">#", "candidate", ">speed", ">accuracy", ">memory", ">size", "verdict")
    return Table(titles, tuple(rows))


def _proved(outcome: "Outcome") -> str:
    from edgeopt.graph.accuracy import EQUAL_DB, agreement, decibels
    from edgeopt.measure.stats import IDENTICAL

    proof = outcome.proof
    said = "Measured" if outcome.verdict in {"keep what you have", "undecided"} else "Proved"
    if outcome.from_cache:
        said = f"From the cache, {said.lower()} at {outcome.from_cache}"
    how = (
        f" over {units.count(proof.legs, 'start')} of fresh processes, {proof.speedup.rounds} interleaved rounds: "
        f"{proof.speedup} ({proof.speedup.confidence:.1%} interval)"
    )
    if proof.verdict == IDENTICAL:
        how = f", which runs your model unchanged: {proof.latency_ms:.3g} ms a run"
    tail = proof.tail if proof.accuracy_db < EQUAL_DB else None
    lowest = f", lowest {decibels(tail.lowest_db)}" if tail is not None else ""
    return (
        f"{said} from the written bundle{how}, "
        f"{agreement(proof.accuracy_db)} on {proof.samples} "
        f"samples{(' set aside' if proof.set_aside else '')}{lowest}; "
        f"{outcome.goal or f'floor {outcome.floor_db:g} dB'}; target {outcome.target}; "
        f"{outcome.seconds:.0f} s."
    )


def _said_of_front(outcome: "Outcome") -> str:
    from edgeopt.search.outcome import in_order

    numbers = [str(n) for n, each in enumerate(in_order(outcome), 1) if each.candidate.name in outcome.front]
    told = f"{_ON_THE_FRONT} Pareto front: no other is as fast, as accurate and as small"
    another = "; deliver another with --pick N" if outcome.is_cached else ""
    return f"{told}: {', '.join(numbers)}{another}."


def _parts(candidate: "Candidate") -> tuple[str, ...]:
    """What a candidate is, in few words; the fixed shapes are the data's own and not repeated."""
    short = {"dynamic_quantization_group_size": "group"}
    options = " ".join(f"{short.get(k, k)}={v}" for k, v in candidate.options.items() if not isinstance(v, dict))
    calls = candidate.calls
    called = str(calls) if calls != type(calls)() else ""
    return candidate.variant, candidate.backend, options, called, *candidate.sizes


def _speed(report: "CandidateReport") -> str:
    """With an interval where it was proved; races only rank."""
    if report.speedup is None:
        return ""
    return str(report.speedup) if report.proved else f"{report.speedup.median:.2f}x"


def _won(winner: "CandidateReport", outcome: "Outcome") -> str:
    """With the reason why it won over one that looked faster in the race."""
    own = winner.speedup.median if winner.speedup else 0.0
    rivals = [(e.speedup.median, e) for e in outcome.candidates if e.status == "lost" and e.speedup]
    rivals = [pair for pair in rivals if pair[0] > own]
    if not rivals or outcome.verdict == "picked":
        return outcome.verdict if outcome.verdict == "picked" else "winner"
    best = max(rivals, key=lambda pair: pair[0])[1]
    return f"winner; {_named(best)} looked faster in the race: {best.reason}"


def _named(report: "CandidateReport") -> str:
    return " · ".join(part for part in _parts(report.candidate) if part)


def _verdict(report: "CandidateReport", outcome: "Outcome") -> str:
    kept = outcome.winner == outcome.baseline
    if report.candidate == outcome.winner:
        return "the baseline, kept" if kept else _won(report, outcome)
    if report.candidate == outcome.baseline:
        return "the baseline"
    if report.status == "below the floor":
        low = f", perhaps {report.accuracy_low_db:.1f} dB on others" if report.accuracy_low_db is not None else ""
        return f"below the floor{low}"
    if report.status == "failed":
        return report.reason[:160]
    return units.behind(report.of_best) if report.of_best is not None else report.reason


# What a plan can hold to; all else is of use only where something is measured.
_PLANNED = frozenset({"model", "out", "data", "floor", "target", "profile", "single_file"})


def optimize_ahead(settings: Settings, device: Path, json: bool) -> None:
    def work(emit: "Emit") -> "Ahead":
        unfit = [each.flag for each in changed(settings) if each.name not in _PLANNED]
        if unfit:
            raise UsageError(
                f"{' and '.join(unfit)} cannot be used with --device: a plan for another device measures "
                "nothing and supports only --floor.",
                "Leave it out here, and use it when you finish the search on the device.",
            )
        from edgeopt.commands.predict.plan import optimize_for

        return optimize_for(settings, device, emit)

    execute("optimize-device", work, show_plan, json)


def show_plan(plan: "Ahead") -> list[Block]:
    """The predicted candidates, the verdict, its basis, and how to finish."""
    from edgeopt.graph.accuracy import agreement, decibels

    rows = (
        Row(
            (
                _named_plan(row),
                f"{row.latency.predicted_ms:.3g} ms" if row.latency else "",
                decibels(row.accuracy_db) if row.accuracy_db is not None else "",
                _why(row),
            ),
            "strong" if row.status == "chosen" else "",
        )
        for row in plan.candidates
    )
    real = (
        f"Measured accuracy: {agreement(plan.accuracy_db)} on {plan.samples} "
        f"samples{(' set aside' if plan.set_aside else '')}, run here on {plan.judged_with}; floor "
        f"{plan.floor_db:g} dB; target {plan.target}; {plan.seconds:.0f} s."
    )
    said = lines([plan.basis, real, f"Bundle: {plan.bundle}"])
    return [
        Table(columns("candidate", ">predicted", ">accuracy", "why"), tuple(rows)),
        section("", Words(plan.summary, "strong"), *said, *map(as_commands, plan.finish)),
    ]


def _named_plan(row: "Planned") -> str:
    candidate = row.candidate
    if row.status == "not planned":
        return candidate.variant
    options = [f"{k}={v}" for k, v in candidate.options.items() if not isinstance(v, dict)]
    return " · ".join([candidate.variant, candidate.backend, *([" ".join(options)] if options else [])])


def _why(row: "Planned") -> str:
    said = {"chosen": "chosen: ", "baseline": "the baseline: ", "below the floor": "below the floor: "}
    return f"{said.get(row.status, '')}{row.reason}"
