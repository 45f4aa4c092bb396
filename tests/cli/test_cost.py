import json

import pytest


def result(out):
    return json.loads(out.strip().splitlines()[-1])


def test_the_proof_of_a_bundle_at_a_price(edgeopt_here, conv_bundle):
    code, out, _ = edgeopt_here(
        "cost", conv_bundle, "--price-per-hour", "0.7", "--load", "5000/s",
        "--engineering-hours", "40", "--rate", "90", "--currency", "EUR",
    )  # fmt: skip
    assert code == 0
    assert "EUR 3,577 [3,066 3,577] a month" in out
    assert "conv: do it." in out
    assert "15 [14 15]" in out  # devices with the baseline
    assert "busy at most 70 % of the time" in out
    assert "one request at a time: a device may do more" in out  # worked out from a latency, and said


def test_devices_side_by_side_and_the_cheapest(edgeopt_here, conv_bundle):
    code, out, _ = edgeopt_here(
        "cost", f"pi={conv_bundle}", f"nano={conv_bundle}", "--price-per-hour", "pi=0.7",
        "--price-per-hour", "nano=1.4", "--json",
    )  # fmt: skip
    found = result(out)
    assert (code, found["kind"]) == (0, "cost")
    pi, nano = found["data"]["costs"]
    assert nano["million_inferences"] == pytest.approx(2 * pi["million_inferences"])
    assert pi["saving_percent"]["low"] == pytest.approx(100 * (1 - 1 / 1.9))
    assert found["data"]["cheapest"].startswith("pi is the cheapest: USD 0.278 for a million inferences")


def test_measured_now_against_another(edgeopt_here, null_model, null_data):
    fast, slow = null_model("fast", latency_ms=1), null_model("slow", latency_ms=5)
    code, out, _ = edgeopt_here(
        "cost", fast, "--measure", "--against", slow, "--time-limit", "1", "--data", null_data,
        "--price-per-hour", "1", "--devices", "100", "--json",
    )  # fmt: skip
    assert code == 0, out
    (cost,) = result(out)["data"]["costs"]
    measured = cost["measured"]
    assert (measured["evidence"], measured["counted"]) == ("measured now", True)
    assert measured["baseline"] == "slow.null.json"
    # A busy machine may leave too few rounds to tell in so short a time; then nothing is claimed.
    assert measured["speedup"] is None or measured["speedup"]["value"] > 1
    proved = measured["verdict"] == "faster"
    assert cost["advice"] in ({"do it", "consider"} if proved else {"not known"})
    assert (cost["monthly_saving"] is not None) == proved


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["BUNDLE"], 2, "Missing option '--price-per-hour'"),
        (["--price-per-hour", "1"], 2, "Missing argument"),
        (["BUNDLE", "--price-per-hour", "-1"], 2, "must be above 0"),
        (["BUNDLE", "--price-per-hour", "1", "--currency", "XXQ"], 2, "no currency 'XXQ'"),
        (["BUNDLE", "--price-per-hour", "1", "--against", "x"], 2, "has one baseline"),
        (["BUNDLE", "--price-per-hour", "1", "--data", "d.npz"], 2, "Add --measure"),
        (["BUNDLE", "BUNDLE", "--price-per-hour", "1"], 2, "Two devices are called 'conv'"),
        (["m.onnx", "--price-per-hour", "1"], 2, "is a model"),
        (["gone.edgeopt", "--price-per-hour", "1"], 3, "gone.edgeopt"),
        (["gone.json", "--price-per-hour", "1"], 3, "cannot be read"),
    ],
)
def test_mistakes_are_sentences(edgeopt_here, conv_bundle, arguments, code, says):
    found, out, err = edgeopt_here("cost", *(conv_bundle if each == "BUNDLE" else each for each in arguments))
    assert (found, out) == (code, "")
    assert says in err
    assert len(err.strip().splitlines()) == 2  # a sentence and what to do next
