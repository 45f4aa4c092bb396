import numpy as np

from edgeopt.graph.accuracy import compare_outputs
from edgeopt.graph.levels import tail_of, usual_power, weak_samples

NOISE = np.random.default_rng(0).normal(size=(4, 100))


def accuracy(levels, errors):
    wanted = [{"y": NOISE[k] * level} for k, level in enumerate(levels)]
    got = [
        {"y": NOISE[k] * level + NOISE[3 - k] * error}
        for k, (level, error) in enumerate(zip(levels, errors, strict=True))
    ]
    return compare_outputs(wanted, got)


def test_a_quiet_sample_that_is_useless_beside_loud_ones_is_told():
    found = accuracy((100, 100, 1, 100), (1, 1, 1, 1))
    assert found.snr_db > 30
    weak = weak_samples(found, 30)
    assert (weak.count, weak.of, weak.output) == (1, 4, "y")
    assert -3 < weak.worst_db < 3
    assert "1 of the 4 samples that prove the result is far below the floor taken alone" in weak.warning


def test_samples_that_are_about_as_good_as_all_together_are_not():
    assert weak_samples(accuracy((1, 1, 1, 1), (0.02, 0.04, 0.02, 0.01)), 30) is None


def test_equal_and_silent_samples_are_not_weak():
    assert weak_samples(accuracy((0, 1, 1, 1), (0.001, 0, 0, 0)), 30) is None


def test_answers_that_are_next_to_nothing_count_as_a_millionth_of_the_usual_power():
    """A detector's map of a picture without an object holds 1e-8, and kernels round it each in their own way."""
    assert weak_samples(accuracy((1, 1e-8, 1, 1), (1e-6, 1e-8, 1e-6, 1e-6)), 30) is None
    assert tail_of(accuracy((1, 1e-8, 1, 1), (1e-6, 1e-8, 1e-6, 1e-6))).lowest_db > 90
    found = weak_samples(accuracy((1, 1e-8, 1, 1), (1e-6, 1e-3, 1e-6, 1e-6)), 30)
    assert found.count == 1, "an error that others would notice is one there too"


def test_where_all_samples_are_next_to_nothing_others_tell_what_is_usual():
    found, usual = accuracy((1e-8, 1e-8), (1e-8, 1e-8)), usual_power(accuracy((1, 1), (0, 0)))
    assert weak_samples(found, 30) is not None
    assert weak_samples(found, 30, usual) is None


def test_whole_numbers_and_what_cannot_be_compared_are_left_out():
    wanted, got = [{"n": np.array([1, 2])}], [{"n": np.array([5, 9])}]
    assert weak_samples(compare_outputs(wanted, got), 30) is None
    assert weak_samples(compare_outputs(wanted, []), 30) is None


def test_the_lowest_sample_and_the_worst_tenth():
    found = accuracy((1, 1, 1, 1), (0.02, 0.2, 0.02, 0.02))
    tail = tail_of(found)
    assert 11 < tail.lowest_db < 14
    assert tail.tenth_db == tail.lowest_db, "of four samples a tenth is one"
    assert found.snr_db > 18


def test_samples_that_do_not_differ_have_no_tail():
    assert tail_of(accuracy((1, 1, 1, 1), (0, 0, 0, 0))) is None
