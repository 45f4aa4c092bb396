import numpy as np
import pytest

from edgeopt.data.samples import Samples
from edgeopt.errors import UsageError
from edgeopt.quant.augment import augmented


@pytest.fixture
def samples():
    random = np.random.default_rng(0)
    arrays = {
        "image": (5 * random.standard_normal((8, 3, 4, 4))).astype(np.float32),
        "gain": np.full((8, 1), 2, np.float16),
        "tokens": random.integers(0, 9, (8, 6)),
        "mask": random.random((8, 6)) > 0.5,
    }
    return Samples(arrays, {"image": 3, "gain": 1, "tokens": 1, "mask": 1})


def test_the_samples_themselves_come_first(samples):
    more = augmented(samples, noise=0.1, scaling=0.2)
    assert len(more) == 16
    for name, array in samples.arrays.items():
        assert np.array_equal(more.arrays[name][:8], array)
        assert more.arrays[name].dtype == array.dtype
    assert more.feeds(9)["image"].shape == samples.feeds(1)["image"].shape


def test_noise_is_a_share_of_the_inputs_own_deviation(samples):
    added = augmented(samples, noise=0.1).arrays["image"][8:] - samples.arrays["image"]
    assert added.std() == pytest.approx(0.1 * samples.arrays["image"].std(), rel=0.15)
    assert abs(added.mean()) < 0.1


def test_a_scale_holds_for_a_whole_sample(samples):
    factor = augmented(samples, scaling=0.2).arrays["image"][8:] / samples.arrays["image"]
    each = factor.reshape(8, -1)
    assert np.ptp(each, axis=1) == pytest.approx(0, abs=1e-4)
    assert ((each > 0.8 - 1e-6) & (each < 1.2 + 1e-6)).all()
    assert np.ptp(each[:, 0]) > 0.05


def test_whole_numbers_and_truth_values_stay(samples):
    more = augmented(samples, noise=1, scaling=0.5)
    for name in ("tokens", "mask"):
        assert np.array_equal(more.arrays[name][8:], samples.arrays[name])


def test_the_same_seed_gives_the_same(samples):
    first, again, other = (augmented(samples, noise=0.1, seed=seed).arrays["image"] for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_nothing_asked_nothing_made(samples):
    assert augmented(samples) is samples


@pytest.mark.parametrize("wrong", [{"noise": -1}, {"noise": float("nan")}, {"scaling": 1.0}, {"scaling": -0.1}])
def test_shares_that_are_none(samples, wrong):
    with pytest.raises(UsageError) as error:
        augmented(samples, **wrong)
    assert error.value.hint
