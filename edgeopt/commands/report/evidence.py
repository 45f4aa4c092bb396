"""The evidence of a bundle: from a search, a precision plan, a prediction, or none; as facts of a report."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from edgeopt.bundle.deployment import Deployment
from edgeopt.commands.predict.records import PredictedCandidate, PredictedOutcome, Status
from edgeopt.commands.report.facts import FrontPoint, LayerChoice, NotMade, ReportFacts, Stage
from edgeopt.decoding import thread_safe
from edgeopt.graph.ledger import Ledger
from edgeopt.measure.messages import Memory
from edgeopt.measure.stats import with_open_ends
from edgeopt.pipeline.objectives import THROUGHPUT
from edgeopt.pipeline.outcome import Candidate, CandidateReport, Outcome
from edgeopt.pipeline.prove.report import IN_THE_RACE, FrontFigures, front
from edgeopt.quant.measured.proof import RESULT, SOURCE
from edgeopt.quant.measured.records import Quantized
from edgeopt.quant.records import FLOAT, PrecisionPlan
from edgeopt.quant.records import FrontierPoint as PlanPoint
from edgeopt.views.words import several

FILE = "evidence.json"
_PREDICTION = "prediction.json"
_LEDGER = "ledger.json"
_LARGEST_BYTES = 64 << 20

Found = Outcome | Quantized | PredictedOutcome
# The first key that is there tells which record it is.
_KINDS: tuple[tuple[str, type[Found]], ...] = (
    ("finish", PredictedOutcome),
    ("candidates", Outcome),
    ("outcome", Quantized),
)


def evidence_in(folder: Path) -> Found | str:
    """Returns the content of `evidence.json`, or of the plan for another device; or why there is none."""
    if (folder / _PREDICTION).is_file():
        return _converted(_plain(folder / _PREDICTION), _PREDICTION)
    return _converted(_plain(folder / FILE), FILE)


def _converted(plain: object, name: str) -> Found | str:
    if isinstance(plain, str):
        return plain
    if not isinstance(plain, dict):
        return f"{name} holds no record."
    kind = next((kind for key, kind in _KINDS if key in plain), None)
    if kind is None:
        return f"{name} holds a record that this version of edgeopt does not support."
    try:
        found: Found = msgspec.convert(with_open_ends(plain), thread_safe(kind))
    except msgspec.ValidationError as error:
        return f"{name} cannot be read by this version of edgeopt: {error}."
    return found


def ledger_in(folder: Path) -> Ledger | str:
    """Returns the passes behind the bundle, or why they are not known."""
    plain = _plain(folder / _LEDGER)
    if isinstance(plain, str):
        return plain
    try:
        return msgspec.convert(plain, thread_safe(Ledger))
    except msgspec.ValidationError as error:
        return f"{_LEDGER} cannot be read by this version of edgeopt: {error}."


def _plain(file: Path) -> object:
    try:
        if file.stat().st_size > _LARGEST_BYTES:  # a foreign bundle must not fill the memory
            return f"{file.name} is too large to be read."
        found: object = msgspec.json.decode(file.read_bytes())
    except FileNotFoundError:
        return f"The bundle holds no {file.name}."
    except OSError as error:
        return f"{file.name} cannot be read: {error.strerror}."
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return f"{file.name} is not JSON: {error}."
    return found


def with_candidates(facts: ReportFacts, found: Found | str) -> ReportFacts:
    """Adds the candidates, stages and layers that the evidence contains."""
    if isinstance(found, Outcome):
        return msgspec.structs.replace(
            facts,
            stages=_search_stages(found),
            points=_with_front([_search_point(found, each) for each in found.candidates]),
            not_made=tuple(NotMade(v.name, v.title, v.failure) for v in found.variants if v.failure),
        )
    if isinstance(found, PredictedOutcome):
        left = [each for each in found.candidates if each.status == "not planned"]
        return msgspec.structs.replace(
            facts,
            points=_with_front([_predicted_point(each) for each in found.candidates if each not in left]),
            not_made=tuple(NotMade(each.candidate.variant, "", each.reason) for each in left),
        )
    if isinstance(found, Quantized):
        stages = _plan_stages(found, facts.deployment, facts.model_bytes)
        facts = msgspec.structs.replace(facts, stages=stages, float_ratio=found.speedup, float_on=found.float_on)
        if plan := found.plan:
            points = _with_front([_plan_point(each, plan) for each in plan.frontier])
            layers = tuple(LayerChoice(each.layer, each.scheme, each.reason) for each in plan.verdicts)
            return msgspec.structs.replace(facts, points=points, layers=layers)
    return facts


def _with_front(points: Sequence[FrontPoint]) -> tuple[FrontPoint, ...]:
    known = [FrontFigures(p.status, p.time_ms, p.snr_db, p.peak_bytes, p.size_bytes) for p in points]
    on_it = set(front(known))
    return tuple(msgspec.structs.replace(each, on_front=place in on_it) for place, each in enumerate(points))


_EXACT = ("source", "cleaned", "lowered", "mapped")
_WHAT = {
    "source": "the source model",
    "cleaned": "exact rewrites of the graph",
    "lowered": "fused into operators specific to one runtime",
    "mapped": "weights mapped from their own file",
}
_QUANTIZED = "fewer bits"
_PRECISION = "precision"


def _source_stage(candidate: str, time_ms: float, size_bytes: int | None, memory: Memory | None) -> Stage:
    what = "the source model, with default options"
    return Stage("source", what, candidate, None, time_ms, size_bytes, *_peaks(memory), proved=True)


def _peaks(memory: Memory | None) -> tuple[int | None, int | None]:
    """Returns the peak memory of the process, and the part that the runtime and the model add."""
    return (memory.peak_bytes, memory.added_bytes) if memory else (None, None)


def _search_stages(found: Outcome) -> tuple[Stage, ...]:
    """Returns the stages to the winner: each as far as possible in the runtime and options of the stage before."""
    winner, size = found.winner, _size_of(found, found.baseline)
    stages = [_source_stage(found.baseline.name, _baseline_ms(found), size, found.proof.baseline_memory)]
    if winner == found.baseline:
        return tuple(stages)
    used = [found.baseline]
    for candidate in _way(found):
        if candidate.candidate in used:
            continue
        stages.append(_stage(found, candidate, used))
        used.append(candidate.candidate)
    if used[-1] == winner:
        return tuple(stages)
    # It did not race, such as one that was picked later.
    stages.append(_proved(Stage("the result", "picked", winner.name, size_bytes=_size_of(found, winner)), found))
    return tuple(stages)


def _baseline_ms(found: Outcome) -> float:
    """Returns the time per run, or per sample for throughput: runs of other callers and batches do not compare."""
    figure = found.proof.baseline_figure
    return 1e3 / figure if _by_sample(found) and figure else found.proof.baseline_ms


def _by_sample(found: Outcome) -> bool:
    return found.objective == THROUGHPUT


def _way(found: Outcome) -> Iterable[CandidateReport]:
    """Yields, for runtime, rewrites, fusion, bits and options, the candidate closest to the one before."""
    winner = found.winner
    mine = [c for c in found.candidates if c.candidate.backend == winner.backend and c.status in IN_THE_RACE]
    variants = [*_EXACT, *([] if winner.variant in _EXACT else [winner.variant])]
    for variant in variants:
        alike = [c for c in mine if c.candidate.variant == variant]
        if alike:
            yield min(alike, key=_plainness)
        if variant == winner.variant:
            break
    own = [
        c
        for c in mine
        if c.candidate.variant == winner.variant
        and c.candidate.options.get(_PRECISION) == winner.options.get(_PRECISION)
    ]
    if own:
        yield min(own, key=_plainness)
    yield from (c for c in mine if c.candidate == winner)


def _plainness(report: CandidateReport) -> tuple[int, float]:
    """Returns a key that sorts few options first, and among equal numbers the most exact."""
    return len(report.candidate.options), -(report.accuracy_db or 0.0)


def _stage(found: Outcome, report: CandidateReport, before: Sequence[Candidate]) -> Stage:
    """Returns the stage of a candidate, named by the change from the stages before."""
    candidate, last = report.candidate, before[-1]
    title = next((v.title for v in found.variants if v.is_of(candidate) and v.name == candidate.variant), "")
    precision = candidate.options.get(_PRECISION)
    if candidate.backend != last.backend:
        name, what = "another runtime", f"{_WHAT.get(candidate.variant, title)}, in {candidate.backend}"
    elif candidate.variant != last.variant:
        name = candidate.variant if candidate.variant in _EXACT else _QUANTIZED
        what = _WHAT.get(candidate.variant, title)
    elif precision != last.options.get(_PRECISION):
        name, what = f"{precision} floats", "the runtime computes float in this precision"
    else:
        name, what = "tuned", "with the runtime's options that were fastest"
    point = _search_point(found, report)
    measured = (point.ratio, point.time_ms, point.size_bytes, point.peak_bytes, point.added_bytes, point.snr_db)
    stage = Stage(name, what, candidate.name, *measured)
    return _proved(stage, found) if candidate == found.winner else stage


def _proved(stage: Stage, found: Outcome) -> Stage:
    proof = found.proof
    peak, added = _peaks(proof.memory)
    return msgspec.structs.replace(
        stage,
        name=f"{stage.name}, as delivered",
        ratio=proof.speedup,
        time_ms=1e3 / proof.figure if _by_sample(found) and proof.figure else proof.latency_ms,
        peak_bytes=peak,
        added_bytes=added,
        snr_db=proof.accuracy_db,
        proved=True,
    )


def _search_point(found: Outcome, report: CandidateReport) -> FrontPoint:
    ratio, candidate = report.speedup, report.candidate
    peak, added = _peaks(report.memory)
    return FrontPoint(
        name=candidate.name,
        variant=candidate.variant,
        backend=candidate.backend,
        status=report.status,
        # The winner is the first of the list, so its own name adds nothing.
        reason=report.reason.replace(found.winner.name, "the result"),
        time_ms=_baseline_ms(found) / ratio.median if ratio else None,
        ratio=ratio,
        snr_db=report.accuracy_db,
        low_db=report.accuracy_low_db,
        size_bytes=_size_of(found, candidate),
        peak_bytes=peak,
        added_bytes=added,
        load_ms=report.load_ms,
    )


def _size_of(found: Outcome, candidate: Candidate) -> int | None:
    own = [
        v
        for v in found.variants
        if v.name == candidate.variant and (not v.backends or candidate.backend in v.backends)
    ]
    return next((v.size_bytes for v in own if v.size_bytes is not None), None)


_FLOATS = "in full precision, where that is quickest"


def _plan_stages(found: Quantized, deployment: Deployment, model_bytes: int) -> tuple[Stage, ...]:
    """Returns the stages from the source over floats on the same backend to the result."""
    source = found.source_speedup
    if deployment.evidence is None or source is None:
        return ()
    baseline_ms = deployment.evidence.baseline_ms
    backend = found.float_on or f"{found.backend} with the result's options"
    source_memory = found.memory.get(SOURCE)
    stages = [_source_stage(deployment.evidence.baseline, baseline_ms, found.source_bytes, source_memory)]
    if found.speedup is not None:
        over_source = source.median / found.speedup.median
        stages.append(Stage("floats", _FLOATS, backend, time_ms=baseline_ms / over_source))
    result = Stage(
        "as delivered",
        "the written file" if found.plan is None else "each layer in its scheme",
        f"{found.method} on {found.backend}",
        source,
        deployment.evidence.latency_ms,
        model_bytes,
        *_peaks(found.memory.get(RESULT)),
        found.proof.snr_db if found.proof else None,
        proved=True,
    )
    return (*stages, result)


def _plan_point(each: PlanPoint, plan: PrecisionPlan) -> FrontPoint:
    chosen = each.choices == plan.chosen.choices
    schemes = sorted({scheme for scheme in each.choices.values() if scheme != FLOAT})
    layers = several(sum(scheme != FLOAT for scheme in each.choices.values()), "layer")
    return FrontPoint(
        name=f"{layers} in {' and '.join(schemes)}" if schemes else "all layers in float",
        variant=", ".join(schemes) or FLOAT,
        backend=plan.backend,
        status="winner" if chosen else "lost",
        time_ms=each.expected_ms or None,
        snr_db=each.expected_db if each.snr_db is None else each.snr_db,
        low_db=each.low_db,
        basis="expected",
    )


_PREDICTED_STATUS: dict[Status, str] = {"chosen": "winner", "behind": "lost", "baseline": "lost"}


def _predicted_point(each: PredictedCandidate) -> FrontPoint:
    return FrontPoint(
        name=each.candidate.name,
        variant=each.candidate.variant,
        backend=each.candidate.backend,
        status=_PREDICTED_STATUS.get(each.status, each.status),
        reason=each.reason,
        time_ms=each.latency.predicted_ms if each.latency else None,
        snr_db=each.accuracy_db,
        low_db=each.accuracy_low_db,
        size_bytes=each.size_bytes,
        basis="expected",
    )
