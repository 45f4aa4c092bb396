from pathlib import Path

import pytest

from edgeopt.commands.predict.latency import Latency
from edgeopt.commands.predict.plan import ranked
from edgeopt.commands.predict.variants import Made
from edgeopt.search.outcome import Candidate

LADDER = ("source", "cleaned", "int8-groups", "int8", "w8")
CPU, GPU = "onnxruntime-cpu", "onnxruntime-cuda"


def made(*names, backend=CPU):
    return [Made(Candidate(name, backend), Path("model.onnx")) for name in names]


def taking(ms):
    return Latency(ms, ms / 2, ms * 2, 0.5, "")


def order(found):
    return [place.made.candidate.variant for place in found.places]


def test_the_quickest_as_predicted_comes_first():
    found = ranked(made("source", "cleaned", "int8"), (CPU,), LADDER, {0: taking(3), 1: taking(1), 2: taking(2)})
    assert found.by_time
    assert order(found) == ["cleaned", "int8", "source"]


def test_without_predictions_the_ladder_decides():
    some = made("source", "cleaned", "w8", "int8", "int8-groups")
    found = ranked(some, (CPU,), LADDER, dict.fromkeys(range(5), "no peaks"))
    assert not found.by_time
    # What saves memory alone comes behind what saves time for sure.
    assert order(found) == ["int8-groups", "int8", "cleaned", "w8", "source"]


def test_fewer_bits_that_may_gain_nothing_are_not_risked_unmeasured():
    some = made("cleaned", "int8")
    some[1].doubt = "this processor has no instruction for products of bytes"
    assert order(ranked(some, (CPU,), LADDER, dict.fromkeys(range(2), "no peaks"))) == ["cleaned", "int8"]
    assert order(ranked(some, (CPU,), LADDER, {0: taking(2), 1: taking(1)})) == ["int8", "cleaned"]


def test_one_time_that_is_not_known_leaves_it_to_the_order_of_the_profile():
    some = [*made("cleaned"), *made("cleaned", backend=GPU)]
    found = ranked(some, (GPU, CPU), LADDER, {0: taking(1), 1: "not the processor"})
    assert [place.made.candidate.backend for place in found.in_line()] == [GPU, CPU]


@pytest.mark.parametrize("below", [True, False])
def test_what_is_out_is_last_and_not_in_line(below):
    some = made("source", "int8")
    some[1].failure, some[1].below = "12 dB", below
    found = ranked(some, (CPU,), LADDER, {0: taking(2), 1: taking(1)})
    assert order(found) == ["source", "int8"]
    assert [place.made.candidate.variant for place in found.in_line()] == ["source"]
