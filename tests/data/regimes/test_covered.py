import numpy as np
import pytest

from edgeopt.backends.base import TensorInfo
from edgeopt.data.levels import alike_inputs
from edgeopt.data.samples import check_samples

INPUTS = (TensorInfo("sound", "float32", (1, 512)), TensorInfo("rate", "int64", ()))


def samples(*levels):
    noise = np.random.default_rng(0).normal(size=(len(levels), 512)).astype(np.float32)
    sound = noise * np.asarray(levels, np.float32)[:, None]
    return check_samples({"sound": sound, "rate": np.full(len(levels), 8000)}, INPUTS)


def test_samples_of_one_level_are_told():
    (found,) = alike_inputs(samples(0.5, 0.6, 0.55, 0.5))
    assert found.input_name == "sound"
    assert 0.4 < found.lowest < found.highest < 0.7
    assert "much quieter or louder" in found.warning
    assert "0.5" in found.warning or "0.49" in found.warning


@pytest.mark.parametrize("levels", [(0.01, 1.0), (0.0, 1.0), (1.0, 2.5)])
def test_samples_of_several_levels_are_not(levels):
    assert alike_inputs(samples(*levels, 1.0)) == ()


def test_one_sample_and_silence_alone_say_nothing():
    assert alike_inputs(samples(1.0)) == ()
    assert alike_inputs(samples(0.0, 0.0)) == ()
