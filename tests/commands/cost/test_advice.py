import pytest

from edgeopt.commands.cost.figures import cost_of
from edgeopt.commands.cost.records import Terms

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
    cost = cost_of("a", measured(speedup, verdict), 0.7, Terms(**terms))
    assert cost.advice == advice
    assert why in cost.reason


def test_a_saving_is_not_advised_where_the_times_say_otherwise(measured):
    """The interval [1.27 1.76] leaves out what both sides' own times say, 1.22."""
    found = measured((1.49, 1.27, 1.76), baseline_runs_per_s=1000 / 1.22)
    cost = cost_of("board", found, 1.0, Terms(load_per_s=5000))
    assert cost.advice == "consider"
    assert "1.22 times the baseline's own, outside the interval" in cost.reason
