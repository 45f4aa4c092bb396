import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

from edgeopt import units
from edgeopt.bundle.deployment import Run
from edgeopt.bundle.manifest import FILE, file_digest
from edgeopt.bundle.read import read_bundle
from edgeopt.bundle.runtime.check import check
from edgeopt.commands.optimize import optimize
from edgeopt.errors import UsageError
from edgeopt.events import Log, Standing, ignore
from edgeopt.measure.legs import FEWEST, is_settled
from edgeopt.measure.schedules import PROOF
from edgeopt.measure.sequential import Pairs, leg_of, rules_of
from edgeopt.measure.stats import FASTER, IDENTICAL, NO_DIFFERENCE, TOO_FEW, TOO_NOISY, UNITY, Interval
from edgeopt.pipeline.notes import SearchNotes
from edgeopt.pipeline.objectives import objective_named
from edgeopt.pipeline.outcome import Candidate, CandidateReport, VariantReport, in_order
from edgeopt.pipeline.prove.deliver import proof_order
from edgeopt.pipeline.prove.proving import MissedFloor, terms_of
from edgeopt.pipeline.prove.report import FrontFigures, front, undecided_by
from edgeopt.pipeline.stopping import SearchClock, StopControl
from tests.bundle.conftest import post_model, pre_model
from tests.conftest import limited, still

KEPT = ("keep what you have", "undecided")
"""What is said of a kept model depends on how busy the machine is."""


def test_the_first_that_proves_itself_is_handed_out_as_it_was_written(delivered, track, tmp_path, long_slices):
    outcome, entries = delivered({"latency_ms": 6.0}, {"latency_ms": 0.1}, limit_s=0.0)
    slow, quick = entries
    assert (outcome.verdict, outcome.winner) == ("undecided", Candidate("source", "null"))
    assert slow.reason.startswith("measured again from the written bundle: too few rounds")
    assert quick.status == "lost"  # after the time limit nobody but the first is tried
    assert "a proof needs 8" in outcome.warnings[0]
    assert "Time limit reached" in outcome.warnings[1]
    assert outcome.proof.verdict == "identical"

    outcome, (quick,) = delivered({"latency_ms": 0.1})
    assert (outcome.verdict, outcome.winner, quick.status) == ("faster", quick.candidate, "winner")
    assert outcome.proof.speedup.low > 1
    assert (outcome.proof.accuracy_db, outcome.proof.samples) == (200, track.reference.split.prove_count)
    bundle = read_bundle(tmp_path / "out.edgeopt")
    assert bundle.deployment.run.options == {"latency_ms": 0.1}
    assert bundle.deployment.evidence.speedup == pytest.approx(outcome.proof.speedup.median, rel=0.01)
    assert len(bundle.golden("reference")) == len(bundle.golden("inputs")) == 4
    assert track.said[-1].status == "winner"


def test_reasons_and_events_have_the_speeds_of_the_outcome(delivered, track, long_slices):
    """A table said "40 % slower than threads=1" of a model at 1.00x beside a winner at 1.07x."""
    outcome, (quick, fallen) = delivered({"latency_ms": 0.1}, {"latency_ms": 4.0}, last_at=0.5)
    (last,) = [each for each in outcome.candidates if each.candidate == fallen.candidate]
    assert outcome.winner == quick.candidate
    assert last.of_best == last.speedup.median / outcome.proof.speedup.median
    assert last.reason == units.behind(last.of_best, quick.candidate.name)
    standings = {event.candidate: event for event in track.said if isinstance(event, Standing)}
    for report in outcome.candidates:
        said = standings[report.candidate.name]
        assert (said.status, said.reason, said.latency_ms) == (report.status, report.reason, report.latency_ms)


def test_a_search_becomes_longer_for_the_proof_of_the_best_where_it_may(delivered, track, long_slices):
    """On a busy machine, candidates with three times the speed came out as undecided: no time was left."""
    outcome, (quick,) = delivered({"latency_ms": 0.1}, limit_s=0.0, longest_s=120.0)
    assert (outcome.verdict, quick.status) == ("faster", "winner"), (
        quick.reason,
        track.said[-6:],
        track.notes.kept,
    )
    assert outcome.proof.legs >= FEWEST
    told = [event.message for event in track.said if isinstance(event, Log)]
    assert any(message.startswith("Processes start slowly on this busy machine") for message in told)


def test_what_is_below_the_floor_in_its_proof_is_not_handed_out(delivered, monkeypatch):
    def missed(search, means, bundle, legs):
        raise MissedFloor("22.8 dB")

    monkeypatch.setattr("edgeopt.pipeline.prove.deliver.measured", missed)
    outcome, (noisy,) = delivered({"latency_ms": 0.1})
    assert outcome.winner == Candidate("source", "null")
    assert (noisy.status, noisy.proof) == ("below the floor", None)
    assert noisy.reason == "22.8 dB from the written bundle, on the samples of the proof"


def test_what_is_below_the_floor_in_its_proof_takes_nobodys_place(notes):
    """A search once proved two inaccurate models and had no time left for one that would have been delivered."""
    found = order(ending_in(60.0), notes, line_of("abcdef", below="ab"))
    assert [name for name, _ in found] == list("abcdef")


def test_what_the_race_left_open_is_proved_where_all_others_failed(delivered, track, long_slices):
    """A detector came out as it was: its two threads shared a core in the one process of the race."""
    outcome, (slow, open_) = delivered({"latency_ms": 6.0}, {"latency_ms": 0.1}, open_at=(0.8, 0.6, 1.4))
    assert (outcome.verdict, outcome.winner) == ("faster", open_.candidate)
    assert slow.reason.startswith("measured again from the written bundle")


@pytest.mark.parametrize("interval", [(0.8, 0.7, 1.05), (0.3, 0.1, 1.4)])
def test_what_the_race_decided_is_not_proved(delivered, interval):
    outcome, (_, behind) = delivered({"latency_ms": 6.0}, {"latency_ms": 0.1}, open_at=interval)
    assert (outcome.winner, behind.proof) == (outcome.baseline, None)


def test_uncertain_candidates_follow_without_making_a_search_undecided(notes):
    ending = ending_in(60.0)
    assert [name for name, _ in order(ending, notes, line_of("ab"), line_of("cd"))] == list("abcd")
    late = ending_in(0.0)
    assert [name for name, _ in order(late, notes, line_of("a"), line_of("cd"))] == ["a"]
    assert (late.unproved, notes.kept) == (0, [])
    stopped = ending_in(60.0)
    stopped.stop.set()
    assert [name for name, _ in order(stopped, notes, line_of("a"), line_of("cd"))] == ["a"]


def test_what_is_below_the_floor_does_not_make_a_search_endless(notes):
    line = line_of("abcdef", below="abcdef")
    assert [name for name, _ in order(ending_in(0.0), notes, line)] == ["a"]
    assert "4 more promising candidates were not measured" in notes.kept[0]
    stopped = ending_in(60.0)
    stopped.stop.set()
    assert len(order(stopped, notes, line)) == 2


@pytest.fixture
def notes():
    return SearchNotes(ignore)


def ending_in(seconds):
    loaded = SimpleNamespace(load_ms=10.0, first_run_ms=2.0, import_ms=150.0)
    source = SimpleNamespace(slices_ms=[2.0], loaded=loaded)
    return StopControl(threading.Event(), SearchClock(time.monotonic(), seconds), source, ignore)


def line_of(names, below=(), **verdicts):
    """Candidates as a proof leaves them: those that are not named come out slower."""
    return [
        SimpleNamespace(
            name=name,
            proof_verdict=verdicts.get(name, "slower"),
            status="below the floor" if name in below else "lost",
            candidate=Candidate("source", "null", {"precision": name.lower(), "threads": number}),
        )
        for number, name in enumerate(names)
    ]


def order(ending, notes, line, uncertain=()):
    return [(entry.name, legs) for entry, legs in proof_order(ending, notes, line, uncertain)]


def test_as_many_prove_themselves_as_there_are_legs_for(notes):
    assert order(ending_in(60.0), notes, line_of("abcdef")) == list(zip("abcdef", PROOF.legs, strict=False))
    assert notes.kept == []


def test_the_last_proof_is_a_second_one_of_what_was_too_noisy_to_tell(notes):
    maximum, *_, last = PROOF.legs
    noisy = line_of("abcdef", b=TOO_NOISY, c=TOO_NOISY)
    assert order(ending_in(60.0), notes, noisy) == [
        *zip("abc", PROOF.legs, strict=False),
        ("b", max(maximum, last)),
    ]
    assert order(ending_in(60.0), notes, line_of("a", a=TOO_NOISY)) == [("a", maximum), ("a", maximum)]
    assert order(ending_in(60.0), notes, line_of("a", a=NO_DIFFERENCE)) == [("a", maximum)]
    assert notes.kept == []


def test_what_computes_the_same_as_one_below_the_floor_is_not_proved(notes):
    """Other threads do not make it more accurate; one search spent all its time on that."""
    found = order(ending_in(60.0), notes, line_of("aAbB", below="ab"))
    assert [name for name, _ in found] == ["a", "b"]
    found = order(ending_in(60.0), notes, line_of("aAbB", below="b"))
    assert [name for name, _ in found] == ["a", "A", "b"]


def test_another_candidate_is_proved_after_the_time_limit_where_the_search_may_become_longer(notes):
    ending = ending_in(0.0)
    ending.longest_s = 120.0
    assert [name for name, _ in order(ending, notes, line_of("abc"))][:2] == ["a", "b"]


def test_a_search_that_was_stopped_does_not_become_longer(notes):
    ending = ending_in(0.0)
    ending.longest_s = 120.0
    ending.stop.set()
    ending.extend_for_proof(20.0)
    ending.extend_for_another_proof()
    assert ending.clock.limit_s == 0.0


def test_after_the_time_limit_nobody_but_the_first_does_and_it_is_told(notes):
    taken, ending = [], ending_in(60.0)
    for entry, _ in proof_order(ending, notes, line_of("abcdef")):
        taken.append(entry.name)
        ending.clock = SearchClock(0.0, 0.0) if entry.name == "b" else ending.clock
    assert taken == ["a", "b"]
    (sentence,) = notes.kept
    assert "2 more promising candidates were not measured" in sentence

    assert order(ending, notes, line_of("ab", a=TOO_NOISY)) == [("a", PROOF.legs[0])]
    assert "1 more promising candidate was not" in notes.kept[1]

    notes.kept.clear()
    assert order(ending, notes, line_of("a", a=TOO_NOISY)) == [("a", PROOF.legs[0])]
    assert notes.kept == []


"""What is said of a kept model depends on how busy the machine is."""


__all__ = ["post_model", "pre_model"]  # fixtures of another folder


@pytest.fixture
def nothing_to_turn(tmp_path, quick_profile):
    """A profile with which a search finds the source as it is, and nothing else."""
    profile = tmp_path / "still.toml"
    text = quick_profile.read_text().replace('"source", "cleaned", "lowered", "int8", "int8-dynamic"', '"source"')
    profile.write_text(still(limited(text, 40, 2)))
    return profile


@pytest.mark.slow
def test_what_runs_today_is_kept_where_nothing_beats_it(conv_model, conv_bundle, nothing_to_turn, tmp_path):
    """Its own model again can never be claimed to be faster."""
    out = tmp_path / "new.edgeopt"
    found = optimize(conv_model, out, profile=nothing_to_turn, baseline=conv_bundle)
    assert (found.verdict in KEPT, found.winner.variant) == (True, "current")
    told = f"within 30 dB is proved faster than {conv_bundle.name}"
    assert found.verdict == "undecided" or told in found.summary
    assert file_digest(out / FILE) == file_digest(conv_bundle / FILE)


@pytest.mark.slow
def test_a_model_that_runs_today_becomes_a_bundle_where_nothing_beats_it(
    conv_model, pre_model, post_model, nothing_to_turn, tmp_path
):
    """With its evidence and its processing, of data that is pre-processed for the search."""
    out, data = tmp_path / "new.edgeopt", tmp_path / "raw.npz"
    raw = np.random.default_rng(0).integers(0, 256, (12, 16, 16, 3), np.uint8)
    np.savez(data, image=raw)
    found = optimize(
        conv_model, out, data=data, profile=nothing_to_turn, baseline=conv_model, pre=pre_model, post=post_model
    )
    assert (found.verdict in KEPT, found.winner.variant) == (True, "current")
    bundle, prepared = read_bundle(out), raw.transpose(0, 3, 1, 2).astype(np.float32) / 255
    assert bundle.deployment.run == Run("onnxruntime-cpu", f"model/{conv_model.name}")
    assert bundle.deployment.evidence.verdict == found.verdict
    assert bundle.deployment.processing.times.pre_ms > 0
    place = next(k for k in range(12) if np.array_equal(bundle.golden("raw")[0]["image"][0], raw[k]))
    assert np.allclose(bundle.golden("inputs")[0]["x"], prepared[place])
    assert check(out, ignore, model=conv_model).status == "valid"


@pytest.fixture
def asked(tmp_path, monkeypatch, quick_profile, conv_model):
    """A search with a cache of its own; its candidates are two variants that are exact."""
    monkeypatch.setenv("EDGEOPT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("EDGEOPT_CACHE_LIMIT", "50MB")
    profile = tmp_path / "quick.toml"
    ladder = quick_profile.read_text().replace(', "lowered", "int8", "int8-dynamic"', "")
    profile.write_text(limited(ladder, 2, 8))
    return {"model": conv_model, "out": tmp_path / "out.edgeopt", "profile": profile}


@pytest.mark.slow
def test_another_candidate_is_proved_and_written_without_searching_again(asked, tmp_path):
    with pytest.raises(UsageError, match=r"no finished search of conv\.onnx"):
        optimize(**asked, pick="1")

    first = optimize(**asked)
    listed = in_order(first)
    number, wanted = next((n, c) for n, c in enumerate(listed, 1) if c.candidate != first.winner)
    said = []
    picked = optimize(**{**asked, "out": tmp_path / "b.edgeopt"}, pick=str(number), emit=said.append)

    assert (picked.verdict, picked.winner) == ("picked", wanted.candidate)
    assert read_bundle(tmp_path / "b.edgeopt").deployment.run.backend == wanted.candidate.backend
    assert picked.proof.speedup.rounds >= 11
    # The numbers in the table stay what they were.
    assert [c.candidate for c in in_order(picked)] == [c.candidate for c in listed]
    assert picked.front == first.front
    assert "Compared with the winner of the search: " in picked.summary
    assert not {"racing", "tuning", "final"} & {getattr(event, "phase", "") for event in said}
    if first.verdict == "faster":
        assert first.winner.name in first.front
        (before,) = (c for c in picked.candidates if c.candidate == first.winner)
        assert "another one was picked" in before.reason

    with pytest.raises(UsageError, match="no candidate 'nonsense'") as caught:
        optimize(**asked, pick="nonsense")
    assert caught.value.hint.startswith("There are: ")


WIDE = Interval(1.1, 0.53, 2.1, 12)
NARROW = Interval(1.0, 0.98, 1.02, 60)


def proved(speedup, verdict):
    return CandidateReport(Candidate("cleaned", "x"), "lost", "", speedup, proved=True, proof_verdict=verdict)


def proof(speedup, verdict):
    return SimpleNamespace(speedup=speedup, verdict=verdict)


@pytest.mark.parametrize(
    ("kept", "candidates", "variants", "said"),
    [
        (proof(NARROW, NO_DIFFERENCE), [proved(NARROW, NO_DIFFERENCE)], [], ()),
        (proof(WIDE, TOO_NOISY), [], [], ("the proof is too noisy to tell (1.10x [0.53 2.10])",)),
        (
            proof(NARROW, NO_DIFFERENCE),
            [proved(WIDE, TOO_NOISY)],
            [],
            ("the proof of cleaned · x is too noisy to tell (1.10x [0.53 2.10])",),
        ),
        (
            proof(UNITY, IDENTICAL),
            [proved(Interval(1.3, 1.2, 1.4, 12), TOO_FEW)],
            [],
            ("no time was left to prove cleaned · x",),
        ),
        (
            proof(NARROW, NO_DIFFERENCE),
            [],
            [VariantReport("a", "", failure="not ready", late=True)] * 2,
            ("2 variants not ready within the time limit",),
        ),
        (proof(NARROW, NO_DIFFERENCE), [], [VariantReport("a", "", failure="it does not apply")], ()),
        # The model against itself says nothing that the proofs of the candidates do not.
        (proof(WIDE, TOO_NOISY), [proved(NARROW, NO_DIFFERENCE)], [], ()),
        # However wide, it cannot be faster.
        (proof(NARROW, NO_DIFFERENCE), [proved(Interval(0.5, 0.2, 1.01, 12), TOO_NOISY)], [], ()),
        (proof(NARROW, NO_DIFFERENCE), [proved(Interval(1.2, 1.1, 1.3, 12), FASTER)], [], ()),
    ],
)
def test_noise_and_lack_of_time_leave_it_undecided(kept, candidates, variants, said):
    assert undecided_by(kept, candidates, variants) == said


def test_candidates_that_were_not_proved_leave_it_undecided():
    kept = proof(UNITY, IDENTICAL)
    assert undecided_by(kept, [], [], 2) == ("no time was left to prove 2 more promising candidates",)
    late = proved(Interval(1.3, 1.2, 1.4, 12), TOO_FEW)
    both = "no time was left to prove cleaned · x and 1 more promising candidate"
    assert undecided_by(kept, [late], [], 1) == (both,)


MIB = 2**20


def lost(time, accuracy_db=90.0, memory=100, size=10):
    return FrontFigures("lost", time, accuracy_db, memory * MIB, size * MIB)


def test_on_the_front_are_those_that_nobody_beats_in_everything():
    field = [
        lost(2.0),
        lost(1.0, accuracy_db=40.0),
        lost(3.0),  # slower than the first and no better
        lost(3.0, memory=50),
        lost(3.0, size=3),
        lost(2.5, accuracy_db=60.0, memory=120),
    ]
    assert front(field) == [1, 0, 3, 4]


def test_what_differs_by_less_than_counts_is_alike():
    field = [lost(1.0), lost(1.01, accuracy_db=200.0, memory=98), lost(1.005, accuracy_db=80.2, size=4)]
    # The last is as fast, and clearly smaller: nothing speaks for the others.
    assert front(field) == [2]


def test_who_may_not_be_delivered_or_was_not_measured_is_not_on_it():
    field = [lost(2.0), FrontFigures("below the floor", 1.0, 12.0), FrontFigures("failed", None, None), lost(None)]
    assert front(field) == [0]


def test_the_winner_is_on_it_because_it_was_proved():
    assert front([lost(1.0), FrontFigures("winner", 1.2, 90.0, 100 * MIB, 10 * MIB)]) == [0, 1]


def test_a_figure_that_is_not_known_is_no_reason_to_choose_it():
    assert front([lost(1.0), FrontFigures("lost", 1.5, 90.0)]) == [0]
    assert front([FrontFigures("lost", 1.0, 50.0), FrontFigures("lost", 1.5, 90.0)]) == [0, 1]


SEARCHES = 400


def normal(random, legs):
    return random.normal(0.0, 0.03, legs)


def heavy(random, legs):
    return 0.01 * random.standard_t(2, legs)


def jumping(random, legs):
    """Two speeds, as a small model on two threads has them."""
    return random.normal(0.0, 0.01, legs) + 0.3 * (random.random(legs) < 0.3) - 0.3 * (random.random(legs) < 0.3)


@pytest.mark.parametrize("luck", [normal, heavy, jumping])
def test_at_most_one_search_in_forty_calls_something_faster_that_is_not(luck):
    """Each tries four candidates that are as fast as the baseline, each over as many legs as it may."""
    random = np.random.default_rng(1)
    wrong = sum(any(called_faster(random, luck, maximum) for maximum in PROOF.legs) for _ in range(SEARCHES))
    assert wrong <= SEARCHES / 40


def test_what_is_clearly_faster_is_found():
    random = np.random.default_rng(1)
    found = sum(called_faster(random, normal, PROOF.legs[0], gain=0.2) for _ in range(100))
    assert found >= 98


def called_faster(random, luck, maximum, gain=0.0):
    pairs = Pairs.of(1, rules_of(PROOF))
    for number, drawn in enumerate(luck(random, maximum), 1):
        rounds = np.exp(random.normal(0.0, 0.02, 4))
        pairs.legs[0].append(leg_of(rounds, np.exp(drawn + gain) * rounds[::-1]))
        pairs.judge(number == maximum, lambda _: True)
        if is_settled(pairs.decisions, range(1), number):
            break
    return pairs.decisions[0].verdict == "faster"


LATENCY, MEMORY = objective_named("latency"), objective_named("memory")


@pytest.fixture
def told():
    return []


@pytest.fixture
def ending(told):
    loaded = SimpleNamespace(load_ms=10.0, first_run_ms=2.0, import_ms=150.0)
    source = SimpleNamespace(slices_ms=[2.0], loaded=loaded)
    return StopControl(threading.Event(), SearchClock(5.0, 2.0), source, told.append)


def test_what_runs_today_is_what_must_be_outrun_where_it_is_given(ending):
    assert list(terms_of(LATENCY, ending, 6, 2, 0).required) == [0, 1]
    assert list(terms_of(LATENCY, ending, 6, 1, 1).required) == [1]
    assert list(terms_of(MEMORY, ending, 6, 1, 1).required) == [0, 1]
    # Of two seconds that began at 5, the last 0.6 write the bundle.
    assert terms_of(LATENCY, ending, 6, 1, 0).until_s == pytest.approx(7.0 - 0.624)


def test_a_search_that_is_stopped_says_so_and_proves_in_the_fewest_legs(ending, told):
    terms = terms_of(LATENCY, ending, PROOF.legs[0], 1, 0)
    assert not terms.is_stopped()
    assert not told
    ending.stop.set()
    assert terms.is_stopped()
    assert told
    assert ending.legs(0, PROOF.legs[0]) == FEWEST
