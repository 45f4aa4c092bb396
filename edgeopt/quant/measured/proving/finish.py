"""From what was proved to an answer: the speed measured in turns, the file put in its place, and a sentence."""

from collections.abc import Sequence

import msgspec

from edgeopt.graph.accuracy import decibels
from edgeopt.measure.stats import Interval
from edgeopt.quant.measured.planning.entry import Entry, share_of
from edgeopt.quant.measured.proving.bundled import write_bundle
from edgeopt.quant.measured.proving.speed import (
    FLOAT,
    PHASE,
    RESULT,
    SOURCE,
    Measured,
    Runner,
    Speed,
    compared,
    ranked,
)
from edgeopt.quant.measured.records import PLAN, File, Outcome, Quantized
from edgeopt.quant.measured.timing.courses import exact, is_inexact
from edgeopt.quant.measured.work import Work

# A contest ends earlier where the answer is clear.
_LEAST_S, _MOST_S = 4.0, 15.0
_SAME = 1.01


def fastest(work: Work, entries: Sequence[Entry]) -> Entry:
    """The one that runs quickest, by some rounds in turns; the first where none can be measured.

    Of plans that are as good as equal, the first: they stand in the order of what their kernels promise.
    """
    if len(entries) == 1:
        return entries[0]
    runners = [
        Runner(f"{number}: {each.name}", each.path, each.course.backend, each.course.options)
        for number, each in enumerate(entries)
    ]
    with work.study.phase(PHASE, f"{len(entries)} candidates in turns"):
        times = ranked(runners, work.samples_path, work.folder)
    best_ms = min(times.values(), default=0.0)
    near = [number for number, ms in times.items() if ms <= _SAME * best_ms]
    return entries[min(near, default=0)]


def finish(work: Work, entry: Entry, refuse: bool = False, why: str = "") -> Quantized:
    """Measures the entry against the float model, and writes it; `refuse`: it does not meet the goal."""
    plain = entry.is_float and not is_inexact(entry.course)
    worth_it = not refuse and (not plain or _differs(entry))
    found = _measured(work, entry, plain) if worth_it else Measured()
    mine, source = found.speeds.get(FLOAT), found.speeds.get(SOURCE)
    planned = work.request.method == PLAN
    gains = mine is not None and mine.verdict == "faster"
    keep = plain or refuse or (planned and not gains)
    outcome: Outcome = "keep float" if keep else "written"
    if work.request.out is None:
        outcome = "reported"
    if mine is not None and not gains and not planned:
        work.warn(_not_faster(mine, entry.course.name))
    if entry.proof is not None and entry.proof.weak is not None and outcome == "written":
        work.warn(entry.proof.weak.warning)
    plan = entry.plan
    if plan is not None and mine is not None:
        chosen = msgspec.structs.replace(plan.chosen, speedup=mine.speedup.median)
        frontier = tuple(chosen if point == plan.chosen else point for point in plan.frontier)
        plan = msgspec.structs.replace(plan, chosen=chosen, frontier=frontier)
    answer = Quantized(
        outcome=outcome,
        summary=why or _summary(work, entry, mine, source, keep, refuse),
        model=str(work.request.model),
        method=work.request.method,
        backend=entry.course.backend,
        options=dict(entry.course.options),
        goal=work.request.goal,
        plan=plan,
        proof=entry.proof,
        speedup=None if mine is None else mine.speedup,
        source_speedup=None if source is None else source.speedup,
        float_ms=found.latency_ms.get(RESULT if plain else FLOAT),
        use=work.given.use,
        quantized_share=share_of(work.study.layers, entry.choices),
        source_bytes=work.source_bytes,
        changes=(*work.study.known.changes, *entry.changes),
        findings=work.study.known.findings,
    )
    if outcome == "written":
        return msgspec.structs.replace(answer, files=_written(work, entry, answer, found))
    return answer


def _differs(entry: Entry) -> bool:
    """Whether the float model on this course is anything but the source in plain ONNX Runtime."""
    return entry.course.backend != "onnxruntime-cpu" or bool(entry.course.options)


def _measured(work: Work, entry: Entry, plain: bool) -> Measured:
    """The entry, floats in full precision on the same backend, and the source in plain ONNX Runtime, in turns."""
    course = entry.course
    runners = [Runner(RESULT, entry.path, course.backend, course.options)]
    if not plain:
        runners.append(Runner(FLOAT, work.study.path, course.backend, exact(course).options))
    runners.append(Runner(SOURCE, work.request.model, work.runs.judge, {}))
    limit_s = max(_LEAST_S, min(_MOST_S, work.left_s()))
    with work.study.phase(PHASE, "against the float model, in turns"):
        found = compared(runners, work.samples_path, work.folder, limit_s, work.emit)
    for name, reason in found.failures.items():
        work.warn(f"The speed of the {name} model could not be measured: {reason}")
    if found.warning:
        work.warn(found.warning)
    return found


def _written(work: Work, entry: Entry, answer: Quantized, measured: Measured) -> tuple[File, ...]:
    """Puts the file or the bundle where the user wants it, whole or not at all."""
    from edgeopt.graph.model import load, save

    out = work.request.out
    assert out is not None  # noqa: S101 - else nothing is written
    if out.suffix != ".onnx":
        return write_bundle(work, entry, answer, measured)
    before = set(out.absolute().parent.glob(f"{out.name}*.data"))
    save(load(entry.path).ir, out)
    beside = sorted(set(out.absolute().parent.glob(f"{out.name}*.data")) - before)
    return tuple(File(str(path), path.stat().st_size) for path in (out, *beside))


def _not_faster(mine: Speed, course: str) -> str:
    if mine.verdict == "slower":
        return f"It is slower than floats on {course}: {mine.speedup}."
    return f"That it is faster than floats on {course} could not be shown: {mine.speedup} ({mine.verdict})."


def _summary(work: Work, entry: Entry, mine: Speed | None, source: Speed | None, keep: bool, below: bool) -> str:
    """`keep`: nothing is written; `below`: as it does not meet the goal."""
    proof, goal, course = entry.proof, work.request.goal, entry.course.name
    reached = "" if proof is None else f"{decibels(proof.snr_db)} on {proof.samples} samples"
    if proof is not None and proof.weakest is not None:
        reached += f", of {proof.weakest.levels} levels the weakest"
    if proof is not None and proof.judged is not None:
        reached = f"{goal.title} {goal.shown(proof.judged.value)}, {reached}"
    if below:
        where = "" if proof is None or proof.weakest is None else f" ({proof.weakest.where})"
        return f"Keep float: {work.request.method} reaches {reached}{where}, and the goal is {goal}."
    if entry.is_float and not is_inexact(entry.course):
        quicker = f", {source.speedup.median:.2f} times as fast as the source" if source is not None else ""
        return f"Keep float: no plan that meets the goal ({goal}) is faster than floats on {course}{quicker}."
    if keep:
        said = "How fast it is could not be measured." if mine is None else _not_faster(mine, course)
        return f"Keep float: the best plan is no gain. {said}"
    share = f"{share_of(work.study.layers, entry.choices):.0%} of the multiply-adds"
    precision = entry.course.options.get("precision") or "the runtime's own precision"
    what = f"All layers in {precision}" if entry.is_float else f"{share} in fewer bits"
    speed = f", {_times(mine.speedup)} as fast as floats there" if mine is not None else ""
    return f"{what} on {course}: {reached}{speed}."


def _times(ratio: Interval) -> str:
    return f"{ratio.median:.2f} times"
