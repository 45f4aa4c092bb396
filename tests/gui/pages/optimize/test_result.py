"""What is said of a search's outcome."""

from datetime import UTC, datetime

import msgspec
import pytest

from edgeopt_gui.pages.optimize.result import comparison, condition, explanation, headline, proof_line, read_result


@pytest.fixture
def faster(found):
    """The outcome as if it had been faster: whether it truly was is the machine's business."""
    speedup = {"median": 3.19, "low": 1.9, "high": 6.65, "rounds": 11, "confidence": 0.9958}
    proof = {
        **found["proof"],
        "verdict": "faster",
        "speedup": speedup,
        "baseline_ms": 0.182,
        "latency_ms": 0.0571,
        "accuracy_db": 128.7,
    }
    winner = {**found["winner"], "variant": "cleaned"}
    return {**found, "verdict": "faster", "winner": winner, "proof": proof, "found": "", "undecided": []}


def test_the_verdict_is_one_sentence_with_both_latencies(faster):
    result = read_result(faster)
    assert headline(result) == "3.19x faster"
    assert "57.1 µs" in explanation(result)
    assert "182 µs" in explanation(result)


def test_the_proof_says_interval_confidence_rounds_and_samples(faster):
    line = proof_line(read_result(faster))
    for part in (
        "1.90x to 6.65x",
        "99.6% confidence",
        "11 interleaved rounds",
        "8 samples set aside",
        "target quick",
    ):
        assert part in line


def test_to_keep_the_model_is_explained_and_no_error(found):
    kept = read_result({**found, "verdict": "keep what you have", "winner": found["baseline"]})
    assert headline(kept) == "Keep what you have"
    assert comparison(kept)[0].change == "unchanged"
    assert "unchanged" in explanation(kept)
    assert proof_line(kept).startswith("The bundle runs your model unchanged")


def test_undecided_says_why_and_what_to_do(found):
    undecided = read_result(
        {
            **found,
            "verdict": "undecided",
            "winner": found["baseline"],
            "undecided": ["the proof is too noisy to tell (1.10x [0.53 2.10])", "2 variants not ready"],
        }
    )
    assert headline(undecided) == "Undecided"
    assert explanation(undecided).startswith("The proof is too noisy to tell (1.10x [0.53 2.10]); 2 variants")
    assert "as fast" not in explanation(undecided)
    latency, memory, _ = comparison(undecided)
    assert (latency.before, latency.change) == ("", "unchanged")
    assert (memory.before, memory.change) == ("", "unchanged")


def test_headline_latencies_and_proof_give_one_ratio(won):
    assert headline(won) == "3.04x faster"
    latency = comparison(won)[0]
    assert (latency.before, latency.after) == ("189 µs", "62.2 µs")


def test_another_objective_is_told_by_its_figures(faster):
    proof = {**faster["proof"], "figure": 45.2 * 2**20, "baseline_figure": 66.5 * 2**20}
    result = read_result({**faster, "verdict": "better", "objective": "memory", "proof": proof})
    assert headline(result) == "45.2 MiB instead of 66.5 MiB"
    assert explanation(result) == faster["summary"]


def test_what_was_picked_is_called_so(faster):
    picked = read_result({**faster, "verdict": "picked"})
    assert headline(picked) == "3.19x the speed, as picked"
    assert not explanation(picked).startswith("Picked")
    assert proof_line(picked).startswith("Proved")


def test_a_metric_stands_where_the_floor_would(faster):
    proof = {**faster["proof"], "judged": "top-1 with labels 98 %"}
    goal = {"floor_db": 0.0, "goal": "top-1 with labels at least 97 %"}
    kept = read_result({**faster, **goal, "proof": proof, "verdict": "keep what you have"})
    assert "within top-1 with labels at least 97 %" in explanation(kept)
    assert "top-1 with labels 98 %" in proof_line(kept)
    assert comparison(kept)[2].change == "no floor in dB"


def test_the_weakest_level_of_input_is_named(faster):
    level = {"output": "y", "snr_db": 31.5, "low_db": 30.2, "samples": 3, "share": 0.01, "levels": 2}
    told = proof_line(read_result({**faster, "proof": {**faster["proof"], "weakest": level}}))
    assert "Of 2 levels of input the weakest decides: 'y' has 31.5 dB on the 3 samples" in told


def test_what_runs_today_is_kept_as_such(faster):
    today = {**faster["winner"], "variant": "current"}
    kept = read_result({**faster, "winner": today, "verdict": "keep what you have"})
    assert "what runs today" in explanation(kept)


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({}, ""),
        ({"from_cache": "2026-05-01T11:48:00+00:00"}, "Measured 12 minutes ago; nothing was measured now."),
        ({"from_cache": "2026-04-29T12:00:00+00:00"}, "Measured 2 days ago; nothing was measured now."),
        ({"from_cache": "long ago"}, "Measured at long ago; nothing was measured now."),
        ({"cut_short": "It was stopped."}, "It was stopped. Search again to continue from the cache."),
    ],
)
def test_what_was_not_measured_now_or_not_to_the_end_says_so(faster, told, said):
    now = datetime(2026, 5, 1, 12, tzinfo=UTC)
    assert condition(read_result({**faster, "from_cache": "", "cut_short": "", **told}), now) == said


def test_an_interval_without_ends_is_said_so(faster):
    speedup = {**faster["proof"]["speedup"], "low": 0.0, "high": None}
    proof = {**faster["proof"], "speedup": speedup, "accuracy_db": None}
    result = read_result({**faster, "proof": proof})
    assert "no usable interval" in proof_line(result)


def test_before_and_after_stand_side_by_side(faster):
    latency, memory, accuracy = comparison(read_result(faster))
    assert (latency.before, latency.after) == ("182 µs", "57.1 µs")
    assert latency.change.endswith("69 %")
    assert "MiB" in memory.after
    assert (accuracy.after, accuracy.change) == ("128.7 dB", "floor 30 dB")


def test_a_newer_outcome_with_more_in_it_is_read(found):
    assert read_result({**found, "carbon_g": 3}).model == "conv.onnx"


def test_what_is_no_outcome_is_refused():
    with pytest.raises(msgspec.ValidationError):
        read_result({"model": "x"})
