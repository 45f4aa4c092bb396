import numpy as np
import pytest

from edgeopt.graph.accuracy import compare_outputs
from edgeopt.graph.levels import by_level, groups_of, tail_of, usual_power, weak_samples

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


FEW = np.random.default_rng(0).normal(size=(4, 100))


def accuracy_of_few(levels, errors):
    wanted = [{"y": FEW[k % 4] * level} for k, level in enumerate(levels)]
    got = [
        {"y": FEW[k % 4] * level + FEW[3 - k % 4] * error}
        for k, (level, error) in enumerate(zip(levels, errors, strict=True))
    ]
    return compare_outputs(wanted, got)


def test_a_quiet_sample_that_is_useless_beside_loud_ones_is_told():
    found = accuracy_of_few((100, 100, 1, 100), (1, 1, 1, 1))
    assert found.snr_db > 30
    weak = weak_samples(found, 30)
    assert (weak.count, weak.of, weak.output) == (1, 4, "y")
    assert -3 < weak.worst_db < 3
    assert "1 of the 4 samples that prove the result is far below the floor taken alone" in weak.warning


def test_samples_that_are_about_as_good_as_all_together_are_not():
    assert weak_samples(accuracy_of_few((1, 1, 1, 1), (0.02, 0.04, 0.02, 0.01)), 30) is None


def test_equal_and_silent_samples_are_not_weak():
    assert weak_samples(accuracy_of_few((0, 1, 1, 1), (0.001, 0, 0, 0)), 30) is None


def test_answers_that_are_next_to_nothing_count_as_a_millionth_of_the_usual_power():
    """A detector's map of a picture without an object holds 1e-8, and kernels round it each in their own way."""
    assert weak_samples(accuracy_of_few((1, 1e-8, 1, 1), (1e-6, 1e-8, 1e-6, 1e-6)), 30) is None
    assert tail_of(accuracy_of_few((1, 1e-8, 1, 1), (1e-6, 1e-8, 1e-6, 1e-6))).lowest_db > 90
    found = weak_samples(accuracy_of_few((1, 1e-8, 1, 1), (1e-6, 1e-3, 1e-6, 1e-6)), 30)
    assert found.count == 1, "an error that others would notice is one there too"


def test_where_all_samples_are_next_to_nothing_others_tell_what_is_usual():
    found, usual = accuracy_of_few((1e-8, 1e-8), (1e-8, 1e-8)), usual_power(accuracy_of_few((1, 1), (0, 0)))
    assert weak_samples(found, 30) is not None
    assert weak_samples(found, 30, usual) is None


def test_whole_numbers_and_what_cannot_be_compared_are_left_out():
    wanted, got = [{"n": np.array([1, 2])}], [{"n": np.array([5, 9])}]
    assert weak_samples(compare_outputs(wanted, got), 30) is None
    assert weak_samples(compare_outputs(wanted, []), 30) is None


def test_the_lowest_sample_and_the_worst_tenth():
    found = accuracy_of_few((1, 1, 1, 1), (0.02, 0.2, 0.02, 0.02))
    tail = tail_of(found)
    assert 11 < tail.lowest_db < 14
    assert tail.tenth_db == tail.lowest_db, "of four samples a tenth is one"
    assert found.snr_db > 18


def test_samples_that_do_not_differ_have_no_tail():
    assert tail_of(accuracy_of_few((1, 1, 1, 1), (0, 0, 0, 0))) is None


def test_samples_that_jump_are_counted_and_named():
    found = tail_of(accuracy_of_few([1.0] * 20, [0.01] * 18 + [0.2, 0.3]))
    assert (found.jumps, found.output) == (2, "y")
    assert found.lowest_db == pytest.approx(10.5, abs=0.5)
    assert "2 of the samples that prove the result jump in the output 'y'" in found.warning


def test_samples_of_one_noise_do_not_jump():
    assert tail_of(accuracy_of_few([1.0] * 20, [0.01] * 18 + [0.02, 0.03])).warning == ""


def test_a_sample_that_rounding_alone_changes_does_not_jump():
    assert tail_of(accuracy_of_few([1.0] * 20, [0.0] * 19 + [1e-6])).warning == ""
