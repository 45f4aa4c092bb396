"""Puts a plan into records and sentences; none of them may sound like a measurement."""

import shlex
from collections.abc import Iterator

from edgeopt.commands.predict.latency import Latency
from edgeopt.commands.predict.rank import Place, Ranked
from edgeopt.commands.predict.records import VERDICT, Ahead, Planned, Status
from edgeopt.commands.predict.work import Plan
from edgeopt.graph.accuracy import accuracy_text
from edgeopt.search.outcome import Candidate

LEFT = {
    "lowered": "left to the device: operators specific to a runtime must be measured",
    "planned": "left to the device: the gain of each layer in each scheme must be measured",
}


def ahead_of(
    plan: Plan, found: Ranked, best: Place, baseline: Candidate, accuracy_db: float, seconds: float
) -> Ahead:
    start = _of(found, baseline)
    speedup = _speedup(start, best)
    basis = _basis(best)
    return Ahead(
        model=plan.wishes.model.name,
        model_digest=plan.source.digest,
        bundle=str(plan.wishes.out),
        device=plan.record.title,
        target=plan.profile.name,
        verdict=VERDICT,
        summary=_summary(plan, best, start, speedup, accuracy_db),
        basis=basis,
        floor_db=plan.wishes.floor_db,
        winner=best.made.candidate,
        baseline=baseline,
        baseline_ms=start.predicted_ms if start is not None else None,
        latency=best.latency if isinstance(best.latency, Latency) else None,
        speedup=speedup,
        accuracy_db=accuracy_db,
        judged_with=best.made.judged_with,
        samples=len(plan.given.prove),
        set_aside=not (plan.given.use.shared or plan.given.use.generated),
        finish=_finish(plan),
        inputs=plan.bench.runs.ports[0],
        outputs=plan.bench.runs.ports[1],
        candidates=tuple(_rows(plan, found, best, baseline)),
        ledger=best.made.ledger,
        warnings=tuple(plan.warnings),
        seconds=seconds,
    )


def _rows(plan: Plan, found: Ranked, best: Place, baseline: Candidate) -> Iterator[Planned]:
    for place in found.places:
        made = place.made
        status, reason = _verdict(place, best)
        if status == "behind" and _is_baseline(place, baseline):
            status = "baseline"
        yield Planned(
            made.candidate,
            status,
            "; ".join(filter(None, [reason, "" if made.failure or found.by_time else made.doubt, *made.notes])),
            place.latency if isinstance(place.latency, Latency) else None,
            made.accuracy_db,
            made.accuracy_low_db,
            made.judged_with,
            made.path.stat().st_size if made.path.exists() else None,
        )
    first = plan.backends.order[0]
    for name in plan.profile.precision.ladder:
        if name in LEFT:
            yield Planned(Candidate(name, first), "not planned", LEFT[name])


def _verdict(place: Place, best: Place) -> tuple[Status, str]:
    made = place.made
    if made.failure:
        return ("below the floor" if made.below else "failed"), made.failure
    if place is best:
        return "chosen", _why(place)
    if place.predicted_ms is not None and best.predicted_ms:
        return (
            "behind",
            f"predicted at {place.predicted_ms / best.predicted_ms:.2f} times the time of the chosen one",
        )
    return "behind", "behind the chosen one in the order of the profile"


def _why(place: Place) -> str:
    if isinstance(place.latency, Latency):
        return f"fastest predicted; {place.latency.products_share:.0%} of its time in products"
    return "first in the order of the profile within the floor"


def _speedup(start: Place | None, best: Place) -> float | None:
    if start is None or start.predicted_ms is None or not best.predicted_ms:
        return None
    return start.predicted_ms / best.predicted_ms


def _summary(plan: Plan, best: Place, start: Place | None, speedup: float | None, accuracy_db: float) -> str:
    device, name = plan.record.title, best.made.candidate.name
    if best.made.candidate.variant == "source" and (start is None or start.made is best.made):
        return f"Predicted, not measured: on {device} nothing is expected to be faster than the source model."
    said = f"Predicted, not measured: {name} is expected to be the best on {device}"
    if speedup is not None and isinstance(best.latency, Latency) and start is not None:
        said += (
            f", {speedup:.2f}x as fast as the source model ({best.latency.predicted_ms:.3g} ms instead of "
            f"{start.predicted_ms:.3g} ms)"
        )
    return f"{said}, {accuracy_text(accuracy_db)}."


def _basis(best: Place) -> str:
    if isinstance(best.latency, Latency):
        latency = best.latency
        low, high = latency.low_ms / latency.predicted_ms, latency.high_ms / latency.predicted_ms
        return (
            f"Predicted from {latency.basis}. Times may be {low:g} to {high:g} times the prediction, as "
            "in most checked predictions."
        )
    return f"No latency can be predicted: {best.latency} (on the device). The order is that of the profile."


def _finish(plan: Plan) -> tuple[str, ...]:
    data = f" --data {shlex.quote(plan.wishes.data.name)}" if plan.wishes.data is not None else ""
    model, bundle = shlex.quote(plan.wishes.model.name), shlex.quote(plan.wishes.out.name)
    floor = f" --floor {plan.wishes.floor_db:g}dB" if data else ""
    replay = f"edgeopt replay {bundle} {model}{data} -o NEW --measure"
    return (
        f"On the device, search and prove: edgeopt optimize {model}{data}{floor} -o NEW",
        f"On the device, measure and prove this plan alone: {replay}",
    )


def _of(found: Ranked, candidate: Candidate) -> Place | None:
    return next((place for place in found.places if _is_baseline(place, candidate)), None)


def _is_baseline(place: Place, baseline: Candidate) -> bool:
    """By variant and backend; the options of candidates are those that a search begins with."""
    mine = place.made.candidate
    return (mine.variant, mine.backend) == (baseline.variant, baseline.backend)
