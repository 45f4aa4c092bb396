"""The conditions that a proof must meet before its bundle is delivered."""

from collections.abc import Sequence

from edgeopt.bundle.read import Bundle
from edgeopt.errors import ConstraintError
from edgeopt.measure.stats import FASTER, verdict
from edgeopt.search.aim import Aim
from edgeopt.search.limits import OVER, Limits, excess
from edgeopt.search.objectives import ENERGY
from edgeopt.search.outcome import Candidate, Proof
from edgeopt.search.racing.race import SPARE_CORES, one_thread
from edgeopt.search.racing.screen import Entry
from edgeopt.search.shapes.by_size import slower_sizes

# Of an objective that no contest decides; memory and first answers differ by a percent or so from run to run.
_CLEARLY_LESS = 0.97


def wins(aim: Aim, today: Bundle | None, proof: Proof, candidate: Candidate) -> bool:
    """Faster; or, for another objective, clearly less of it and no slower where latency is limited."""
    slow_allowed = aim.limits.latency_ms is not None
    if slower_sizes(proof.by_size) and not slow_allowed:
        return False
    if aim.objective.figure is None and proof.current is not None:
        # What runs today is what counts; the source in plain defaults may be as fast, and must not be faster.
        clear = proof.current.low > least_gain(today, candidate)
        return clear and proof.current_verdict == FASTER and proof.verdict != "slower"
    if aim.objective.figure is None:
        return proof.verdict == FASTER
    if proof.figure is None or proof.baseline_figure is None:
        return False
    if aim.objective.name == ENERGY and (proof.less is None or verdict(proof.less) != FASTER):
        return False
    slower = "slower" in {proof.verdict, proof.current_verdict}
    return proof.figure < _CLEARLY_LESS * proof.baseline_figure and (slow_allowed or not slower)


def least_gain(today: Bundle | None, candidate: Candidate) -> float:
    """Over what runs today: more than a race asks of those who take more cores, or the two would go to and fro."""
    if today is None or one_thread(candidate):
        return 1.0
    return SPARE_CORES**2 if today.deployment.run.options.get("threads") == 1 else 1.0


def told(aim: Aim, today: Bundle | None, proof: Proof, candidate: Candidate) -> str:
    speed = f"{proof.verdict} ({proof.speedup})"
    if slower := slower_sizes(proof.by_size):
        speed += f", but {slower}"
    if proof.current is not None:
        speed += f"; compared with the baseline you gave: {proof.current_verdict} ({proof.current})"
        if (least := least_gain(today, candidate)) > 1.0 and proof.current_verdict == FASTER:
            speed += f", which runs on one thread: not proved by {least - 1:.0%}, the gain of the other cores"
    if proof.figure is None or proof.baseline_figure is None:
        return speed
    shown = aim.objective.shown
    return f"{aim.objective.title} {shown(proof.figure)} instead of {shown(proof.baseline_figure)}, {speed}"


def check_limits(limits: Limits, size_bytes: int, entries: Sequence[Entry], proof: Proof) -> None:
    """Raises ConstraintError where not even what the user has, a model of this size, keeps to them."""
    too_much = excess(limits, proof.memory, size_bytes, proof.latency_ms)
    if not too_much:
        return
    reasons = dict.fromkeys(e.reason for e in entries if e.status == OVER)
    others = f" Of the others: {'; '.join(list(reasons)[:3])}." if reasons else ""
    raise ConstraintError(
        f"No proved candidate is within the limits. The model unchanged: {too_much}.{others}",
        "Raise the limit, lower the floor, or give data so that lower precisions can be tried.",
    )
