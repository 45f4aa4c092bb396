"""What is said of a search's outcome."""

import msgspec
import pytest

from edgeopt_gui.pages.optimize.result import comparison, explanation, headline, proof_line, read_result


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
    return {**found, "verdict": "faster", "proof": proof}


def test_the_verdict_is_one_sentence_with_both_latencies(faster):
    result = read_result(faster)
    assert headline(result) == "3.19x faster"
    assert "57.1 µs" in explanation(result)
    assert "182 µs" in explanation(result)


def test_the_proof_says_interval_confidence_rounds_and_samples(faster):
    line = proof_line(read_result(faster))
    for part in ("1.90x to 6.65x", "99.6% confidence", "11 rounds", "8 samples set aside", "target quick"):
        assert part in line


def test_to_keep_the_model_is_explained_and_no_error(found):
    kept = read_result({**found, "verdict": "keep what you have", "winner": found["baseline"]})
    assert headline(kept) == "Keep what you have"
    assert "unchanged" in explanation(kept)
    assert proof_line(kept).startswith("Measured")


def test_an_interval_without_ends_is_said_so(faster):
    speedup = {**faster["proof"]["speedup"], "low": 0.0, "high": None}
    proof = {**faster["proof"], "speedup": speedup, "accuracy_db": None}
    result = read_result({**faster, "proof": proof})
    assert "too few rounds for an interval" in proof_line(result)


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
