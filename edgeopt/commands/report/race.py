"""What a search found, for a report: the stages, the field, who is on the front."""

from collections.abc import Iterable, Sequence

import msgspec

from edgeopt.commands.report.facts import NotMade, Point, Stage
from edgeopt.commands.report.front import with_front
from edgeopt.search.delivering.report import IN_THE_RACE
from edgeopt.search.objectives import THROUGHPUT
from edgeopt.search.outcome import Candidate, CandidateReport, Outcome, VariantReport

_EXACT = ("source", "cleaned", "lowered")
_WHAT = {
    "source": "the source model",
    "cleaned": "exact rewrites of the graph",
    "lowered": "fused into operators specific to one runtime",
}
_QUANTIZED = "fewer bits"
_PRECISION = "precision"


def points_of(found: Outcome) -> tuple[Point, ...]:
    """Every candidate with the one estimate of its speed."""
    points = [_point(found, each) for each in found.candidates]
    return with_front(points)


def not_made_of(found: Outcome) -> tuple[NotMade, ...]:
    return tuple(NotMade(v.name, v.title, v.failure) for v in found.variants if v.failure)


def stages_of(found: Outcome) -> tuple[Stage, ...]:
    """The way to the winner: each step as far as possible in the step before's runtime and options."""
    proof, winner = found.proof, found.winner
    size = _size_of(found, found.baseline)
    peak = proof.baseline_memory.peak_bytes if proof.baseline_memory else None
    stages = [
        Stage(
            "source",
            "the source model, with default options",
            found.baseline.name,
            None,
            _baseline_ms(found),
            size,
            peak,
            None,
            proved=True,
        )
    ]
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
    """Of a run; by sample where throughput is what counts, as runs of other callers and batches do not compare."""
    figure = found.proof.baseline_figure
    return 1e3 / figure if _by_sample(found) and figure else found.proof.baseline_ms


def _by_sample(found: Outcome) -> bool:
    return found.objective == THROUGHPUT


def _way(found: Outcome) -> Iterable[CandidateReport]:
    """Runtime, rewrites, fusion, bits, options: for each step, the candidate closest to the one before."""
    winner = found.winner
    mine = [c for c in found.candidates if c.candidate.backend == winner.backend and c.status in IN_THE_RACE]
    wanted = [*_EXACT, *([] if winner.variant in _EXACT else [winner.variant])]
    for variant in wanted:
        alike = [c for c in mine if c.candidate.variant == variant]
        if alike:
            yield min(alike, key=_plainness)
        if variant == winner.variant:
            break
    own = [
        c
        for c in mine
        if c.candidate.variant == winner.variant and _precision(c) == winner.options.get(_PRECISION)
    ]
    if own:
        yield min(own, key=_plainness)
    yield from (c for c in mine if c.candidate == winner)


def _precision(report: CandidateReport) -> object:
    return report.candidate.options.get(_PRECISION)


def _plainness(report: CandidateReport) -> tuple[int, float]:
    """Few options first; of those with as many, the most exact."""
    return len(report.candidate.options), -(report.accuracy_db or 0.0)


def _stage(found: Outcome, report: CandidateReport, before: Sequence[Candidate]) -> Stage:
    """What is new in it, after those before."""
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
    point = _point(found, report)
    stage = Stage(
        name,
        what,
        candidate.name,
        point.ratio,
        point.time_ms,
        point.size_bytes,
        point.peak_bytes,
        point.snr_db,
    )
    return _proved(stage, found) if candidate == found.winner else stage


def _proved(stage: Stage, found: Outcome) -> Stage:
    proof = found.proof
    return msgspec.structs.replace(
        stage,
        name=f"{stage.name}, as delivered",
        ratio=proof.speedup,
        time_ms=1e3 / proof.figure if _by_sample(found) and proof.figure else proof.latency_ms,
        peak_bytes=proof.memory.peak_bytes if proof.memory else None,
        snr_db=proof.accuracy_db,
        proved=True,
    )


def _point(found: Outcome, report: CandidateReport) -> Point:
    ratio, candidate = report.speedup, report.candidate
    return Point(
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
        peak_bytes=report.memory.peak_bytes if report.memory else None,
        load_ms=report.load_ms,
    )


def _size_of(found: Outcome, candidate: Candidate) -> int | None:
    own = [v for v in found.variants if v.name == candidate.variant and _is_for(v, candidate)]
    return next((v.size_bytes for v in own if v.size_bytes is not None), None)


def _is_for(variant: VariantReport, candidate: Candidate) -> bool:
    return not variant.backends or candidate.backend in variant.backends
