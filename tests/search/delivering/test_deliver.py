import threading
import time
from types import SimpleNamespace

import msgspec
import pytest

from edgeopt.bundle.read import read_bundle
from edgeopt.events import ignore
from edgeopt.hw.probe import probe
from edgeopt.measure.stats import Interval
from edgeopt.measure.terms import PROOF
from edgeopt.profiles.targets import profile_for
from edgeopt.search.delivering.deliver import Raced, _holds, deliver, in_turn
from edgeopt.search.delivering.proving import Means
from edgeopt.search.notes import Notes
from edgeopt.search.outcome import Candidate, Proof
from edgeopt.search.racing.entrants import Entry, Pace
from edgeopt.search.stopping import Clock, Ending

KEPT = ("keep what you have", "undecided")
"""What is said of a kept model depends on how busy the machine is."""


@pytest.fixture
def delivered(track, tmp_path, quick_profile):
    """What comes of those that raced, with these options of null models; each looked twice as fast."""

    def work(*options, limit_s=60.0):
        ending = track.ending(limit_s=limit_s)
        entrants = track.entrants(ending)
        twice = Pace(Interval(2.0, 1.9, 2.1, 11), 2.0)
        entries = [Entry(Candidate("source", "null", each), pace=twice) for each in options]
        delivery = track.delivery(tmp_path / "out.edgeopt", profile_for(probe(), None, quick_profile))
        raced = Raced(entrants._variants, entries, Means(track.ground, ending, track.notes))
        return deliver(delivery, raced, entries), entries

    return work


def test_the_first_that_proves_itself_is_handed_out_as_it_was_written(delivered, track, tmp_path):
    outcome, entries = delivered({"latency_ms": 8.0}, {"latency_ms": 0.5}, limit_s=0.0)
    slow, quick = entries
    assert (outcome.verdict, outcome.winner) == ("undecided", Candidate("source", "null"))
    assert slow.reason.startswith("measured again from the written bundle: too few rounds")
    assert quick.status == "lost"  # after the time limit nobody but the first is tried
    assert "a proof needs 8" in outcome.warnings[0]
    assert "Time limit reached" in outcome.warnings[1]
    assert outcome.proof.verdict == "identical"

    outcome, (quick,) = delivered({"latency_ms": 0.5})
    assert (outcome.verdict, outcome.winner, quick.status) == ("faster", quick.candidate, "winner")
    assert outcome.proof.speedup.low > 1
    assert (outcome.proof.accuracy_db, outcome.proof.samples) == (200, track.standard.split.prove_count)
    bundle = read_bundle(tmp_path / "out.edgeopt")
    assert bundle.deployment.run.options == {"latency_ms": 0.5}
    assert bundle.deployment.evidence.speedup == pytest.approx(outcome.proof.speedup.median, rel=0.01)
    assert len(bundle.golden("reference")) == len(bundle.golden("inputs")) == 4
    assert track.said[-1].status == "winner"


def test_what_is_below_the_floor_in_its_proof_is_not_handed_out(track, tmp_path, quick_profile):
    delivery = track.delivery(tmp_path / "out.edgeopt", profile_for(probe(), None, quick_profile))
    quick = Interval(2.0, 1.9, 2.1, 22)
    proof = Proof("faster", quick, 4.0, 2.0, accuracy_db=12.0, samples=4, set_aside=True, met=False)
    entry = Entry(Candidate("source", "null"))
    assert not _holds(delivery, entry, proof)
    assert entry.status == "below the floor"
    assert "12.0 dB from the written bundle" in entry.reason
    assert _holds(delivery, entry, msgspec.structs.replace(proof, accuracy_db=60.0, met=True))


@pytest.fixture
def notes():
    return Notes(ignore)


def ending_in(seconds):
    loaded = SimpleNamespace(load_ms=10.0, first_run_ms=2.0, import_ms=150.0)
    source = SimpleNamespace(slices_ms=[2.0], loaded=loaded)
    return Ending(threading.Event(), Clock(time.monotonic(), seconds), source, ignore)


def test_as_many_prove_themselves_as_there_are_legs_for(notes):
    assert list(in_turn(ending_in(60.0), notes, "abcdef")) == list(zip("abcdef", PROOF.legs, strict=False))
    assert notes.kept == []


def test_after_the_time_limit_nobody_but_the_first_does_and_it_is_told(notes):
    taken, ending = [], ending_in(60.0)
    for entry, _ in in_turn(ending, notes, "abcdef"):
        taken.append(entry)
        ending.clock = Clock(0.0, 0.0) if entry == "b" else ending.clock
    assert taken == ["a", "b"]
    (sentence,) = notes.kept
    assert "2 more promising candidates were not measured" in sentence

    assert [entry for entry, _ in in_turn(ending, notes, "ab")] == ["a"]
    assert "1 more promising candidate was not" in notes.kept[1]

    notes.kept.clear()
    assert [entry for entry, _ in in_turn(ending, notes, "a")] == ["a"]
    assert notes.kept == []
