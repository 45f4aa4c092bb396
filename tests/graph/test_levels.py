import numpy as np
import pytest

from edgeopt.graph.accuracy import compare_outputs
from edgeopt.graph.levels import by_level, groups_of

NOISE = np.random.default_rng(0).normal(size=(12, 100))


def accuracy(levels, errors):
    wanted = [{"y": NOISE[k] * level} for k, level in enumerate(levels)]
    got = [{"y": one["y"] + NOISE[-1 - k] * errors[k]} for k, one in enumerate(wanted)]
    return compare_outputs(wanted, got)


def test_samples_about_as_loud_are_of_one_level():
    assert groups_of([(1.0,), (0.5,), (0.9,), (2.0 / 6,)]) == [[0, 1, 2, 3]]


def test_levels_are_listed_from_the_loudest_to_silence():
    assert groups_of([(0.0,), (0.01,), (1.0,), (0.1,), (0.9,)]) == [[2, 4], [3], [1], [0]]


def test_each_input_counts():
    assert groups_of([(1.0, 7.0), (1.0, 0.1), (1.0, 6.0)]) == [[0, 2], [1]]


@pytest.mark.parametrize("levels", [[(), ()], [(0.0,), (0.0,)]])
def test_inputs_without_a_level_are_one_group(levels):
    assert groups_of(levels) == [[0, 1]]


def test_a_quiet_level_has_a_ratio_of_its_own():
    """All together are above 30 dB, as an error of one size for all is nothing beside the loud samples."""
    loudness = (1, 1, 1, 1, 0.01, 0.01)
    found = accuracy(loudness, [0.01] * 6)
    assert found.snr_db > 35
    loud, quiet = by_level(found, [(each,) for each in loudness])
    assert loud.snr_db > 35
    assert -3 < quiet.snr_db < 3
    assert quiet.low_db <= quiet.snr_db
    assert (quiet.samples, quiet.levels) == (2, 2)
    assert quiet.sentence.startswith("Of 2 levels")
    assert "on the 2 samples at 0.01 of the loudest" in quiet.sentence


def test_of_one_level_nothing_is_told():
    assert by_level(accuracy((1, 1, 1), [0.1] * 3), [(1.0,)] * 3) == []
    assert by_level(accuracy((1, 1, 1), [0.1] * 3), []) == []


def test_errors_beside_a_silent_answer_count_with_the_loudest():
    """There is nothing that they could be held against, and they are not forgiven either."""
    small, large = (accuracy((1, 1, 0), (0.001, 0.001, error)) for error in (0.001, 1.0))
    levels = [(1.0,), (1.0,), (0.0,)]
    assert [one.samples for one in by_level(small, levels)] == [3]
    assert by_level(small, levels)[0].snr_db > 55
    assert by_level(large, levels)[0].snr_db < 6


def test_what_is_counted_is_left_out():
    wanted, got = [{"n": np.array([1, 2])}] * 2, [{"n": np.array([5, 9])}] * 2
    assert by_level(compare_outputs(wanted, got), [(1.0,), (0.001,)]) == []
