import math
from itertools import repeat

import msgspec
import numpy as np
import pytest

from edgeopt.errors import TrialError
from edgeopt.measure.legs import FallenError, LegDriver, LegPlan
from edgeopt.measure.rounds import DeviceWatch
from edgeopt.measure.schedules import CONTEST, LUCK_PERCENT, PROOF, QUANTIZED
from edgeopt.measure.sequential import Leg, Pairs, Rules, decide, leg_of, rules_of
from edgeopt.workers.host import NOT_STARTED


def legs(count, percent=0.0, scatter=0.002, fresh=True, seed=0):
    """Legs of a side that is faster by so much."""
    random = np.random.default_rng(seed)
    values = math.log1p(percent / 100) + scatter * random.standard_normal(count)
    return [Leg(float(v), float(v), 8, fresh) for v in values]


def test_a_leg_compares_the_slices_that_were_disturbed_least():
    leg = leg_of([2.0, 9.0, 2.1, 9.0], [4.0, 4.2, 4.2, 8.0])
    assert leg.calm == pytest.approx(math.log(2))
    assert leg.rounds == 4


def test_a_leg_knows_its_median_round():
    assert leg_of([1.0, 1.0, 1.0], [2.0, 3.0, 8.0]).typical == pytest.approx(math.log(3))


@pytest.mark.parametrize(("percent", "verdict"), [(10, "faster"), (-9, "slower")])
def test_a_clear_difference_ends_the_contest_at_the_first_look(percent, verdict):
    found = decide(legs(3, percent), Rules())
    assert (found.done, found.verdict, found.looks) == (True, verdict, 1)
    assert found.speedup.rounds == 24
    assert found.at_most_percent is None
    assert (found.speedup.low > 1) if verdict == "faster" else (found.speedup.high < 1)


def test_between_the_looks_nothing_is_said():
    assert decide(legs(5, 50), Rules()) is None
    assert decide([], Rules(), last=True) is None
    assert decide(legs(5, 50), Rules(), last=True).verdict == "faster"


def test_no_difference_is_said_with_how_large_one_may_be():
    found = decide(legs(6), Rules())
    assert (found.done, found.verdict) == (True, "no difference seen")
    assert 0 < found.at_most_percent < 2
    low, high = found.speedup.low, found.speedup.high
    assert found.at_most_percent == pytest.approx(100 * max(high - 1, 1 / low - 1))


def test_what_is_not_clear_goes_on_until_it_cannot():
    noisy = legs(9, 0, scatter=0.2)
    assert not decide(noisy, Rules()).done
    found = decide(noisy, Rules(), last=True)
    assert (found.done, found.verdict, found.at_most_percent) == (True, "too noisy to tell", None)


def test_a_difference_too_small_to_matter_is_none_even_when_it_is_sure():
    found = decide(legs(9, 0.7, scatter=0.0005), Rules())
    assert found.verdict == "no difference seen"
    assert found.speedup.low > 1
    assert decide(legs(9, 0.7, scatter=0.0005), Rules(same_percent=0.5)).verdict == "faster"


def test_the_luck_of_one_process_is_not_called_a_difference():
    percent = LUCK_PERCENT - 0.5
    assert decide(legs(9, percent, fresh=False), Rules()).verdict == "too noisy to tell"
    assert decide(legs(9, 0, fresh=False), Rules()).at_most_percent > LUCK_PERCENT
    assert decide(legs(9, percent), Rules()).verdict == "faster"
    assert decide(legs(9, LUCK_PERCENT + 1, fresh=False), Rules()).verdict == "faster"


def test_one_unlucky_process_in_five_does_not_decide():
    struck = legs(13, 5)
    struck[3] = struck[3]._replace(calm=-0.4)
    struck[7] = struck[7]._replace(calm=-0.3)
    assert decide(struck, Rules()).verdict == "faster"


def test_a_side_that_jumps_between_two_speeds_is_not_called_faster():
    """Its best slices are faster, and most of its rounds are slower."""
    random = np.random.default_rng(2)
    jumps = [
        leg_of(random.choice([0.9, 1.5], 8, p=[0.3, 0.7]).tolist(), (1 + 0.01 * random.random(8)).tolist())
        for _ in range(19)
    ]
    found = decide(jumps, Rules())
    assert found.verdict == "too noisy to tell"
    assert found.torn
    assert found.speedup.low < 0.8
    assert found.speedup.high > 1.05


def split(count, calm, typical, scatter, fresh=True):
    """Legs whose least disturbed slices say one thing, and whose median rounds another, with more noise."""
    noise = scatter * np.resize([1.0, -1.0, 0.5, -0.5], count)
    return [
        Leg(math.log1p(calm / 100) + 0.001 * n / scatter, math.log1p(typical / 100) + n, 8, fresh)
        for n in noise.tolist()
    ]


@pytest.mark.parametrize("sign", [1, -1])
def test_no_direction_is_called_that_the_median_round_contradicts(sign):
    """Both intervals touch, so noisy are the rounds; and yet most of them went the other way."""
    one = [leg._replace(calm=sign * leg.calm, typical=sign * leg.typical) for leg in split(28, 2, -5, 0.12)]
    for last in (False, True):
        found = decide(one, Rules(), last)
        assert found.verdict == "too noisy to tell"
        against = found.speedup.low if sign > 0 else 1 / found.speedup.high
        assert against < 0.95
        assert found.done is last


def test_the_verdict_is_that_of_the_printed_interval():
    """As a proof was called faster whose median rounds were in [0.019 102]."""
    wild = [leg._replace(typical=spread) for leg, spread in zip(legs(4, 60), (-2.0, 2.5, -1.5, 2.0), strict=True)]
    found = decide(wild, Rules(), last=True)
    assert found.speedup.low < 1 < found.speedup.high
    assert found.verdict == "too noisy to tell"


def test_a_planted_difference_of_ten_percent_is_never_called_none():
    for seed in range(200):
        for scatter in (0.01, 0.05, 0.1, 0.3):
            assert decide(legs(8, 10, scatter, seed=seed), Rules(), last=True).verdict != "no difference seen"


def test_fewer_legs_than_a_proof_needs_decide_nothing():
    rules = rules_of(PROOF)
    assert decide(legs(7, 60), rules, last=True).verdict == "too few rounds to tell"
    assert decide(legs(8, 60), rules, last=True).verdict == "faster"


def test_a_median_round_that_points_the_same_way_is_no_contradiction():
    found = decide(split(28, 5, 3, 0.06), Rules())
    assert (found.done, found.verdict, found.torn) == (True, "faster", False)
    assert found.speedup.low > 1


def test_the_interval_holds_the_ratios_of_the_rounds():
    """As a proof printed: 1.49x [1.27 1.76], where the median of its own rounds was 1.22."""
    drawn = np.random.default_rng(1)
    one = [
        leg_of(np.array([1.0, 1.3, 1.3, 1.4]) + 0.02 * drawn.random(4), np.array([1.49, 1.5, 1.6, 1.7]))
        for _ in range(4)
    ]
    found = decide(one, Rules(), last=True)
    typical = math.exp(np.median([leg.typical for leg in one]))
    assert typical < 1.25
    assert found.speedup.low <= typical <= found.speedup.high


def test_both_times_and_the_figure_are_of_the_same_slices():
    drawn = np.random.default_rng(2)
    one = [leg_of(2 + drawn.random(8), 3 + drawn.random(8)) for _ in range(13)]
    found = decide(one, Rules(), last=True)
    assert found.second_ms / found.first_ms == pytest.approx(found.speedup.median)
    assert 2 < found.first_ms < 2.5
    assert 3 < found.second_ms < 3.5


def test_a_difference_of_the_median_round_is_not_called_none():
    """The undisturbed slices alone would prove a difference below 2 %."""
    found = decide(split(28, 0, -5, 0.12), Rules())
    assert (found.done, found.verdict) == (False, "too noisy to tell")
    assert decide(split(28, 0, 0.5, 0.01), Rules()).at_most_percent < 2


def test_one_leg_is_too_little():
    found = decide(legs(1, 50), Rules(), last=True)
    assert (found.verdict, found.at_most_percent) == ("too few rounds to tell", None)
    assert (found.speedup.low, found.speedup.high) == (0.0, math.inf)


def test_as_many_rounds_are_run_as_were_asked_for():
    assert not decide(legs(4, 50), Rules(min_rounds=33)).done
    assert decide(legs(6, 50), Rules(min_rounds=33)).done


def test_swapping_the_sides_turns_the_answer_round():
    values = legs(6, 4, scatter=0.01)
    there = decide(values, Rules())
    back = decide([leg._replace(calm=-leg.calm, typical=-leg.typical) for leg in values], Rules())
    assert (there.verdict, back.verdict) == ("faster", "slower")
    assert back.speedup.low == pytest.approx(1 / there.speedup.high)


@pytest.mark.parametrize("terms", [CONTEST, PROOF, QUANTIZED], ids=lambda terms: terms.name)
def test_all_looks_together_err_no_more_often_than_they_may(terms):
    """The promise of `error`, where the noise is what the theory assumes, and no difference is too small."""
    random = np.random.default_rng(4)
    rules = msgspec.structs.replace(rules_of(terms), same_percent=0.0, at_most_percent=0.0)
    looks, wrong, count = [look for look in terms.looks if look <= 28], 0, 2000
    for values in 0.03 * random.standard_normal((count, looks[-1])):
        one = [Leg(v, v, 8) for v in values.tolist()]
        said = (decide(one[:look], rules, last=look == looks[-1]) for look in looks)
        wrong += any(found.verdict in {"faster", "slower"} for found in said)
    # Three standard errors above what is allowed.
    allowed = count * terms.error
    assert wrong <= allowed + 3 * math.sqrt(allowed)


def test_a_limit_that_lies_inside_the_interval_keeps_the_contest_going():
    """Slower by 3 %, which is clear at once; whether by more than 2 % is not."""
    few, more = legs(3, -3, scatter=0.003), legs(19, -3, scatter=0.003)
    limits = (1 / 1.02,)
    assert decide(few, Rules()).done
    found = decide(few, Rules(limits=limits))
    assert (found.done, found.verdict) == (False, "slower")
    assert found.speedup.low < limits[0] < found.speedup.high
    assert decide(few, Rules(limits=limits), last=True).done
    found = decide(more, Rules(limits=limits))
    assert found.done
    assert found.speedup.high < limits[0]


def test_a_decision_says_how_much_may_be_the_luck_of_its_processes():
    assert decide(legs(4, 10), Rules()).luck_percent == 0
    assert decide(legs(4, 10, fresh=False), Rules()).luck_percent == LUCK_PERCENT


def test_legs_far_apart_are_too_noisy_to_tell_and_settle_nothing():
    legs = [Leg(calm, calm, 8) for calm in (-0.9, 0.1, 0.8)]
    found = decide(legs, Rules())
    assert (found.verdict, found.done, found.at_most_percent) == ("too noisy to tell", False, None)


class Planted:
    """A side whose slices are known before: one time for each leg of two rounds."""

    name = "planted"

    def __init__(self, *times_ms, falls_in=None):
        self.times_ms, self.slices_ms, self.failure, self.error, self.falls_in = times_ms, [], None, None, falls_in

    def turn(self, _span_ms):
        leg = len(self.slices_ms) // 2
        if leg + 1 == self.falls_in:
            self.failure = "crashed"
            return None
        return self.times_ms[leg % len(self.times_ms)]

    def keep(self, _number, time_ms):
        self.slices_ms.append(time_ms)


def run(*players, maximum=41, processes=41, fresh=True, schedule=CONTEST, rounds=2):
    """`processes`: the number of times that the system starts some."""

    def renew():
        if driver.legs >= processes:
            players[1].error = TrialError("no process", code=NOT_STARTED)
            players[1].failure = "no process"
        return players

    def is_over():
        known = driver.pairs.decisions
        return all(found and found.done for k, found in enumerate(known) if driver.is_open(k))

    driver = LegDriver(
        players=players,
        schedule=schedule,
        plan=LegPlan(1.0, rounds, 0.0, fresh),
        pairs=Pairs.of(len(players) - 1, rules_of(CONTEST)),
        watch=DeviceWatch(),
        end_s=math.inf,
        renew=renew,
        is_over=is_over,
        running=players,
        max_legs=maximum,
    )
    driver.run()
    return driver


def test_legs_end_at_the_first_look_at_which_all_is_clear():
    driver = run(Planted(1.0), Planted(2.0))
    assert (driver.legs, driver.pairs.decisions[0].verdict) == (CONTEST.looks[0], "faster")
    assert driver.pairs.decisions[0].speedup.median == pytest.approx(2.0)


def test_a_verdict_stands_while_another_pair_goes_on():
    turned = (3.0, 3.0, 3.0, *repeat(0.1, 50))
    driver = run(Planted(1.0), Planted(*turned), Planted(1.0, 1.5, 0.6), maximum=6)
    assert driver.legs == 6
    assert [found.verdict for found in driver.pairs.decisions] == ["faster", "too noisy to tell"]
    assert driver.pairs.decisions[0].looks == 1


def test_who_falls_has_no_leg_of_that_and_is_not_judged_any_more():
    driver = run(Planted(1.0), Planted(1.0, 1.3, falls_in=2), Planted(1.0, 1.3), maximum=4)
    assert [len(legs) for legs in driver.pairs.legs] == [1, 4]
    assert driver.pairs.decisions[0] is None
    assert driver.pairs.decisions[1] is not None


def test_without_further_processes_the_legs_so_far_are_judged():
    driver = run(Planted(1.0), Planted(1.2, 1.3), processes=2)
    assert driver.legs == 2
    assert driver.pairs.decisions[0].done


def test_the_same_processes_are_not_started_again_and_their_legs_are_marked():
    driver = run(Planted(1.0), Planted(1.0, 1.3), maximum=4, processes=1, fresh=False)
    assert [leg.fresh for leg in driver.pairs.legs[0]] == [True, False, False, False]


def test_a_side_that_falls_ends_what_cannot_go_on_without_it():
    with pytest.raises(FallenError, match="crashed") as caught:
        run(Planted(1.0), Planted(1.0, falls_in=2), schedule=PROOF)
    assert caught.value.name == "planted"


@pytest.mark.parametrize(("schedule", "first"), [(CONTEST, "abab"), (PROOF, "abba")])
def test_legs_of_a_proof_begin_with_another_side_each_and_those_of_a_contest_go_on(schedule, first):
    order = []

    class Noted(Planted):
        def turn(self, span_ms):
            order.append(self.name)
            return super().turn(span_ms)

    players = Noted(1.0), Noted(1.0, 1.3)
    players[0].name, players[1].name = "a", "b"
    run(*players, maximum=2, schedule=schedule, rounds=4)
    assert "".join(order[0:2] + order[8:10]) == first


def test_interval_of_two_legs_far_apart_states_no_ratio():
    """A record of `bench --json` had `high: 28173401900548.97`."""
    found = decide([Leg(0.0, 0.0, 4), Leg(1.2, 1.2, 4)], Rules(), last=True)
    assert found.verdict == "too noisy to tell"
    assert found.speedup.high > 1e6
    assert found.speedup.stated is None
    narrow = decide([Leg(0.7, 0.7, 9)] * 8, Rules(), last=True)
    assert narrow.speedup.stated is narrow.speedup
