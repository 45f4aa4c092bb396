import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeopt.measure.stats import (
    Interval,
    bootstrap_median,
    paired_ratios,
    sign_interval,
    student_quantile,
    trimmed_interval,
    verdict,
)

RATIOS = st.lists(st.floats(0.01, 100), min_size=1, max_size=25)


def near(value):
    return pytest.approx(value, rel=1e-6)


def ends(interval):
    return interval.low, interval.median, interval.high


@given(RATIOS)
def test_the_median_lies_in_its_interval_and_that_within_the_ratios(ratios):
    low, median, high = ends(bootstrap_median(ratios))
    assert low <= median <= high
    assert min(ratios) <= low * (1 + 1e-9)
    assert high <= max(ratios) * (1 + 1e-9)


@given(RATIOS, st.floats(0.01, 100))
def test_a_faster_clock_changes_nothing(ratios, factor):
    scaled = bootstrap_median([r * factor for r in ratios])
    assert ends(scaled) == near([v * factor for v in ends(bootstrap_median(ratios))])


@given(RATIOS)
def test_swapping_the_sides_turns_the_interval_round(ratios):
    low, median, high = ends(bootstrap_median(ratios))
    assert ends(bootstrap_median([1 / r for r in ratios])) == near([1 / high, 1 / median, 1 / low])


@given(RATIOS, st.floats(0.5, 0.9), st.floats(0.9, 0.999))
def test_more_confidence_takes_a_wider_interval(ratios, less, more):
    narrow, wide = bootstrap_median(ratios, less), bootstrap_median(ratios, more)
    assert wide.low <= narrow.low
    assert narrow.high <= wide.high
    assert wide.median == narrow.median


@given(RATIOS)
def test_the_same_ratios_give_the_same_interval(ratios):
    assert bootstrap_median(ratios) == bootstrap_median(ratios)


def test_an_interval_knows_its_rounds_and_its_confidence():
    interval = bootstrap_median([1.0, 2.0, 4.0], 0.9)
    assert (interval.median, interval.rounds, interval.confidence) == (near(2.0), 3, 0.9)


def test_an_interval_reads_well():
    assert str(Interval(1.5, 1.25, 2, 15)) == "1.50x [1.25 2.00]"


@pytest.mark.parametrize(("low", "high"), [(0.0, math.inf), (1.48, 519600000.0), (0.019, 102.0)])
def test_an_interval_wider_than_a_factor_of_ten_is_not_printed(low, high):
    assert str(Interval(1.69, low, high, 4)) == "no usable interval"


@pytest.mark.parametrize(
    ("low", "high", "rounds", "words"),
    [
        (1.01, 2.0, 15, "faster"),
        (0.5, 0.99, 15, "slower"),
        (0.96, 1.04, 15, "no difference seen"),
        (1.0, 2.0, 15, "too noisy to tell"),
        (0.5, 1.0, 15, "too noisy to tell"),
        (1.5, 2.0, 6, "faster"),
        (1.5, 2.0, 5, "too few rounds to tell"),
        (0.5, 0.6, 3, "too few rounds to tell"),
    ],
)
def test_a_verdict_follows_from_the_interval(low, high, rounds, words):
    assert verdict(Interval((low + high) / 2, low, high, rounds)) == words


def wrong_verdicts(rounds, contests=300):
    """The share of contests between equal sides that end with a difference seen."""
    random = np.random.default_rng(rounds)
    said = [verdict(bootstrap_median(np.exp(random.normal(0, 0.1, rounds)))) for _ in range(contests)]
    return sum(words in {"faster", "slower"} for words in said) / contests


@pytest.mark.parametrize("rounds", [3, 6, 15])
def test_equal_sides_are_rarely_told_apart(rounds):
    assert wrong_verdicts(rounds) < 0.11


def test_a_real_difference_is_seen_through_noise():
    random = np.random.default_rng(1)
    ratios = 1.3 * np.exp(random.normal(0, 0.15, 25))
    assert verdict(bootstrap_median(ratios)) == "faster"


def test_a_ratio_says_how_many_times_faster_the_other_was_in_each_round():
    assert paired_ratios([10.0, 30.0], [5.0, 10.0]) == [2.0, 3.0]


def test_a_round_that_only_one_side_ran_is_no_pair():
    with pytest.raises(ValueError, match="zip"):
        paired_ratios([1.0, 2.0], [1.0])


def test_one_disturbed_round_does_not_decide():
    calm = bootstrap_median([1.2] * 14)
    disturbed = bootstrap_median([1.2] * 14 + [0.01])
    assert ends(disturbed) == near(ends(calm))
    assert not math.isclose(np.mean([1.2] * 14 + [0.01]), 1.2, rel_tol=0.01)


@pytest.mark.parametrize(("rounds", "outside"), [(11, 0), (22, 3), (33, 7)])
def test_the_sign_interval_leaves_as_many_outside_as_the_binomial_allows(rounds, outside):
    values = [1.0 + k / 100 for k in range(rounds)]
    found = sign_interval(values, 1 - 2 * 0.025 / 12)
    assert (found.low, found.high) == (values[outside], values[-1 - outside])


def test_equal_sides_are_seldom_called_different():
    """The promise behind "never slower": by chance alone, at most the stated share."""
    random = np.random.default_rng(3)
    intervals = [sign_interval(np.exp(0.03 * random.standard_normal(11)).tolist(), 0.95) for _ in range(2000)]
    assert sum(i.low > 1 or i.high < 1 for i in intervals) / 2000 <= 0.05


def test_a_difference_as_small_as_between_two_equal_processes_is_none():
    assert verdict(Interval(1.01, 1.005, 1.015, 15)) == "no difference seen"
    assert verdict(Interval(1.05, 1.005, 1.06, 15)) == "faster"


@pytest.mark.parametrize(
    ("tail", "degrees", "value"),
    [
        (0.025, 1, 12.706),
        (0.025, 2, 4.303),
        (0.0025, 3, 7.453),
        (0.005, 4, 4.604),
        (0.005, 7, 3.499),
        (0.0005, 10, 4.587),
        (0.025, 30, 2.042),
    ],
)
def test_the_quantiles_of_student_are_those_of_the_tables(tail, degrees, value):
    assert student_quantile(tail, degrees) == pytest.approx(value, abs=6e-4)


def test_of_four_values_the_trimmed_interval_is_that_of_their_mean():
    middle, low, high = trimmed_interval([1.0, 2.0, 3.0, 4.0], 0.95)
    reach = 3.182446 * math.sqrt(5 / 3) / 2
    assert (middle, low, high) == (2.5, pytest.approx(2.5 - reach), pytest.approx(2.5 + reach))


def test_one_wild_value_in_five_moves_the_trimmed_interval_little():
    values = [0.9, 1.0, 1.1, 1.0, 1.0, 0.95, 1.05, 1.0, 0.97]
    assert trimmed_interval([*values, 99.0], 0.99) == pytest.approx(
        trimmed_interval([*values, 1.0], 0.99), abs=0.1
    )


def test_one_value_alone_has_no_interval():
    assert trimmed_interval([0.3], 0.95) == (0.3, -math.inf, math.inf)


def test_the_trimmed_interval_holds_the_truth_as_often_as_it_says():
    random = np.random.default_rng(6)
    held = [
        low <= 0 <= high
        for _, low, high in (trimmed_interval(v.tolist(), 0.95) for v in random.normal(size=(4000, 9)))
    ]
    assert 0.935 < np.mean(held) < 0.97


@pytest.mark.parametrize(
    ("median", "low", "high", "said"),
    [
        (0.85, 0.0, 1178.63, "too noisy to tell"),
        (0.85, 0.0, math.inf, "too noisy to tell"),
        (1.0, 0.5, 1.51, "too noisy to tell"),
        (1.0, 0.96, 1.06, "too noisy to tell"),
        (1.0, 0.96, 1.04, "no difference seen"),
        (1.0, 0.99, 1.01, "no difference seen"),
        (4.0, 2.0, 8.0, "faster"),
        (4.0, 2.0, 21.0, "too noisy to tell"),
        (0.25, 0.1, 0.5, "slower"),
    ],
)
def test_sides_are_equal_only_if_the_whole_interval_is_near_1(median, low, high, said):
    assert verdict(Interval(median, low, high, 30)) == said
