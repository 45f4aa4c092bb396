import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeopt.graph.accuracy import (
    EQUAL_DB,
    accuracy_text,
    agreement,
    compare_outputs,
    lower_bound_db,
    ratio_db,
    signal_to_noise_db,
    snr_lower_bound,
)

RANDOM = np.random.default_rng(11)
SIGNAL = RANDOM.standard_normal(1000).astype(np.float32)


@pytest.mark.parametrize(("noise", "signal"), [(math.inf, 1.0), (1.0, math.inf), (math.nan, 1.0)])
def test_powers_that_overflow_have_the_lowest_ratio(noise, signal):
    assert ratio_db(noise, signal) == -200.0


def test_equal_arrays_reach_the_top():
    assert signal_to_noise_db(SIGNAL, SIGNAL.copy()) == 200.0


@given(st.floats(min_value=-60, max_value=60))
def test_noise_of_a_known_size_gives_its_ratio(wanted_db):
    noise = (
        np.where(np.arange(1000) % 2, 1.0, -1.0)
        * np.sqrt(np.mean(SIGNAL.astype(float) ** 2))
        * 10 ** (-wanted_db / 20)
    )
    assert signal_to_noise_db(SIGNAL.astype(float), SIGNAL + noise) == pytest.approx(wanted_db, abs=1e-6)


PAIRS = (
    # each: the reference, what came, and the range that the ratio must lie in
    ([1, 2, 3], [1, 2, 3], 200, 200),
    ([1, 2, 3], [1, 2, 4], 0, 30),
    ([True, False], [True, False], 200, 200),
    ([True, False], [True, True], -200, 30),
    ([0.0, 0.0], [0.0, 1e-9], -200, -200),
    ([1e-23, 2e-23], [1e-23, 1e-23], 0, 30),
    ([1e-33, 2e-33], [1e-33, 1e-33], 50, 70),
    ([1.0, math.nan], [1.0, math.nan], 200, 200),
    ([1.0, math.inf], [1.0, math.inf], 200, 200),
    ([1.0, math.inf], [1.0, -math.inf], -math.inf, -math.inf),
    ([1.0, math.nan], [1.0, 2.0], -math.inf, -math.inf),
    ([1.0, 2.0], [1.0, math.inf], -math.inf, -math.inf),
    ([1.0, 2.0], [1.0], -math.inf, -math.inf),
    (["a", "b"], ["a", "b"], 200, 200),
    (["a", "b"], ["a", "c"], -200, 30),
    ([], [], 200, 200),
)


@pytest.mark.parametrize(("reference", "got", "lowest", "highest"), PAIRS)
def test_what_counts_as_how_close(reference, got, lowest, highest):
    assert lowest <= signal_to_noise_db(np.array(reference), np.array(got)) <= highest


def test_all_samples_count_together():
    """A silent sample has no signal to compare with; alone it would be hopeless."""
    reference = [{"y": np.array([10.0, -10.0])}, {"y": np.array([0.0, 0.0])}]
    got = [{"y": np.array([10.0, -10.0])}, {"y": np.array([0.1, 0.0])}]
    accuracy = compare_outputs(reference, got)
    assert accuracy.snr_db == pytest.approx(10 * math.log10(200 / 0.01))
    assert accuracy.outputs[0].noise_power == pytest.approx((0.0, 0.01))
    assert accuracy.outputs[0].signal_power == pytest.approx((200.0, 0.0))


def test_the_worst_output_decides():
    reference = [{"good": SIGNAL, "bad": SIGNAL}]
    accuracy = compare_outputs(reference, [{"good": SIGNAL, "bad": SIGNAL * 1.1}])
    assert accuracy.snr_db == pytest.approx(20.0, abs=0.01)
    good, bad = accuracy.outputs
    assert (good.snr_db, good.cosine) == (200.0, pytest.approx(1.0))
    assert bad.max_rel == pytest.approx(0.1, rel=1e-3)
    assert bad.max_abs == pytest.approx(0.1 * np.abs(SIGNAL).max(), rel=1e-3)


INCOMPARABLE = (
    ([{"y": SIGNAL}], [{}], "The output 'y' is missing (sample 0)."),
    ([{"y": SIGNAL}], [{"y": SIGNAL[:4]}], "has the shape [4] instead of [1000]"),
    ([{"y": SIGNAL}], [], "0 results for 1 samples"),
    ([{"y": np.array([1.0])}], [{"y": np.array(["a"])}], "is of type"),
)


@pytest.mark.parametrize(("reference", "got", "said"), INCOMPARABLE)
def test_what_cannot_be_compared_says_why(reference, got, said):
    accuracy = compare_outputs(reference, got)
    assert accuracy.snr_db == -math.inf
    assert said in accuracy.problem
    assert lower_bound_db(accuracy) == -math.inf


def test_the_lower_bound_lies_below_the_ratio_and_is_the_same_every_time():
    noise = RANDOM.uniform(0.5, 2.0, 40)
    powers = [(n, 1000.0) for n in noise]
    overall = 10 * math.log10(40 * 1000.0 / noise.sum())
    bound = snr_lower_bound(powers)
    assert overall - 3 < bound < overall
    assert bound == snr_lower_bound(powers)
    assert snr_lower_bound(powers, confidence=0.99) <= bound


def test_one_bad_sample_in_many_pulls_the_bound_down():
    powers = [(1.0, 1000.0)] * 39 + [(1000.0, 1000.0)]
    assert snr_lower_bound(powers) < 20 < snr_lower_bound([(1.0, 1000.0)] * 40)


def test_equal_outputs_have_an_equal_bound():
    assert lower_bound_db(compare_outputs([{"y": SIGNAL}], [{"y": SIGNAL}])) == 200.0


@pytest.mark.parametrize(("scale", "silent"), [(1e-35, True), (0.0, True), (1e-23, False), (1.0, False)])
def test_an_output_that_is_as_good_as_zero_is_called_silent(scale, silent):
    runs = [{"y": np.full(8, scale)}, {"y": np.full(8, -scale)}]
    assert compare_outputs(runs, runs).outputs[0].silent is silent


def test_the_tolerance_that_is_told_lets_the_outputs_pass():
    random = np.random.default_rng(0)
    for spread in (1e-7, 1e-4, 0.3):
        wanted = random.standard_normal(500) * 10.0 ** random.integers(-3, 3, 500)
        got = wanted * (1 + spread * random.standard_normal(500)) + spread * random.standard_normal(500)
        (output,) = compare_outputs([{"y": wanted}], [{"y": got}]).outputs
        told = output.tolerance
        np.testing.assert_allclose(got, wanted, rtol=told.rtol, atol=told.atol)
        np.testing.assert_allclose(got, wanted, rtol=0, atol=told.atol_alone)
        np.testing.assert_allclose(got, wanted, rtol=told.rtol_alone, atol=0)
        with pytest.raises(AssertionError):
            np.testing.assert_allclose(got, wanted, rtol=0, atol=told.atol_alone * 0.8)


def test_no_relative_tolerance_lets_a_value_pass_that_should_be_zero():
    (output,) = compare_outputs([{"y": np.float32([0, 1])}], [{"y": np.float32([1e-3, 1])}]).outputs
    assert output.tolerance.rtol_alone is None
    assert output.tolerance.atol >= 1e-3 - 1e-9


def test_equal_outputs_need_no_tolerance():
    (output,) = compare_outputs([{"y": SIGNAL}], [{"y": SIGNAL}]).outputs
    assert (output.tolerance.atol_alone, output.agreement, output.mean_abs) == (0.0, 1.0, 0.0)


def test_whole_numbers_are_judged_by_how_many_agree():
    wanted = [{"y": np.int64([1, 2, 3, 4]), "b": np.array([True, False])}]
    got = [{"y": np.int64([1, 2, 3, 9]), "b": np.array([True, False])}]
    whole, truth = compare_outputs(wanted, got).outputs
    assert (whole.agreement, whole.counted) == (0.75, True)
    assert (truth.agreement, truth.counted) == (1.0, True)


def test_places_where_both_are_not_finite_are_counted():
    values = np.float32([np.nan, np.inf, 1.0, 2.0])
    (output,) = compare_outputs([{"y": values}], [{"y": values.copy()}]).outputs
    assert (output.not_finite, output.snr_db) == (2, 200.0)


def test_nan_in_other_places_is_told_with_how_many():
    wanted, got = np.float32([np.nan, 1, 2]), np.float32([0, 1, 2])
    assert "in 1 of 3 values" in compare_outputs([{"y": wanted}], [{"y": got}]).problem
    assert "not finite where the reference is" in compare_outputs([{"y": got}], [{"y": wanted}]).problem


def test_sequences_and_maps_are_compared_by_their_elements():
    wanted = [{"boxes": [np.float32([1]), np.float32([2, 3])], "chances": [{"cat": 0.25, "dog": 0.75}]}]
    same = compare_outputs(wanted, wanted)
    assert same.snr_db == 200.0
    other = [{"boxes": [np.float32([1]), np.float32([2, 4])], "chances": [{"cat": 0.25, "dog": 0.75}]}]
    worst = min(compare_outputs(wanted, other).outputs, key=lambda output: output.snr_db)
    assert worst.name == "boxes[1]"
    shorter = [{"boxes": [np.float32([1])], "chances": [{"cat": 0.25}]}]
    assert "is missing" in compare_outputs(wanted, shorter).problem


def test_equal_outputs_have_no_decibels_in_sentences():
    assert agreement(200.0) == agreement(200.0, against=True) == "equal to the source model"
    assert (agreement(43.14), agreement(43.14, "b", against=True)) == ("43.1 dB", "43.1 dB against b")
    assert (accuracy_text(200.0), accuracy_text(43.14)) == ("equal outputs", "accuracy 43.1 dB")


@pytest.mark.parametrize(
    ("wanted", "got"),
    [
        (np.float32([1e20, 1]), np.float32([1e20, 2])),
        (np.float64([1]), np.float64([1 + 1e-14])),
        (np.int64([2**53]), np.int64([2**53 + 1])),
        (np.uint64([2**64 - 1]), np.uint64([2**64 - 2])),
    ],
    ids=["beside a large value", "float64", "int64", "uint64"],
)
def test_outputs_with_a_small_difference_are_not_equal(wanted, got):
    found = compare_outputs([{"y": wanted}], [{"y": got}])
    assert found.snr_db < EQUAL_DB
    assert found.outputs[0].agreement < 1
    assert compare_outputs([{"y": wanted}], [{"y": wanted}]).snr_db == 200


def test_a_mask_that_is_equal_in_both_does_not_hide_other_errors():
    """It showed 191 dB."""
    values = np.linspace(1, 2, 10)
    wrong, mask = values * 1.1, np.full(10, -1e9)
    plain = signal_to_noise_db(values, wrong)
    assert plain == pytest.approx(20, abs=0.1)
    masked = signal_to_noise_db(np.concatenate([values, mask]), np.concatenate([wrong, mask]))
    assert masked == pytest.approx(plain)
    moved = signal_to_noise_db(np.concatenate([values, mask]), np.concatenate([values, mask * 1.1]))
    assert moved == pytest.approx(20, abs=0.1)
    assert signal_to_noise_db(np.concatenate([0 * values, mask]), np.concatenate([0 * values, mask])) == EQUAL_DB


def test_cosine_of_outputs_with_huge_values_is_at_most_one():
    values = np.array([1e6, -2e6, 3e4, 0.5, 40.0])
    (equal,) = compare_outputs([{"y": values}], [{"y": values}]).outputs
    assert equal.cosine == pytest.approx(1.0)
    (near,) = compare_outputs([{"y": values}], [{"y": values + np.array([0, 0, 0, 0.1, 0])}]).outputs
    assert near.cosine == pytest.approx(1.0)
