import numpy as np
import pytest

from edgeopt.backends.base import TensorInfo
from edgeopt.data.levels import Levels, alike_inputs, level_of, levels_in
from edgeopt.data.samples import Samples, check_samples

INPUTS = (TensorInfo("sound", "float32", (1, 512)), TensorInfo("rate", "int64", ()))


def samples(*levels):
    noise = np.random.default_rng(0).normal(size=(len(levels), 512)).astype(np.float32)
    sound = noise * np.asarray(levels, np.float32)[:, None]
    return check_samples({"sound": sound, "rate": np.full(len(levels), 8000)}, INPUTS)


def test_samples_of_one_level_are_told():
    (found,) = alike_inputs(samples(0.5, 0.6, 0.55, 0.5))
    assert found.input_name == "sound"
    assert 0.4 < found.lowest < found.highest < 0.7
    assert "much smaller or larger values" in found.warning
    assert "0.5" in found.warning or "0.49" in found.warning


@pytest.mark.parametrize("levels", [(0.01, 1.0), (0.0, 1.0), (1.0, 2.5)])
def test_samples_of_several_levels_are_not(levels):
    assert alike_inputs(samples(*levels, 1.0)) == ()


def test_one_sample_and_silence_alone_say_nothing():
    assert alike_inputs(samples(1.0)) == ()
    assert alike_inputs(samples(0.0, 0.0)) == ()


def test_a_level_is_the_root_of_the_mean_square_of_what_is_finite():
    assert level_of(np.array([3.0, -3.0, np.inf, np.nan], np.float32)) == pytest.approx(3.0)
    assert level_of(np.zeros(4)) == 0.0
    assert level_of(np.zeros(0)) == 0.0
    assert np.isfinite(level_of(np.full(4, 1e300)))


def test_only_floating_point_inputs_have_one_and_masks_have_none():
    feeds = {
        "x": np.full((1, 4), 2.0, np.float32),
        "ids": np.arange(4),
        "attention_mask": np.ones((1, 4), np.float32),
        "a": np.full((1, 4), 5.0),
    }
    assert levels_in(feeds) == (5.0, 2.0)


def test_each_sample_is_looked_at_once(monkeypatch):
    samples = Samples({"x": np.float32([[1, 1], [3, 3], [5, 5]])}, {"x": 2})
    asked = []

    def feeds(self, place, given=Samples.feeds):
        asked.append(place)
        return given(self, place)

    monkeypatch.setattr(Samples, "feeds", feeds)
    levels = Levels(samples)
    assert levels.of(range(1, 3)) == [(3.0,), (5.0,)]
    assert levels.of(range(3)) == [(1.0,), (3.0,), (5.0,)]
    assert asked == [1, 2, 0]
