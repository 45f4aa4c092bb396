"""`edgeopt report`: gathers what is known of a bundle from its files, models and this device; writes it."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from edgeopt.backends.base import Array
from edgeopt.bundle.read import Bundle, read_bundle
from edgeopt.commands.analyze.analyze import analyze
from edgeopt.commands.predict.records import PredictedOutcome
from edgeopt.commands.report.evidence import Found, evidence_in, ledger_in, with_candidates
from edgeopt.commands.report.facts import (
    AccuracyFacts,
    Bound,
    Made,
    OperatorCount,
    ReportFacts,
    Reports,
    SearchWork,
    SpeedFacts,
    SpeedSide,
)
from edgeopt.commands.report.request import Format, ReportRequest, format_of
from edgeopt.commands.report.sections import sections_of
from edgeopt.commands.report.sections.verdict import good_enough
from edgeopt.data.judging.goals import NO_FLOOR
from edgeopt.errors import BundleError, EdgeoptError, ModelError, UsageError
from edgeopt.events import Emit, Progress, ignore
from edgeopt.graph.accuracy import compare_outputs
from edgeopt.graph.analysis import Analysis, OpTimes
from edgeopt.hw.device import Device, fingerprint
from edgeopt.hw.probe import probe
from edgeopt.lab.records import BUNDLES, results_file
from edgeopt.measure.files import check_place, writing
from edgeopt.measure.messages import Calls
from edgeopt.measure.stats import IDENTICAL, Interval
from edgeopt.pipeline.objectives import THROUGHPUT, objective_named
from edgeopt.pipeline.outcome import Outcome, Proof, rival
from edgeopt.pipeline.shapes.shape_words import cost_line
from edgeopt.quant.measured.proof import RESULT, SOURCE
from edgeopt.quant.measured.records import Quantized
from edgeopt.version import __version__
from edgeopt.views import html, markdown
from edgeopt.views.blocks import Mood, WordsBlock
from edgeopt.views.words import moment

_MOODS: dict[str, Mood] = {"faster": "good", "slower": "bad"}


def report(request: ReportRequest, emit: Emit = ignore) -> Reports:
    """Writes a report; the bundle is only read."""
    chosen, out = format_of(request), request.out
    check_place(out, "The report", [request.bundle, request.model])
    if results_file(request.bundle) != request.bundle and results_file(request.bundle).is_file():
        raise UsageError(
            f"'{request.bundle}' is not a bundle, but results of a lab.",
            f"Open {request.bundle / 'report.html'}, or report on a bundle below {request.bundle / BUNDLES}.",
        )
    facts = gather(request.bundle, source=request.model, nodes=request.nodes, emit=emit)
    emit(Progress("writing the report", out.name))
    content = written(facts, chosen).encode()
    with writing(out) as file:
        file.write(content)
    return Reports(str(out), chosen, len(content), facts.verdict, facts.summary, facts.unknown)


def written(facts: ReportFacts, to: Format) -> str:
    if to == "json":
        return msgspec.json.format(msgspec.json.encode(facts), indent=1).decode() + "\n"
    name, run = facts.deployment.name, facts.deployment.run
    verdict, *rest = sections_of(facts)
    title = f"{name}: {verdict.title}"
    last = f"Made by edgeopt {facts.reported_by} on {moment(facts.reported_at)}."
    if to == "markdown":
        return markdown.page(title, [*verdict.blocks, *rest, WordsBlock(last)])
    mood: Mood = _MOODS.get(facts.verdict, "") if good_enough(facts.accuracy) else "bad"
    heading = f"{name} on {run.backend}, for {facts.deployment.target}"
    return html.page(html.Page(title, heading, verdict, mood, tuple(rest), last))


def gather(
    path: Path, *, source: Path | None = None, nodes: bool | None = None, emit: Emit = ignore
) -> ReportFacts:
    """Raises BundleError for a bundle that is not sound, and ModelError for a source that is not its own.

    `nodes`: measure the time of each node here; None: only where this is a device like the one it was proved on.
    """
    emit(Progress("reading the bundle", path.name))
    bundle = read_bundle(path)
    deployment, here = bundle.deployment, probe()
    found, ledger = evidence_in(bundle.folder), ledger_in(bundle.folder)
    unknown: dict[str, str] = {}
    if isinstance(found, str):
        unknown["candidates"] = found
    if isinstance(ledger, str):
        unknown["ledger"] = ledger
    same = fingerprint(here)
    changed = tuple(part for part, digest in deployment.device.items() if same.get(part) != digest)
    facts = ReportFacts(
        bundle=str(path),
        deployment=deployment,
        made_by=_made_by(found),
        verdict=_verdict(bundle, found),
        summary=deployment.summary,
        reported_at=datetime.now(UTC).isoformat(timespec="seconds"),
        reported_by=__version__,
        model_bytes=_bytes_in(bundle.model.parent),
        bundle_bytes=_bytes_in(bundle.folder),
        speed=_speed(bundle, found),
        accuracy=_accuracy(bundle, found, unknown),
        ledger=() if isinstance(ledger, str) else ledger,
        changed_here=changed,
        source_path=str(source) if source else "",
        warnings=_warnings(found),
        seconds=None if isinstance(found, str) else found.seconds or None,
        imported=found.imported if isinstance(found, Outcome) else None,
        original=found.original if isinstance(found, Outcome) else None,
        preset=str(found.preset) if isinstance(found, Outcome) and found.preset and found.preset.is_shown else "",
        unknown=unknown,
    )
    facts = with_candidates(facts, found)
    facts = _with_device(facts, found, here)
    return _with_models(facts, bundle, found, source, nodes, here, emit)


def _made_by(found: Found | str) -> Made:
    match found:
        case Outcome():
            return "a search"
        case Quantized():
            return "a plan of precision"
        case PredictedOutcome():
            return "a plan for another device"
        case _:
            return "unknown"


def _verdict(bundle: Bundle, found: Found | str) -> str:
    if isinstance(found, Outcome | PredictedOutcome):
        return found.verdict
    evidence = bundle.deployment.evidence
    return evidence.verdict if evidence else "not measured"


def _warnings(found: Found | str) -> tuple[str, ...]:
    if isinstance(found, str):
        return ()
    plan = found.plan.warnings if isinstance(found, Quantized) and found.plan else ()
    return tuple(dict.fromkeys((*found.warnings, *plan)))


def _bytes_in(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def _processes(proof: Proof) -> str:
    if proof.verdict == IDENTICAL:
        return ""
    several = proof.legs > 1
    how = f"in {proof.legs} fresh processes of each side, one after the other" if several else "in fresh processes"
    return f", {how}, both sides interleaved"


def _speed(bundle: Bundle, found: Found | str) -> SpeedFacts | None:
    deployment = bundle.deployment
    if isinstance(found, Outcome):
        proof = found.proof
        return SpeedFacts(
            SpeedSide(rival(found).name, proof.baseline_ms, proof.baseline_taken, proof.baseline_memory),
            SpeedSide(found.winner.name, proof.latency_ms, proof.taken, proof.memory),
            proof.speedup,
            proof.verdict,
            proof.measured_while,
            f"From the written bundle{_processes(proof)}. {_load_of(bundle)}".rstrip(),
            proof.by_size,
            cost_line(found),
        )
    evidence = deployment.evidence
    if evidence is None:
        return None
    # `deployment.toml` does not state the confidence of its interval.
    ratio = Interval(evidence.speedup, evidence.speedup_low, evidence.speedup_high, evidence.rounds, 0.0)
    baseline, result = (
        SpeedSide(evidence.baseline, evidence.baseline_ms),
        SpeedSide(deployment.run.backend, evidence.latency_ms),
    )
    if isinstance(found, Quantized):
        ratio = found.source_speedup or ratio
        baseline, result = _as_taken(baseline, found, SOURCE), _as_taken(result, found, RESULT)
    return SpeedFacts(
        baseline,
        result,
        ratio,
        evidence.verdict,
        evidence.measured_while,
        "Both sides interleaved, in separate processes.",
    )


def _load_of(bundle: Bundle) -> str:
    """Describes the speed-up and the calls of both sides if throughput was the target; empty otherwise."""
    load = bundle.deployment.evidence.load if bundle.deployment.evidence else None
    if load is None:
        return ""
    shown = objective_named(THROUGHPUT).shown
    result, baseline = Calls(load.callers, load.batch), Calls(load.baseline_callers, load.baseline_batch)
    return (
        f"The speed-up is that of the throughput: {shown(load.samples_per_s)} with {result}, instead of "
        f"{shown(load.baseline_samples_per_s)} with {baseline}. Rounds count the time by sample; times of a run "
        "are those under this load."
    )


def _as_taken(side: SpeedSide, found: Quantized, name: str) -> SpeedSide:
    return msgspec.structs.replace(side, taken=found.taken.get(name), memory=found.memory.get(name))


def _accuracy(bundle: Bundle, found: Found | str, unknown: dict[str, str]) -> AccuracyFacts | None:
    evidence = bundle.deployment.evidence
    known = AccuracyFacts(None, None)
    if evidence is not None:
        budget = bundle.deployment.budget
        asked = budget.goal if budget is not None and not evidence.floor_db else ""
        known = AccuracyFacts(evidence.accuracy_db, evidence.floor_db or None, asked, evidence.samples)
    if isinstance(found, Outcome):
        proof = found.proof
        known = AccuracyFacts(
            proof.accuracy_db, found.floor_db or None, found.goal, proof.samples, proof.set_aside,
            lowest_db=None if proof.tail is None else proof.tail.lowest_db,
            outputs=proof.outputs, outputs_on="the samples of the proof", weakest=proof.weakest,
            generated=proof.generated,
        )  # fmt: skip
    if isinstance(found, PredictedOutcome):
        # It is real: by runs elsewhere, which round alike.
        known = AccuracyFacts(found.accuracy_db, found.floor_db, "", found.samples, found.set_aside)
    if isinstance(found, Quantized) and found.proof is not None:
        proved, goal = found.proof, found.goal or NO_FLOOR
        known = AccuracyFacts(
            proved.snr_db, goal.target_db, "" if goal.is_open else str(goal), proved.samples, proved.set_aside,
            proved.low_db, None if proved.tail is None else proved.tail.lowest_db,
            proved.outputs, "the samples of the proof", proved.weakest,
            generated=found.use is not None and found.use.generated,
        )  # fmt: skip
    if not known.outputs:
        known = _with_golden(known, bundle, unknown)
    return known if known.snr_db is not None or known.outputs else None


def _with_golden(known: AccuracyFacts, bundle: Bundle, unknown: dict[str, str]) -> AccuracyFacts:
    """Adds the accuracy of each output, which only the golden samples show, though they are few."""
    try:
        reference, outputs = bundle.golden("reference"), bundle.golden("outputs")
    except BundleError as error:
        unknown["accuracy of each output"] = error.message
        return known
    if not reference:
        unknown["accuracy of each output"] = "The bundle holds no golden samples."
        return known
    found = compare_outputs(reference, outputs)
    several = f"the {len(reference)} golden samples" if len(reference) > 1 else "the one golden sample"
    return msgspec.structs.replace(
        known,
        outputs=tuple(each.without_samples() for each in found.outputs),
        outputs_on=f"{several} of the bundle",
    )


def _with_device(facts: ReportFacts, found: Found | str, here: Device) -> ReportFacts:
    if isinstance(found, Outcome | Quantized) and found.device is not None:
        return msgspec.structs.replace(facts, device=found.device, device_is="As it was when the bundle was made.")
    if facts.deployment.device and not facts.changed_here:
        return msgspec.structs.replace(
            facts,
            device=msgspec.structs.replace(here, sources={}, unavailable={}, identity=None, state=None),
            device_is="The bundle holds only digests of its device; they fit the device that made this report, "
            "whose facts these are.",
        )
    if facts.deployment.machine:
        return facts
    reason = "The bundle holds only digests of its device, and the device that made this report is another one."
    return msgspec.structs.replace(facts, unknown={**facts.unknown, "device": reason})


def _with_models(
    facts: ReportFacts,
    bundle: Bundle,
    found: Found | str,
    source: Path | None,
    nodes: bool | None,
    here: Device,
    emit: Emit,
) -> ReportFacts:
    emit(Progress("reading the model", bundle.model.name))
    unknown = dict(facts.unknown)
    try:
        feeds = next(iter(bundle.golden("inputs")), None)
    except BundleError:
        feeds = None
    after = _analysis_of(bundle.model, feeds, here)
    before = _source_analysis(source, facts.deployment.source.sha256, feeds, here) if source else None
    counted = _operators_in(before) if before else None
    if counted is None and isinstance(found, Outcome) and found.operators:
        counted = found.operators
    if counted is None:
        unknown["operators before"] = "Unknown; pass the source model with --model."
    if isinstance(after, str):
        unknown["operators after"] = unknown["time by node"] = after
        return msgspec.structs.replace(facts, operators=_counts_of(counted, None), unknown=unknown)
    times = _node_times(facts, bundle, after, feeds, nodes, here, emit)
    if isinstance(times, str):
        unknown["time by node"] = times
    threads = facts.deployment.run.options.get("threads")
    return msgspec.structs.replace(
        facts,
        operators=_counts_of(counted, _operators_in(after)),
        work_before=_work_of(before) if before else None,
        work_after=_work_of(after),
        nodes=None if isinstance(times, str) else times,
        bounds=() if isinstance(times, str) else _bounds_of(here, threads if isinstance(threads, int) else None),
        unknown=unknown,
    )


def _analysis_of(path: Path, feeds: Mapping[str, Array] | None, device: Device) -> Analysis | str:
    """Analyzes the model alone, without asking a runtime, or returns why it cannot be read."""
    shapes = {name: tuple(array.shape) for name, array in feeds.items()} if feeds else {}
    try:
        try:
            return analyze(path, shapes=shapes, device=device, coverage=False, opportunities=False, run=False)
        except EdgeoptError:
            # The samples may leave out a batch axis of 1 that the model has.
            return analyze(path, device=device, coverage=False, opportunities=False, run=False)
    except EdgeoptError as error:
        return f"The model could not be read: {error.message}"


def _source_analysis(path: Path, digest: str, feeds: Mapping[str, Array] | None, device: Device) -> Analysis:
    """Analyzes the source model that the user named; raises ModelError if it is another model."""
    from edgeopt.graph.files.sniff import check_file

    check_file(path)
    found = _analysis_of(path, feeds, device)
    if isinstance(found, str):
        raise ModelError(found, "Give the model that the bundle was made from.")
    if found.digest != digest:
        raise ModelError(
            f"'{path.name}' is not the model that the bundle was made from: its digest begins with "
            f"{found.digest[:12]}, and that of the source with {digest[:12]}.",
            "Give the model that the bundle was made from, or leave --model out.",
        )
    return found


def _work_of(found: Analysis) -> SearchWork:
    work = found.work
    return SearchWork(
        found.nodes_count,
        found.parameters,
        found.size_bytes,
        work.macs if work and not work.unknown else None,
        work.moved_bytes if work and not work.unknown else None,
    )


def _counts_of(before: Mapping[str, int] | None, after: Mapping[str, int] | None) -> tuple[OperatorCount, ...]:
    """Returns the counts of the operators in either model, the most frequent first."""
    names = [*(before or {}), *(name for name in after or {} if name not in (before or {}))]
    rows = [
        OperatorCount(
            name,
            None if before is None else before.get(name, 0),
            None if after is None else after.get(name, 0),
        )
        for name in names
    ]
    return tuple(sorted(rows, key=lambda row: (-max(row.before or 0, row.after or 0), row.operator)))


def _operators_in(found: Analysis) -> dict[str, int]:
    counted: dict[str, int] = {}
    for row in found.operators:
        name = f"{row.domain}.{row.operator}" if row.domain else row.operator
        counted[name] = counted.get(name, 0) + row.count
    return counted


def _node_times(
    facts: ReportFacts,
    bundle: Bundle,
    found: Analysis,
    feeds: dict[str, Array] | None,
    nodes: bool | None,
    device: Device,
    emit: Emit,
) -> OpTimes | str:
    """Measures where the time of a run goes on this device with the bundle's options, or returns why not."""
    from edgeopt.measure.op_times import Timing, profile_ops

    if nodes is False:
        return "Not measured (--no-nodes)."
    if nodes is None and facts.changed_here:
        return (
            f"The device that made this report is another one ({', '.join(facts.changed_here)} differ); "
            "--nodes measures here anyway."
        )
    if feeds is None:
        return "The bundle holds no golden inputs to run."
    run = bundle.deployment.run
    emit(Progress("timing the nodes", run.backend))
    threads = run.options.get("threads")
    # Those of a batch would not fit the one golden sample.
    of_one = {"shapes": {name: list(array.shape) for name, array in feeds.items()}}
    timing = Timing(
        threads=threads if isinstance(threads, int) else None,
        options={**run.options, **(of_one if "shapes" in run.options else {})},
        device=device,
        runs=60,
        limit_s=1.5,
    )
    try:
        times = profile_ops(bundle.model, found, (run.backend,), feeds, timing)[0]
    except EdgeoptError as error:
        return error.message
    return times if times.rows else f"Nothing was measured: {times.reason or 'no node ran'}"


def _bounds_of(device: Device, threads: int | None) -> tuple[Bound, ...]:
    """Returns the measured peaks for this number of threads, as upper bounds."""
    peaks, used = device.peaks, threads or device.limits.usable_cores
    if peaks is None:
        return ()
    best: dict[str, float] = {}
    for each in peaks.compute:
        if each.threads == used:
            best[each.precision] = max(best.get(each.precision, 0.0), each.operations_per_s)
    compute = [Bound(name, operations_per_s=rate) for name, rate in best.items()]
    memory = [
        Bound(each.level, bytes_per_s=rate)
        for each in peaks.memory
        if each.threads == used and (rate := each.copy_bytes_per_s or each.read_bytes_per_s) is not None
    ]
    return (*compute, *memory)
