"""`edgeopt quantize`: fewer bits where they buy time and cost little."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgeopt import units
from edgeopt.cli.console import JsonFlag, asks, execute, next_steps
from edgeopt.commands.quantize import QuantizeOptions, request_from
from edgeopt.errors import ConstraintError, UsageError
from edgeopt.views.blocks import (
    Block,
    Drawing,
    Listed,
    Row,
    Table,
    WordsBlock,
    columns,
    filled,
    lines,
    section,
    table_of,
    warnings,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgeopt.data.judging.goals import Goal
    from edgeopt.events import Emit
    from edgeopt.quant.measured.records import AccuracyProof, Quantized, RuntimeProof, SampleUse
    from edgeopt.quant.records import CalibrationTried, FrontierPoint, PrecisionPlan, TargetVerdict
    from edgeopt.views.blocks import Block

SHOWN_LAYERS = 12
SHOWN_FINDINGS = 6
_CHART = 76
_CHOSEN = "▶"


@asks(QuantizeOptions)
def quantize(
    request: QuantizeOptions,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE.json", help="JSON file to write all findings to.")
    ] = None,
    all_rows: Annotated[bool, typer.Option("--all", help="List all layers and findings.")] = False,
    json: JsonFlag = False,
) -> None:
    """Quantize the layers that save the most time for the least error, and prove the result.

    \b
    For each layer, edgeopt measures the error that quantization causes on your data, and the time
    that it saves on this device. From this it makes a plan (a scheme for each layer) that saves the
    most time within the accuracy floor on one backend, and proves it on samples used neither for
    calibration nor for the plan. If no result is faster than the float model, nothing is written, and
    the frontier (the table of speed against error) shows why. docs/precision.md explains the tables.

    \b
    Exit code 0: written; 3: a bad model, data, labels or metric file; 4: float is best, nothing is
    written; 5: a runtime is missing; 6: two runs of the source differ.

    \b
    Examples:
      edgeopt quantize model.onnx -o model_int8.onnx --data samples.npz
      edgeopt quantize model.onnx -o model.edgeopt --data samples.npz --floor balanced
      edgeopt quantize model.onnx -o m.onnx --data d.npz --metric top1-labels --max-drop 0.4%
      edgeopt quantize model.onnx -o m.onnx --data d.npz --method int8 --keep-float '/head/*'
      edgeopt quantize model.onnx --data samples.npz --sensitivity --all      report only
    """

    def work(emit: "Emit") -> "Quantized":
        from edgeopt.commands.bench.saved import save
        from edgeopt.measure.files import check_place
        from edgeopt.pipeline.quantize import quantize_model

        if request.out is None and not request.sensitivity and not request.check_targets.strip(" ,"):
            raise UsageError(
                "The quantized model has no output path.",
                "Add -o FILE.onnx or NAME.edgeopt, or --sensitivity to see only the layers.",
            )
        if report is not None:
            check_place(report, "The report", [request.model, request.data])
            if request.out is not None and report.resolve() == request.out.resolve():
                raise UsageError("--report and -o name the same file.", "Choose another name for --report.")
        found = quantize_model(request_from(request), emit)
        if report is not None:
            save(found, report)
        return found

    def show(found: "Quantized") -> "list[Block]":
        shown = show_quantized(found, all_rows, warned=True)
        if found.files and request.out is not None and request.model is not None:
            against = found.float_side or "onnxruntime-cpu"
            shown.append(next_steps(request.out, request.model, request.data, against, request.pre))
        return shown

    if execute("quantize", work, show, json, "nothing was written").outcome == "keep float":
        raise typer.Exit(ConstraintError.exit_code)


def about(found: "Quantized") -> list[str]:
    """Returns a line each on the backend, the proof, the size and the time taken."""
    lines = []
    if found.backend:
        chosen = [f"{name}={value}" for name, value in found.options.items() if not isinstance(value, dict)]
        where = " ".join([found.backend, *chosen])
        # A report without a file is no refusal, but float may be best there too.
        is_float = found.outcome == "keep float" or (found.outcome != "written" and not found.quantized_share)
        is_refused = is_float and found.plan is not None and _changes_model(found.plan)
        lines.append(f"{'Nearest plan, not written: in' if is_refused else 'Runs in:'} {where}.")
    if found.plan is not None:
        lines.append(_share(found.plan, found.quantized_share))
    if found.speedup is not None:
        times = f" of {units.milliseconds(found.float_ms)}" if found.float_ms else ""
        on = f" on {found.float_on}" if found.float_on else ""
        line = f"Measured: {found.speedup} over the float model{times}{on}, interleaved"
        if found.source_speedup is not None:
            line += f"; {found.source_speedup} over the source in plain ONNX Runtime"
        lines.append(f"{line}.")
    if found.proof is not None:
        lines += proved(found, found.proof)
    lines += [proved_elsewhere(found, each) for each in found.elsewhere]
    if found.use is not None:
        lines.append(_samples(found.use, proved=found.proof is not None))
    if found.files:
        size = sum(file.size_bytes for file in found.files)
        lines.append(f"Size: {units.size(found.source_bytes)} → {units.size(size)}.")
    lines.append(f"It took {found.seconds:.0f} s{_slowest(found.phases_s)}.")
    return lines


def _changes_model(plan: "PrecisionPlan") -> bool:
    """Whether the chosen point of a plan runs any layer in another precision than the source."""
    return bool(scheme_counts(plan.chosen)) or plan.options.get("precision") == "bf16"


def _share(plan: "PrecisionPlan", share: float) -> str:
    total = len(plan.verdicts)
    chosen = scheme_counts(plan.chosen)
    if not chosen:
        rounded = plan.options.get("precision")
        return f"Layers: all {total} in bf16." if rounded == "bf16" else f"Layers: all {total} stay float."
    return f"Layers: {chosen}, of {total}{f'; {units.percent(share, 0)} of the multiply-adds' if share else ''}."


def scheme_counts(point: "FrontierPoint") -> str:
    """`13 int8, 7 int8-groups`; empty where all stay float."""
    counts = Counter(scheme for scheme in point.choices.values() if scheme != "float")
    return ", ".join(f"{layers} {scheme}" for scheme, layers in counts.most_common())


def proved(found: "Quantized", proof: "AccuracyProof") -> list[str]:
    """Returns lines on the accuracy on the proof's samples, in dB and by the goal's own metric."""
    from edgeopt.graph.accuracy import decibels

    seen = "not used before" if proof.set_aside else "also used by the plan"
    low = "" if proof.snr_db >= 200 else f", lower bound for others {decibels(proof.low_db)}"
    low += "" if proof.tail is None else f", lowest sample {decibels(proof.tail.lowest_db)}"
    goal, judged = found.goal, proof.judged
    lines = [f"Accuracy: {decibels(proof.snr_db)}{low}; on {units.count(proof.samples, 'sample')} {seen}."]
    if proof.weakest is not None:
        lines.append(proof.weakest.sentence)
    if judged is not None and goal is not None and not goal.is_ratio:
        sentence = goal.describe(judged) if not judged.problem else f"{goal.title} not known: {judged.problem}"
        lines.append(f"{sentence[:1].upper()}{sentence[1:]}.")
    if goal is not None:
        lines.append(f"Goal: {goal}.")
    if proof.steps_back:
        lines.append(f"{units.count(proof.steps_back, 'more daring plan')} fell below it on these samples.")
    if len(proof.outputs) > 1:
        worst = sorted(proof.outputs, key=lambda output: output.snr_db)
        lines.append("By output: " + ", ".join(f"'{o.name}' {decibels(o.snr_db)}" for o in worst) + ".")
    return lines


def proved_elsewhere(found: "Quantized", other: "RuntimeProof") -> str:
    """Returns what the file reaches in a runtime that it was not made for."""
    from edgeopt.graph.accuracy import decibels

    if other.proof is None:
        return f"In {other.where}: it does not run. {other.reason}"
    goal, judged = found.goal, other.proof.judged
    reached = decibels(other.proof.snr_db)
    if judged is not None and goal is not None and not judged.problem:
        reached = f"{goal.describe(judged)}, {reached}"
    verdict = "" if goal is None else ", proved" if other.meets_goal else ", not proved"
    return f"In {other.where}: {reached}{verdict}."


def _samples(use: "SampleUse", proved: bool) -> str:
    if use.generated:
        return "Samples: none given; generated ones show that the model runs, but not how accurate it is (--data)."
    shared = " There were too few to set some aside." if use.shared else ""
    parts = f"{use.calibrated} to calibrate, {use.planned} to plan, {use.proved} to prove"
    return f"Samples: {use.given} given; {parts}.{shared}{'' if proved else ' Nothing was proved.'}"


def _slowest(phases: "dict[str, float]") -> str:
    if len(phases) < 2:
        return ""
    first = sorted(phases.items(), key=lambda each: -each[1])[:3]
    return ": " + ", ".join(f"{name} {seconds:.0f}" for name, seconds in first if seconds >= 0.5) if first else ""


def show_quantized(found: "Quantized", every: bool = False, warned: bool = False) -> list[Block]:
    """Returns the result as blocks: all layers and findings if `every`, no warnings if `warned` before."""
    parts: list[Block | None] = [WordsBlock(found.summary, "strong"), *lines(about(found))]
    if found.plan is not None:
        from edgeopt.data.judging.goals import NO_FLOOR

        parts += [_frontier(found.plan, found.goal or NO_FLOOR), _layers(found, found.plan, every)]
    parts += [_calibrations(found.calibrations), _targets(found.targets), _findings(found, every)]
    parts += warnings(() if warned else found.warnings)
    if found.files:
        parts.append(section("", WordsBlock(f"Written: {', '.join(file.path for file in found.files)}", "strong")))
    return [part for part in parts if part is not None]


def _frontier(plan: "PrecisionPlan", goal: "Goal") -> Block | None:
    points = plan.frontier
    if len(points) < 2:
        return None
    from edgeopt.graph.accuracy import EQUAL_DB

    full = max(point.expected_ms for point in points)
    rows = []
    for point in points:
        chosen = point.choices == plan.chosen.choices
        cells = (
            _CHOSEN if chosen else "",
            units.milliseconds(point.expected_ms),
            f"{full / point.expected_ms:.2f}x" if point.expected_ms > 0 else "",
            _accuracy(point, goal),
            "" if point.low_db is None or point.low_db >= EQUAL_DB else goal.shown_score(point.low_db),
            "" if point.speedup is None else f"{point.speedup:.2f}x",
            scheme_counts(point) or "all float",
        )
        rows.append(Row(cells, "strong" if chosen else ""))
    titles = columns("!", ">time", ">speed-up", ">accuracy", ">on others", ">measured", "layers")
    caption = "Times are the float model's less what the layers save; ~ adds up the layers' own errors."
    drawing = Drawing(lambda width, plain: chart(plan, goal, width, plain))
    return section("Frontier: gain for more error", filled(Table(titles, tuple(rows), caption)), drawing)


def _accuracy(point: "FrontierPoint", goal: "Goal") -> str:
    """The checked value in the goal's metric; otherwise the sum of the layers' errors, in dB."""
    from edgeopt.graph.accuracy import decibels

    if not point.choices:
        return decibels(point.expected_db)
    return f"~{decibels(point.expected_db)}" if point.snr_db is None else goal.shown_score(point.snr_db)


def chart(plan: "PrecisionPlan", goal: "Goal", width: int, ascii: bool = False) -> list[str]:  # noqa: A002
    """Checked decibels where there are such, else expected ones."""
    from edgeopt.measure.charts import Dot, frontier

    dots = [
        Dot(
            p.expected_ms,
            p.expected_db if p.snr_db is None or not goal.is_ratio else p.snr_db,
            p.choices == plan.chosen.choices,
        )
        for p in plan.frontier
    ]
    return frontier(dots, plan.floor_db or None, min(width, _CHART), ascii=ascii)


def _layers(found: "Quantized", plan: "PrecisionPlan", every: bool) -> Block | None:
    # Layers without a known error come last.
    ordered = sorted(plan.verdicts, key=lambda each: float("inf") if each.snr_db is None else each.snr_db)
    title = "Layers, the most costly first"
    if found.method != "plan":
        # That the others have the form that was asked for goes without saying.
        ordered, title = [each for each in ordered if each.scheme == "float"], "Layers that stay float"
    if not ordered:
        return None
    shown = ordered if every else ordered[:SHOWN_LAYERS]
    left = len(ordered) - len(shown)
    rows = tuple(
        Row((_shortened(each.layer), each.reason), "faint" if each.scheme == "float" else "") for each in shown
    )
    more = f"and {units.count(left, 'more layer')} (--all)" if left else ""
    return section(title, Table(columns("=layer", "why"), rows, more))


def _shortened(name: str) -> str:
    """The end of a name tells layers apart; exporters begin all alike."""
    return name if len(name) <= 48 else f"…{name[-47:]}"


def _calibrations(tried: "Sequence[CalibrationTried]") -> Block | None:
    from edgeopt.graph.accuracy import decibels

    if not tried:
        return None
    found = table_of(
        sorted(tried, key=lambda each: -(each.snr_db if each.snr_db is not None else float("-inf"))),
        ("=method", lambda row: row.method),
        (">accuracy", lambda row: "" if row.snr_db is None else decibels(row.snr_db)),
        (">on others", lambda row: "" if row.low_db is None else decibels(row.low_db)),
        (">cut off", lambda row: f"{row.cut_off_share:.2%}" if row.cut_off_share else ""),
        (">took", lambda row: "" if row.seconds is None else f"{row.seconds:.1f} s"),
        ("the range", lambda row: row.note),
    )
    return section("Calibration methods, the most exact first", found)


def _targets(targets: "Sequence[TargetVerdict]") -> Block | None:
    if not targets:
        return None
    found = table_of(
        targets,
        ("=target", lambda row: row.target),
        ("verdict", lambda row: row.verdict),
        ("reason and remedy", lambda row: f"{row.reason} {row.remedy}".strip()),
    )
    return section("On other targets", found)


def _findings(found: "Quantized", every: bool) -> Block | None:
    sentences = [each.sentence for each in found.findings]
    if not sentences:
        return None
    shown = sentences if every else sentences[:SHOWN_FINDINGS]
    left = len(sentences) - len(shown)
    more = WordsBlock(f"and {left} more (--all)", "faint") if left else None
    return section("Findings about data and model", Listed(tuple(shown)), more)
