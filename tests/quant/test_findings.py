import numpy as np
import pytest

from edgeopt.quant.findings import findings_of
from edgeopt.quant.ranges import Seen, count, empty
from edgeopt.quant.records import Range


def seen(name, lows, highs, **more):
    return Seen(name, np.array(lows, float), np.array(highs, float), elements=10, **more)


def kinds(*tensors, ranges=None):
    found = findings_of({one.tensor: one for one in tensors}, ranges or {})
    return [(one.kind, one.tensor, one.sample) for one in found], [one.sentence for one in found]


def test_ordinary_values_are_no_news():
    random = np.random.default_rng(0)
    highs = 3 + random.standard_normal((20, 24)) * 0.4
    assert kinds(*(seen(f"t{k}", -row, row) for k, row in enumerate(highs))) == ([], [])


def test_an_odd_sample_is_told_once_where_it_begins():
    calm = [1.0] * 10
    odd = [*calm[:6], 40.0, *calm[7:]]
    found, said = kinds(seen("x", [0] * 10, calm), seen("a", [0] * 10, odd), seen("b", [-k for k in odd], calm))
    assert found == [("outlier", "a", 6)]
    assert "Sample 6 reaches 40 in 'a', where others reach 1, and as odd in 1 more" in said[0]


@pytest.mark.parametrize(
    "highs", [[1, 1, 1, 40], [1] * 8 + [40] * 4, [0] * 9 + [40], [1, 2, 3, 4, 5, 6, 7, 8, 9.5]]
)
def test_too_few_to_tell_or_too_many_to_be_odd(highs):
    assert kinds(seen("x", [0] * len(highs), highs))[0] == []


def test_a_tensor_that_never_changes():
    found, said = kinds(seen("mask", [1, 1], [1, 1]), seen("zero", [0, 0], [0, 0]))
    assert [kind for kind, _, _ in found] == ["constant", "constant"]
    assert said[0].startswith("'mask' is 1 everywhere")


def channels(*reaches):
    return {"channel_axis": 1, "channel_lows": np.zeros(len(reaches)), "channel_highs": np.array(reaches, float)}


def test_dead_and_uneven_channels():
    found, said = kinds(
        seen("dead", [0], [2], **channels(1, 0, 2, 0)),
        seen("uneven", [0], [50], **channels(1, 1, 50, 0.9)),
        seen("even", [0], [3], **channels(1, 3, 2)),
        seen("all dead", [0], [0], **channels(0, 0)),
    )
    assert [(kind, tensor) for kind, tensor, _ in found] == [
        ("constant", "all dead"),
        ("dead channels", "dead"),
        ("uneven channels", "uneven"),
    ]
    assert "2 of 4 channels of 'dead' are 0" in said[1]
    assert "Channel 2 of 'uneven' reaches 50, the middle one of 4 1:" in said[2]


def test_a_range_that_costs_more_than_it_gives():
    histogram = empty(10.0)
    count(histogram, np.random.default_rng(0).uniform(-10, 10, 10_000).astype(np.float32))
    one = seen("t", [-10], [10], histogram=histogram)
    assert kinds(one, ranges={"t": Range(-9.9, 9.9)})[0] == []
    found, said = kinds(one, ranges={"t": Range(-5.0, 5.0)})
    assert found == [("cut off", "t", None)]
    assert "-5 to 5, clips values from -10 to 10" in said[0]


def test_what_is_not_finite_comes_first():
    found, said = kinds(seen("mask", [1], [1]), seen("l", [0] * 6, [1] * 6, not_finite=(1, 2, 4, 5)))
    assert found[0] == ("not finite", "l", 1)
    assert "on samples 1, 2, 4 and 1 more" in said[0]
