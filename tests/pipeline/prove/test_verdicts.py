"""What the rows of a search say of candidates that are not delivered."""

import msgspec

from edgeopt import units
from edgeopt.measure.stats import Interval
from edgeopt.pipeline.prove.pick import _after
from edgeopt.pipeline.prove.proving import MissedFloor, UnprovenFloor
from edgeopt.pipeline.prove.report import candidate_reports
from edgeopt.pipeline.screen import NOT_MEASURED
from edgeopt.profiles.targets import profile_for
from edgeopt.views.outcome import delivered_name
from tests.conftest import this_device


def test_verdicts_compare_with_what_is_delivered_where_the_best_of_the_race_failed(delivered, monkeypatch):
    """A table said "25 % slower" of 2.75x, against a candidate that was not delivered and not named."""

    def missed(search, means, bundle, legs):
        raise MissedFloor("22.8 dB")

    monkeypatch.setattr("edgeopt.pipeline.prove.deliver.measured", missed)
    for share, expected in ((0.75, "not proved; 1.50x in the race"), (0.3, "")):
        outcome, (_, fallen) = delivered({"latency_ms": 0.1}, {"latency_ms": 4.0}, last_at=share)
        (row,) = [each for each in outcome.candidates if each.candidate == fallen.candidate]
        assert outcome.winner == outcome.baseline
        own = row.speedup.median
        assert row.reason == (expected or units.behind(own, outcome.winner.name))
        assert (row.of_best is None) == bool(expected)


def test_a_candidate_without_a_speed_is_behind_the_one_that_its_reason_names(delivered, track, quick_profile):
    """A row without a speed said "2.6x the latency of your model", which was against another candidate."""
    outcome, (quick, slow) = delivered({"latency_ms": 0.1}, {"latency_ms": 4.0}, last_at=0.3)
    slow.pace, slow.lead = NOT_MEASURED, None
    search = track.search(track.runner.folder / "again.edgeopt", profile_for(this_device(), None, quick_profile))
    rows = candidate_reports(search, [quick, slow], quick.candidate, outcome.proof)
    row = next(each for each in rows if each.candidate == slow.candidate)
    assert (row.of_best, row.speedup) == (None, None)
    assert row.reason == units.behind(0.3, quick.candidate.name)


def test_a_candidate_whose_samples_leave_its_drop_open_is_not_delivered(delivered, monkeypatch):
    reason = (
        "top-1 with labels 99.78 %, drop 0.223 points [-0.629 1.25] on 448 samples, limit 0.5 points: not shown"
    )

    def unproven(search, means, bundle, legs):
        raise UnprovenFloor(reason)

    monkeypatch.setattr("edgeopt.pipeline.prove.deliver.measured", unproven)
    outcome, (entry,) = delivered({"latency_ms": 0.1})
    assert outcome.winner == outcome.baseline
    assert (entry.status, entry.reason) == ("unproven", reason)
    (warning,) = [each for each in outcome.warnings if "not delivered" in each]
    assert warning.endswith("accept it with --accept-unproven-drop.")


def test_rows_after_a_pick_compare_with_what_was_picked(delivered):
    """The picked row kept the figures of the race, and the others lost to the winner of the search."""
    outcome, (_, other) = delivered({"latency_ms": 0.1}, {"latency_ms": 4.0}, last_at=0.5)
    proof = msgspec.structs.replace(outcome.proof, verdict="faster", speedup=Interval(1.5, 1.4, 1.6, 20))
    known = [
        msgspec.structs.replace(each, status="lost", of_best=0.5, reason=f"behind {outcome.winner.name}")
        for each in outcome.candidates
    ]
    by_name = {each.candidate.name: each for each in known}
    third = msgspec.structs.replace(
        by_name[other.candidate.name],
        candidate=msgspec.structs.replace(other.candidate, options={"latency_ms": 9}),
        speedup=Interval(1.2, 1.1, 1.3, 9),
    )
    picked, behind = (
        _after(each, other.candidate, proof, by_sample=False) for each in (by_name[other.candidate.name], third)
    )
    assert (picked.status, picked.speedup, picked.latency_ms) == ("winner", proof.speedup, proof.latency_ms)
    assert picked.proved
    assert behind.of_best == 1.2 / 1.5
    assert behind.reason == f"25 % slower than {other.candidate.name}"
    chosen = msgspec.structs.replace(outcome, verdict="picked", winner=other.candidate)
    assert delivered_name(chosen) == "the one picked"
