import math

import pytest

from edgeopt.commands.cost.figures import PriceTerms, Span, cost_of

# At 70 % of 1,000 runs a second, 0.7 an hour is 1 for 1,000 inferences a second during an hour, 511 a month.
PRICE = 0.7


def about(value, low, high):
    return pytest.approx((value, low, high), rel=1e-9)


def ends(span):
    return (span.value, span.low, span.high)


def test_what_inferences_cost_with_the_interval_of_the_speed_up(measured):
    cost = cost_of("a", measured(), PRICE, PriceTerms())
    assert cost.inferences_per_s == 1000
    assert cost.thousand_fps_hours == pytest.approx(1.0)
    assert cost.million_inferences == pytest.approx(1 / 3.6)
    assert ends(cost.baseline_inferences_per_s) == about(500, 1000 / 2.1, 1000 / 1.9)
    assert ends(cost.baseline_million_inferences) == about(2 / 3.6, 1.9 / 3.6, 2.1 / 3.6)
    assert ends(cost.baseline_thousand_fps_hours) == about(2, 1.9, 2.1)
    assert ends(cost.saving_percent) == about(50, 100 * (1 - 1 / 1.9), 100 * (1 - 1 / 2.1))
    assert cost.devices is cost.monthly_saving is cost.break_even_months is None


def test_a_load_takes_whole_devices(measured):
    cost = cost_of("a", measured(), PRICE, PriceTerms(load_per_s=5000))
    assert cost.devices == Span(8, 8, 8)  # 7.14
    assert cost.baseline_devices == Span(15, 14, 15)  # 14.3 between 13.6 and exactly 15
    assert ends(cost.monthly_cost) == about(8 * 511, 8 * 511, 8 * 511)
    assert ends(cost.monthly_saving) == about(7 * 511, 6 * 511, 7 * 511)


def test_devices_that_do_the_work_now_say_how_much_there_is(measured):
    cost = cost_of("a", measured(), PRICE, PriceTerms(devices=40))
    assert cost.baseline_devices == Span(40, 40, 40)
    assert cost.devices == Span(20, 20, 22)  # 20 between 19.05 and 21.05
    assert ends(cost.monthly_saving) == about(20 * 511, 18 * 511, 20 * 511)


def test_work_is_paid_back_by_the_saving(measured):
    terms = PriceTerms(load_per_s=5000, engineering_hours=40, hourly_rate=90)
    cost = cost_of("a", measured(), PRICE, terms)
    assert ends(cost.break_even_months) == about(3600 / (7 * 511), 3600 / (7 * 511), 3600 / (6 * 511))
    each = 1 / 3.6e6  # saved by an inference
    assert ends(cost.break_even_inferences) == about(3600 / each, 3600 / (1.1 * each), 3600 / (0.9 * each))


def test_the_terms_change_the_figures(measured):
    plain = cost_of("a", measured(), PRICE, PriceTerms(load_per_s=5000))
    idle = cost_of("a", measured(), PRICE, PriceTerms(load_per_s=5000, utilization_percent=35))
    assert idle.million_inferences == pytest.approx(2 * plain.million_inferences)
    assert idle.devices.value == 15
    short = cost_of("a", measured(), PRICE, PriceTerms(load_per_s=5000, hours_per_day=8))
    assert short.monthly_cost.value == pytest.approx(plain.monthly_cost.value / 3)
    batch = cost_of("a", measured(), PRICE, PriceTerms(load_per_s=5000, batch=8))
    assert batch.inferences_per_s == 8000
    assert batch.million_inferences == pytest.approx(plain.million_inferences / 8)


@pytest.mark.parametrize(
    ("speedup", "verdict"),
    [
        ((1.5, 0.98, 2.0), "faster"),
        ((1.005, 1.002, 1.008), "no difference seen"),
        ((1.05, 1.01, 1.2), "keep what you have"),
        ((2.0, 0.0, math.inf), "too few rounds to tell"),
        ((0.8, 0.7, 0.9), "slower"),
    ],
)
def test_what_is_not_proved_saves_nothing(measured, speedup, verdict):
    terms = PriceTerms(load_per_s=1e6, engineering_hours=1, hourly_rate=1)
    cost = cost_of("a", measured(speedup, verdict), PRICE, terms)
    assert cost.saving_percent is cost.monthly_saving is None
    assert cost.break_even_months is cost.break_even_inferences is None
    assert cost.advice in {"not worth it", "not known"}


def test_without_a_baseline_there_are_costs_and_no_saving(measured):
    cost = cost_of("a", measured(None, "", baseline=""), PRICE, PriceTerms(load_per_s=5000))
    assert cost.devices.value == 8
    assert cost.baseline_devices is cost.saving_percent is None
    assert cost.advice == "not known"


TWICE = (2, 1.9, 2.1)
WORK = {"engineering_hours": 100, "hourly_rate": 100}


@pytest.mark.parametrize(
    ("speedup", "verdict", "terms", "advice", "why"),
    [
        # 3,577 [3,066 3,577] a month
        (TWICE, "faster", {"load_per_s": 5000}, "do it", "Saves USD 3,577 [3,066 3,577] a month."),
        (TWICE, "faster", {"load_per_s": 5000, **WORK}, "do it", "even at the lower end"),
        (
            (2, 1.9, 2.1),
            "faster",
            {"load_per_s": 5000, **WORK, "pay_back_months": 3},
            "consider",
            "within 3 months (--pay-back-months), but not at the lower end",
        ),
        (
            (2, 1.9, 2.1),
            "faster",
            {"load_per_s": 5000, **WORK, "pay_back_months": 2},
            "not worth it",
            "later than",
        ),
        ((1.2, 1.05, 1.3), "faster", {"load_per_s": 650}, "consider", "at the lower end of the speed-up, nothing"),
        (TWICE, "faster", {"load_per_s": 100}, "not worth it", "needs 1 device in both cases"),
        (TWICE, "faster", {}, "consider", "costs 50.0 [47.4 52.4] % less. Give the amount of work"),
        (
            (2, 1.9, 2.1),
            "faster",
            WORK,
            "consider",
            "pays back the USD 10,000 of work after 36.0 [32.7 40.0] b",
        ),
        (
            (1.01, 0.99, 1.03),
            "no difference seen",
            {"load_per_s": 1e6},
            "not worth it",
            "includes 1x, 1.01x [0.99",
        ),
        ((0.5, 0.4, 0.6), "slower", {"load_per_s": 1e6}, "not worth it", "slower than the old way: 0.50x"),
        ((1.0, 0.9, 1.4), "keep what you have", {}, "not worth it", "includes 1x"),
        ((3, 0.6, 15), "no difference seen", {}, "not known", "Measure longer"),
    ],
)
def test_the_recommendation_and_its_reason(measured, speedup, verdict, terms, advice, why):
    cost = cost_of("a", measured(speedup, verdict), 0.7, PriceTerms(**terms))
    assert cost.advice == advice
    assert why in cost.reason


def test_a_saving_is_not_advised_where_the_times_say_otherwise(measured):
    """The interval [1.27 1.76] leaves out what both sides' own times say, 1.22."""
    found = measured((1.49, 1.27, 1.76), baseline_runs_per_s=1000 / 1.22)
    cost = cost_of("board", found, 1.0, PriceTerms(load_per_s=5000))
    assert cost.advice == "consider"
    assert "1.22 times the baseline's own, outside the interval" in cost.reason
