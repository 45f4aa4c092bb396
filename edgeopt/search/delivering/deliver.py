"""Writes the bundle, measures it again as written, and hands it out only when it is faster and good."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from edgeopt.bench.legs import SHORT_FEWEST
from edgeopt.bundle import write
from edgeopt.errors import TrialError, VerificationError
from edgeopt.measuring.timed import fill_timed
from edgeopt.search import stopping
from edgeopt.search.delivering.conditions import check_limits, over, told, wins
from edgeopt.search.delivering.current import keep_current
from edgeopt.search.delivering.legs import LEGS
from edgeopt.search.delivering.proving import prove
from edgeopt.search.delivering.report import deployment_of, evidence_of, ledger_of, outcome_of
from edgeopt.search.delivering.steps import record_of
from edgeopt.search.field import Field
from edgeopt.search.limits import OVER
from edgeopt.search.outcome import Candidate, Outcome
from edgeopt.search.prepare import Search
from edgeopt.search.racing.aims import AS_FAST, figure_of
from edgeopt.search.racing.race import relative_speeds
from edgeopt.search.racing.screen import Entry
from edgeopt.search.racing.standings import final, racing


def deliver(search: Search, field: Field, best: list[Entry], begin: float) -> Outcome:
    """Tries the best candidates in order; when none holds, the bundle is the baseline: keep what you have."""
    _leave_the_track(search, best)
    field.close()
    # What is said of these may still change.
    open_ends = list(best)
    for entry, legs in in_turn(search, _in_line(search, field, best)):
        open_ends = [e for e in open_ends if e is not entry]
        entry.of_best = None  # how it is out now is up to its proof
        search.emit(racing(entry))
        with write.draft(search.settings.out) as folder:
            try:
                proof = prove(search, field, entry.candidate, folder, legs)
            except TrialError as error:
                entry.status, entry.reason = "failed", f"from the written bundle: {error.message}"
                search.emit(final(entry))
                continue
            if not proof.met:
                entry.status = "below the floor"
                reached = proof.judged or f"{proof.accuracy_db:.1f} dB"
                if proof.weakest is not None:
                    reached += f" ({proof.weakest.where})"
                entry.reason = f"{reached} from the written bundle, on samples set aside"
            elif too_much := over(search, entry, proof):
                entry.status, entry.reason = OVER, f"from the written bundle: {too_much}"
            elif not wins(search, proof, entry.candidate):
                entry.reason = f"measured again from the written bundle: {told(search, proof, entry.candidate)}"
            else:
                entry.status, entry.reason = "winner", ""
                outcome = outcome_of(search, field, entry.candidate, proof, time.monotonic() - begin)
                publish(search, field, entry.candidate, outcome, folder)
                _tell_all(search, [entry, *open_ends])
                return outcome
            search.emit(final(entry))
    if search.stop.is_set():
        raise stopping.nothing_yet(search, "proving")
    if search.current is not None:
        outcome = keep_current(search, field, search.current, begin)
        _tell_all(search, open_ends)
        return outcome
    with write.draft(search.settings.out) as folder:
        try:
            proof = prove(search, field, search.baseline, folder, SHORT_FEWEST)
        except TrialError as error:
            raise VerificationError(
                f"Not even the source model could be measured again from a bundle: {error.message}.",
                "Run it again; if it happens twice, the device is too busy or short of memory.",
            ) from None
        check_limits(search, field, proof)
        outcome = outcome_of(search, field, search.baseline, proof, time.monotonic() - begin)
        publish(search, field, search.baseline, outcome, folder)
        _tell_all(search, open_ends)
        return outcome


def in_turn(search: Search, line: Sequence[Entry]) -> Iterator[tuple[Entry, int]]:
    """Who may prove itself, and in how many legs; after the time limit nobody but the first."""
    for place, (entry, usual) in enumerate(zip(line, LEGS, strict=False)):
        legs = stopping.legs(search, place, usual)
        if not legs:
            return
        if place and time.monotonic() >= search.until(1.0):
            left = min(len(line), len(LEGS)) - place
            several = "candidate that raced well was" if left == 1 else "candidates that raced well were"
            search.tell(
                f"The time limit is over: {left} more {several} not measured again from a written bundle, "
                "which a longer time limit leaves time for."
            )
            return
        yield entry, legs


def _tell_all(search: Search, entries: list[Entry]) -> None:
    for entry in entries:
        search.emit(final(entry))


def _in_line(search: Search, field: Field, best: list[Entry]) -> list[Entry]:
    """Who may prove itself: the finalists, then those who left earlier, as far as they beat the baseline."""
    if search.objective.figure is not None:
        # Nobody who came in behind what the user has.
        own = next((place for place, e in enumerate(best) if e.candidate == search.baseline), len(best))
        return [e for e in best[:own] if e.speedup]
    others = [e for e in field.entries if e not in best and e.status == "lost" and e.speedup]
    others.sort(key=lambda e: e.speedup.median if e.speedup else 0.0, reverse=True)
    # Against what runs today, the source itself may win.
    least = 1.0 if search.current is None else AS_FAST
    rivals = [e for e in [*best, *others] if search.current is not None or e.candidate != search.baseline]
    return [e for e in rivals if e.speedup and e.speedup.median > least]


def _leave_the_track(search: Search, best: list[Entry]) -> None:
    """Every entry keeps what it measured and why it is behind, then its trial ends."""
    speeds, least = relative_speeds(search.baseline_contender, best), 0.0
    for place, entry in enumerate(best):
        entry.measured(search.baseline_contender)
        share = speeds[id(entry)] / max(speeds[id(best[0])], 1e-9)
        figure, shown = figure_of(search, entry.contender, entry.size_bytes), search.objective.shown
        entry.fall_behind(best[0].candidate, share)
        if place == 0:
            itself = entry.candidate == search.baseline
            least = figure or 0.0
            entry.leave(
                "lost", "the baseline" if itself else "first in the race, but not proved better than the baseline"
            )
        elif figure is not None:
            has = f"{search.objective.title} {shown(figure)}"
            entry.leave("lost", f"{has}, where {best[0].candidate.name} has {shown(least)}")


def publish(search: Search, field: Field, candidate: Candidate, outcome: Outcome, folder: Path) -> Outcome:
    """Adds the evidence and puts the bundle in its place."""
    evidence = evidence_of(search, outcome.proof, outcome)
    deployment = deployment_of(search, field, candidate, outcome.summary, evidence)
    documents: dict[str, object] = {"evidence.json": outcome, "ledger.json": ledger_of(field, candidate)}
    fill_timed(search.course.host, folder, deployment, documents, record_of(field, candidate), search.emit)
    write.publish(folder, search.settings.out, single_file=search.settings.single_file)
    return outcome
