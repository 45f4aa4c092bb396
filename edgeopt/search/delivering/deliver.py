"""Writes the bundle, measures it again as written, and hands it out only when it is faster and good."""

from collections.abc import Iterator, Sequence

from edgeopt.errors import TrialError, VerificationError
from edgeopt.measure.terms import PROOF
from edgeopt.search.delivering.conditions import check_limits, told, wins
from edgeopt.search.delivering.current import keep_current
from edgeopt.search.delivering.delivery import Delivery, Raced, outcome_for, prove
from edgeopt.search.delivering.written import hand_out, written
from edgeopt.search.limits import OVER, excess
from edgeopt.search.notes import Notes
from edgeopt.search.outcome import Outcome, Proof
from edgeopt.search.racing.aims import AS_FAST
from edgeopt.search.racing.screen import Entry
from edgeopt.search.racing.standings import final, racing
from edgeopt.search.stopping import Ending, nothing_yet


def deliver(delivery: Delivery, raced: Raced, best: list[Entry]) -> Outcome:
    """Tries the best candidates in order; when none holds, the bundle is the baseline: keep what you have."""
    ending, notes = raced.means.ending, raced.means.notes
    # What is said of these may still change.
    open_ends = list(best)
    outcome = None
    for entry, legs in in_turn(ending, notes, _in_line(delivery, raced.entries, best)):
        open_ends = [e for e in open_ends if e is not entry]
        notes.emit(racing(entry))
        outcome = _tried(delivery, raced, entry, legs)
        notes.emit(final(entry))
        if outcome is not None:
            break
    if outcome is None and ending.is_asked:
        raise nothing_yet("proving", kept=ending.kept)
    outcome = outcome or _kept(delivery, raced)
    for entry in open_ends:
        notes.emit(final(entry))
    return outcome


def in_turn(ending: Ending, notes: Notes, line: Sequence[Entry]) -> Iterator[tuple[Entry, int]]:
    """Who may prove itself, and in how many legs; after the time limit nobody but the first."""
    for place, (entry, usual) in enumerate(zip(line, PROOF.legs, strict=False)):
        legs = ending.legs(place, usual)
        if not legs:
            return
        if place and not ending.has_time_to_prove:
            left = ending.unproved = min(len(line), len(PROOF.legs)) - place
            several = "promising candidate was" if left == 1 else "promising candidates were"
            notes.tell(
                f"Time limit reached: {left} more {several} not measured from a written bundle. A longer time "
                "limit allows it."
            )
            return
        yield entry, legs


def _tried(delivery: Delivery, raced: Raced, entry: Entry, legs: int) -> Outcome | None:
    """The outcome if this entry is proved, with its bundle in place; otherwise the entry has the reason."""
    entry.of_best = None  # how it is out now is up to its proof
    with written(delivery, raced, entry.candidate) as bundle:
        try:
            proof = prove(delivery, raced.means, bundle, legs)
        except TrialError as error:
            entry.status, entry.reason = "failed", f"from the written bundle: {error.message}"
            return None
        entry.proof, entry.proof_verdict = proof.speedup, proof.verdict
        if not _holds(delivery, entry, proof):
            return None
        entry.status, entry.reason = "winner", ""
        outcome = outcome_for(delivery, raced, entry.candidate, proof)
        return hand_out(delivery, raced, bundle, entry.candidate, outcome)


def _holds(delivery: Delivery, entry: Entry, proof: Proof) -> bool:
    """Whether it may be delivered; if not, the entry has the reason."""
    aim, today = delivery.aim, delivery.proving.rivals.today
    if not proof.met:
        entry.status = "below the floor"
        reached = proof.judged or f"{proof.accuracy_db:.1f} dB"
        if proof.weakest is not None:
            reached += f" ({proof.weakest.where})"
        entry.reason = f"{reached} from the written bundle, on samples set aside"
    elif too_much := excess(aim.limits, proof.memory, entry.size_bytes, proof.latency_ms):
        entry.status, entry.reason = OVER, f"from the written bundle: {too_much}"
    elif not wins(aim, today, proof, entry.candidate):
        entry.reason = f"measured again from the written bundle: {told(aim, today, proof, entry.candidate)}"
    else:
        return True
    return False


def _kept(delivery: Delivery, raced: Raced) -> Outcome:
    """What the user has: what runs today, or else the source as it is, in a bundle."""
    source, today = delivery.case.baseline, delivery.proving.rivals.today
    if today is not None:
        return keep_current(delivery, raced, today)
    with written(delivery, raced, source) as bundle:
        try:
            proof = prove(delivery, raced.means, bundle, 0)
        except TrialError as error:
            raise VerificationError(
                f"The source model could not be measured from a bundle: {error.message}.",
                "Run the command again. If it fails twice, the device is too busy or short of memory.",
            ) from None
        check_limits(delivery.aim.limits, delivery.case.facts.size_bytes, raced.entries, proof)
        return hand_out(delivery, raced, bundle, source, outcome_for(delivery, raced, source, proof))


def _in_line(delivery: Delivery, entries: Sequence[Entry], best: list[Entry]) -> list[Entry]:
    """Who may prove itself: the finalists, then those who left earlier, as far as they beat the baseline."""
    source, today = delivery.case.baseline, delivery.proving.rivals.today
    if delivery.aim.objective.figure is not None:
        # Nobody who came in behind what the user has.
        own = next((place for place, e in enumerate(best) if e.candidate == source), len(best))
        return [e for e in best[:own] if e.speedup]
    others = [e for e in entries if e not in best and e.status == "lost" and e.speedup]
    others.sort(key=lambda e: e.speedup.median if e.speedup else 0.0, reverse=True)
    # Against what runs today, the source itself may win.
    least = 1.0 if today is None else AS_FAST
    rivals = [e for e in [*best, *others] if today is not None or e.candidate != source]
    return [e for e in rivals if e.speedup and e.speedup.median > least]
