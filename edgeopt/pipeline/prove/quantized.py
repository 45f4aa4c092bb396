"""Result of a quantization after its proof: the measured speed, the written file or bundle, and the summary."""

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import msgspec

from edgeopt import units
from edgeopt.backends.base import full_precision
from edgeopt.backends.intended import KEY, encoded
from edgeopt.bundle import write
from edgeopt.bundle.deployment import SUFFIX, Budget, Evidence, Run, SourceModel, Step
from edgeopt.bundle.plan import Plan as DeployPlan
from edgeopt.bundle.plan import limits_in
from edgeopt.data.judging.goals import ACCEPT
from edgeopt.graph.accuracy import agreement, decibels
from edgeopt.graph.ledger import LedgerEntry
from edgeopt.hw.device import device_for_evidence
from edgeopt.pipeline.prove.other_runtimes import prove_elsewhere
from edgeopt.quant.measured.planning.entry import Entry, quantized, share_of, step_of
from edgeopt.quant.measured.proof import (
    FLOAT,
    PHASE,
    RESULT,
    SOURCE,
    ContestResult,
    ContestSide,
    Speed,
    compared,
    with_one_float,
)
from edgeopt.quant.measured.records import PLAN, AccuracyProof, File, Quantized, QuantizeVerdict, RuntimeProof
from edgeopt.quant.measured.timing.configs import ExecutionConfig, exact
from edgeopt.quant.measured.work import QuantizeRun, passes_of, put_golden
from edgeopt.quant.records import PrecisionPlan


def write_bundle(work: QuantizeRun, entry: Entry, found: Quantized, measured: ContestResult) -> tuple[File, ...]:
    """Puts the bundle in its place, whole or not at all."""
    from edgeopt.graph.model import load, save

    out = work.request.out
    assert out is not None  # noqa: S101 - else nothing is written
    out = out.absolute()
    with write.draft(out) as folder:
        model = folder / write.MODEL_FOLDER / f"{work.request.model.stem}.onnx"
        model.parent.mkdir()
        save(load(entry.path).ir, model)
        put_golden(folder, work.study, partial(work.judge.outputs, entry.path, entry.config))
        plan = _plan(work, entry, model.relative_to(folder))
        deployment = plan.deployment(work.device, found.summary, _evidence(work, found, measured))
        ledger = (LedgerEntry("quantize", applied=found.changes),)
        kept = msgspec.structs.replace(
            found,
            taken=dict(measured.taken),
            memory=dict(measured.memory),
            device=device_for_evidence(work.device),
        )
        documents: dict[str, object] = {"evidence.json": kept, "ledger.json": ledger}
        write.put_text(folder, work.request.model)
        write.fill(folder, {}, deployment, documents, plan.record)
        held = sum(file.stat().st_size for file in model.parent.rglob("*") if file.is_file())
        write.publish(folder, out, single_file=work.request.single_file)
    return (File(str(out), held),)


def _plan(work: QuantizeRun, entry: Entry, model: Path) -> DeployPlan:
    source, goal = work.request.model, work.request.shown_goal
    steps, record = _steps(work, entry)
    return DeployPlan(
        source=SourceModel(source.name, work.source_digest, work.source_bytes),
        target=work.profile.name,
        run=Run(entry.config.backend, str(model), dict(entry.config.options)),
        inputs=work.runs.ports[0],
        outputs=work.runs.ports[1],
        steps=steps,
        limits=limits_in(work.request.model),
        budget=Budget("" if goal is None else str(goal), time_limit_s=round(work.limit_s, 1)),
        record=record,
    )


def _steps(work: QuantizeRun, entry: Entry) -> tuple[list[Step], bytes]:
    """Returns the steps from which a replay makes the same model, and the calibration results that they take."""
    from edgeopt.quant.schemes import SchemeContext
    from edgeopt.quant.write import Trace, encoded

    shapes = work.request.shapes
    cleaning: dict[str, str | int | float | bool | list[str]] = {"passes": list(passes_of(work.request))}
    if shapes:
        cleaning["shapes"] = [f"{name}={'x'.join(map(str, shape))}" for name, shape in shapes.items()]
    # The record of a float model has the factors that evened out its channels.
    trace = entry.trace or Trace(SchemeContext(entry.config.backend, work.study.known.settings))
    quantized, recorded = step_of(work.study, "quantized", entry.choices, trace)
    return [Step("cleaned", cleaning), quantized], encoded(recorded)


def _timed_against(measured: ContestResult) -> tuple[str, Speed] | None:
    """Returns the speed against the source in plain ONNX Runtime, or against the float model if that failed."""
    return next(((name, measured.speeds[name]) for name in (SOURCE, FLOAT) if name in measured.speeds), None)


def _evidence(work: QuantizeRun, found: Quantized, measured: ContestResult) -> Evidence:
    """Returns the interleaved times and the proof on samples as evidence."""
    against, proof = _timed_against(measured), found.proof
    assert against is not None  # noqa: S101 - nothing is delivered otherwise
    assert proof is not None  # noqa: S101 - likewise
    name, speed = against
    baseline = f"source · {work.runs.judge}" if name == SOURCE else f"float · {found.float_on}"
    return speed.evidence(baseline, proof.snr_db, work.request.goal.target_db or 0.0, proof.samples)


# Eight legs of several sides; a contest ends earlier where the answer is clear.
_MIN_S, _MAX_S = 12.0, 25.0


@dataclass(frozen=True, slots=True)
class _Timed:
    """Result of the contest of the quantized model with float models."""

    measured: ContestResult = field(default_factory=ContestResult)
    float_on: str = ""
    """Configuration of the float model that is hardest to beat."""
    float_side: str = ""
    """Configuration of that float model as `edgeopt bench` reads it."""
    rival: Speed | None = None
    """Speed against that float model; None if it was not measured."""


def may_be_delivered(work: QuantizeRun, entry: Entry) -> bool:
    """Whether the entry's outputs are good enough: those of the float model are, all others are proved."""
    return entry.is_source or work.judge.met(entry.proof)


def finish(work: QuantizeRun, entry: Entry, why: str = "") -> Quantized:
    """Measures the entry against float models, and writes it unless it fails a condition.

    `why`: the reason why the model stays float, if it is known already.
    """
    worth_it = may_be_delivered(work, entry) and (not entry.is_source or _differs(entry))
    timed = _timed(work, entry) if worth_it else _Timed()
    kept = why or _why_float(work, entry, timed)
    outcome: QuantizeVerdict = "keep float" if kept else "written"
    if work.request.out is None:
        outcome = "reported"
    if timed.rival is not None and not _is_faster(timed.rival) and work.request.method != PLAN:
        work.warn(_not_faster(timed.rival, timed.float_on))
    if entry.proof is not None and outcome == "written":
        found = entry.proof.weak or entry.proof.tail
        if found is not None and found.warning:
            work.warn(found.warning)
    source = timed.measured.speeds.get(SOURCE)
    answer = Quantized(
        outcome=outcome,
        summary=kept or _summary(work, entry, timed),
        model=str(work.request.model),
        method=work.request.method,
        backend=entry.config.backend,
        options=dict(entry.config.options),
        goal=work.request.shown_goal,
        plan=_with_speed(entry.plan, timed.rival),
        proof=entry.proof,
        speedup=None if timed.rival is None else timed.rival.speedup,
        source_speedup=None if source is None else source.speedup,
        float_ms=_float_ms(entry, timed),
        float_on=timed.float_on,
        float_side=timed.float_side,
        use=work.sample_sets.use,
        quantized_share=share_of(work.study.layers, entry.choices),
        source_bytes=work.source_bytes,
        changes=(*work.study.known.changes, *entry.changes),
        findings=work.study.known.findings,
    )
    if outcome != "written":
        return answer
    assert work.request.out is not None  # noqa: S101 - else the outcome is reported
    if work.request.out.suffix != SUFFIX:
        answer = msgspec.structs.replace(answer, elsewhere=prove_elsewhere(work, entry))
        for each in answer.elsewhere:
            if not each.meets_goal and not work.request.goal.is_open:
                work.warn(f"Not proved in {each.where}: it {_why_unproven(work, each)}")
    return msgspec.structs.replace(answer, files=_written(work, entry, answer, timed.measured))


def _why_unproven(work: QuantizeRun, found: RuntimeProof) -> str:
    return _below(work, found.proof) if found.proof is not None else f"does not run. {found.reason}"


def _why_float(work: QuantizeRun, entry: Entry, timed: _Timed) -> str:
    """Returns the reason against delivering the result, as a sentence; empty if it is delivered.

    One rule for all methods: it meets the goal by its own proof, a plan is proved to be faster than any float
    model here, and a bundle has evidence. A scheme that was requested by name may be slower: it may be for memory.
    """
    goal, planned = work.request.goal, work.request.method == PLAN
    if entry.is_source:
        source = timed.measured.speeds.get(SOURCE)
        quicker = (
            f", {source.speedup.median:.2f} times as fast as the source"
            if source is not None and source.speedup.usable
            else ""
        )
        where = entry.config.name
        if entry.plan is not None and quantized(entry.plan.chosen.choices) and work.judge.met(entry.proof):
            return (
                f"Keep float: plans meet the goal ({goal}), but in interleaved runs, float on {where} was faster"
                f"{quicker}. The times of the frontier are estimates."
            )
        return f"Keep float: no plan that meets the goal ({goal}) is faster than float on {where}{quicker}."
    if not work.judge.met(entry.proof):
        what = "the best plan" if planned else work.request.method
        return f"Keep float: {what} {_below(work, entry.proof)} {_next_step(work, entry.proof)}"
    if planned and timed.rival is None:
        return "Keep float: the speed of the best plan could not be measured."
    if planned and timed.rival is not None and not _is_faster(timed.rival):
        return f"Keep float: the best plan has no gain. {_not_faster(timed.rival, timed.float_on)}"
    out = work.request.out
    if out is not None and out.suffix == SUFFIX and _timed_against(timed.measured) is None:
        return (
            "Keep float: a bundle needs a measured speed, which is not available here. Write a plain "
            "model with -o FILE.onnx."
        )
    return ""


def _below(work: QuantizeRun, proof: AccuracyProof | None) -> str:
    """Describes the accuracy reached and the goal; with NO_FLOOR, only outputs that are not numbers miss it."""
    goal = work.request.shown_goal
    if proof is None:
        return f"was not proved, and the goal is {goal}."
    where = "" if proof.weakest is None else f" ({proof.weakest.where})"
    if proof.judged is not None and goal is not None and goal.evidence(proof.judged) == "not shown":
        return f"is not shown to meet the goal: {goal.describe_unproven(proof.judged)}."
    if goal is None and work.judge.met(proof):
        return f"reaches {_reached(work, proof)}{where}; no floor was set."
    expected = "its outputs cannot be compared with the source's" if goal is None else f"the goal is {goal}"
    return f"reaches {_reached(work, proof)}{where}, and {expected}."


def _next_step(work: QuantizeRun, proof: AccuracyProof | None) -> str:
    if proof is not None and proof.judged is not None and work.request.goal.evidence(proof.judged) == "not shown":
        return f"Give more samples or a larger limit, or accept it with {ACCEPT}."
    if work.request.method == PLAN:
        return "Set a lower --floor, or leave out the options of the backend."
    if work.request.goal.is_open:
        return "Try another --method, or keep some layers in float with --keep-float."
    return (
        "Try --method plan, which keeps the worst layers in float, another --calibration or a lower "
        "--floor; --no-floor writes it anyway."
    )


def _reached(work: QuantizeRun, proof: AccuracyProof) -> str:
    """Formats the accuracy on the samples that proved, with the lower bound for others if that is what decided."""
    goal, met = work.request.goal, work.judge.met(proof)
    low = "" if met or proof.judged is not None else f" (lower bound for others {decibels(proof.low_db)})"
    text = f"{agreement(proof.snr_db)}{low} on {proof.samples} samples{goal.tail_words(proof.tail)}"
    if proof.weakest is not None:
        text += f", the weakest of {proof.weakest.levels} levels"
    if proof.judged is not None:
        text = f"{goal.describe(proof.judged)}, {text}"
    return text


def _with_speed(plan: PrecisionPlan | None, rival: Speed | None) -> PrecisionPlan | None:
    if plan is None or rival is None:
        return plan
    chosen = msgspec.structs.replace(plan.chosen, speedup=rival.speedup.median)
    frontier = tuple(chosen if point == plan.chosen else point for point in plan.frontier)
    return msgspec.structs.replace(plan, chosen=chosen, frontier=frontier)


def _differs(entry: Entry) -> bool:
    """Whether the float model in this configuration is anything but the source in plain ONNX Runtime."""
    return entry.config.backend != "onnxruntime-cpu" or bool(entry.config.options)


def _timed(work: QuantizeRun, entry: Entry) -> _Timed:
    """Times the entry, the float model on each allowed backend, and the source in plain ONNX Runtime."""
    config, judge = entry.config, work.runs.judge
    floats = {} if entry.is_source else {f"{FLOAT} on {each.name}": each for each in float_configs(work, entry)}
    runners = [
        ContestSide(RESULT, entry.path, config.backend, config.options),
        *(ContestSide(name, work.study.path, each.backend, each.options) for name, each in floats.items()),
        ContestSide(SOURCE, work.request.model, judge, {}),
    ]
    limit_s = max(_MIN_S, min(_MAX_S, work.left_s()))
    with work.study.phase(PHASE, "against float models, interleaved"):
        found = compared(runners, work.samples_path, work.folder, limit_s, work.emit)
    for name, reason in found.failures.items():
        work.warn(f"The speed of the {name} model could not be measured: {reason}")
    if found.warning:
        work.warn(found.warning)
    found, name = with_one_float(found, tuple(floats))
    where = {FLOAT: floats[name] if name else ExecutionConfig(judge), SOURCE: ExecutionConfig(judge)}
    # With options of the user's, such as a number of threads, the source in plain defaults is no alternative.
    able = (FLOAT,) if work.request.options else (FLOAT, SOURCE)
    rivals = () if entry.is_source else tuple(each for each in able if each in found.speeds)
    if not rivals:
        return _Timed(found)
    best = min(rivals, key=lambda each: found.speeds[each].order)
    on = where[best]
    return _Timed(found, on.name, on.side, found.speeds[best])


def _float_ms(entry: Entry, timed: _Timed) -> float | None:
    """Returns the time of a float run: the entry's if it is the source, otherwise the rival's."""
    if not entry.is_source:
        return None if timed.rival is None else timed.rival.other_ms
    return next((speed.first_ms for speed in timed.measured.speeds.values()), None)


def float_configs(work: QuantizeRun, entry: Entry) -> tuple[ExecutionConfig, ...]:
    """Returns the float model's full-precision configurations: those of the result, and one for the source."""
    judge, threads = work.runs.judge, work.request.options.get("threads")
    plain = ExecutionConfig(judge, {**full_precision(judge), **({} if threads is None else {"threads": threads})})
    able = [exact(entry.config), *(exact(config) for config in work.configs)]
    if all(config.backend != judge for config in able):
        able.append(plain)
    return tuple({config.name: config for config in able}.values())


def _written(work: QuantizeRun, entry: Entry, answer: Quantized, measured: ContestResult) -> tuple[File, ...]:
    """Puts the file or the bundle where the user wants it, whole or not at all."""
    from edgeopt.graph.model import load, save

    out = work.request.out
    assert out is not None  # noqa: S101 - else nothing is written
    if out.suffix != ".onnx":
        return write_bundle(work, entry, answer, measured)
    before = set(out.absolute().parent.glob(f"{out.name}*.data"))
    model = load(entry.path).ir
    unproven = {each.backend: _why_unproven(work, each) for each in answer.elsewhere if not each.meets_goal}
    proved = [each.backend for each in answer.elsewhere if each.meets_goal]
    model.metadata_props[KEY] = encoded(entry.config.backend, entry.config.options, proved, unproven)
    save(model, out)
    beside = sorted(set(out.absolute().parent.glob(f"{out.name}*.data")) - before)
    return tuple(File(str(path), path.stat().st_size) for path in (out, *beside))


def _is_faster(speed: Speed) -> bool:
    return speed.verdict == "faster"


def _not_faster(rival: Speed, where: str) -> str:
    if rival.verdict == "slower":
        return f"It is slower than float on {where}: {rival.speedup}."
    return f"It is not proved faster than float on {where}: {rival.speedup} ({rival.verdict})."


def _summary(work: QuantizeRun, entry: Entry, timed: _Timed) -> str:
    """Returns the summary of the delivered model: its quantized share, its accuracy and its speed."""
    assert entry.proof is not None  # noqa: S101 - `_why_float` refuses what was not proved
    share = f"{units.percent(share_of(work.study.layers, entry.choices), 0)} of the multiply-adds"
    precision = entry.config.options.get("precision") or "the runtime's own precision"
    what = f"All layers in {precision}" if entry.is_float else f"{share} in fewer bits"
    rival = timed.rival
    speed = (
        ""
        if rival is None or not rival.speedup.usable
        else f", {rival.speedup.median:.2f} times as fast as float on {timed.float_on}"
    )
    return f"{what} on {entry.config.name}: {_reached(work, entry.proof)}{speed}."
