"""Legs of planted times: who is judged when, and what ends it."""

from itertools import repeat

import pytest

from edgeopt.measure.sequential import Pairs, leg_after_leg, rules_of
from edgeopt.measure.terms import CONTEST

RULES = rules_of(CONTEST)


class Planted:
    """A side whose slices are known before."""

    def __init__(self, *times_ms):
        self.times_ms, self.slices_ms, self.failure = times_ms, [], None


class Match:
    """Legs of two rounds; in each, a side has its next time."""

    is_fresh = True

    def __init__(self, players, most=41, processes=41, falls_in=None):
        self.players, self.most, self.left, self.falls_in = players, most, processes - 1, falls_in
        self.legs = 0
        self.pairs = Pairs.of(len(players) - 1, RULES)

    def renew(self):
        self.left -= 1
        return self.left >= 0

    def run_leg(self):
        for player in self.players:
            if player.failure is None:
                player.slices_ms += [player.times_ms[self.legs % len(player.times_ms)]] * 2
        self.legs += 1
        if self.legs == self.falls_in:
            self.players[1].failure = "crashed"
        return 2

    def is_open(self, place):
        return self.players[place + 1].failure is None

    def is_last(self):
        return self.legs >= self.most

    def is_over(self):
        return all(found and found.done for k, found in enumerate(self.pairs.decisions) if self.is_open(k))


def run(*players, **told):
    match = Match(players, **told)
    leg_after_leg(match, match.pairs)
    return match


def test_legs_end_at_the_first_look_at_which_all_is_clear():
    match = run(Planted(1.0), Planted(2.0))
    assert (match.legs, match.pairs.decisions[0].verdict) == (CONTEST.looks[0], "faster")
    assert match.pairs.decisions[0].speedup.median == pytest.approx(2.0)


def test_a_verdict_stands_while_another_pair_goes_on():
    turned = (3.0, 3.0, 3.0, *repeat(0.1, 50))
    match = run(Planted(1.0), Planted(*turned), Planted(1.0, 1.5, 0.6), most=6)
    assert match.legs == 6
    assert [found.verdict for found in match.pairs.decisions] == ["faster", "too noisy to tell"]
    assert match.pairs.decisions[0].looks == 1


def test_who_falls_has_no_leg_of_that_and_is_not_judged_any_more():
    match = run(Planted(1.0), Planted(1.0, 1.3), Planted(1.0, 1.3), most=4, falls_in=2)
    assert [len(legs) for legs in match.pairs.legs] == [1, 4]
    assert match.pairs.decisions[0] is None
    assert match.pairs.decisions[1] is not None


def test_without_further_processes_the_legs_so_far_are_judged():
    match = run(Planted(1.0), Planted(1.2, 1.3), processes=2)
    assert match.legs == 2
    assert match.pairs.decisions[0].done


def test_the_same_processes_are_not_started_again_and_their_legs_are_marked():
    players = (Planted(1.0), Planted(1.0, 1.3))
    match = Match(players, most=4, processes=1)
    match.is_fresh = False
    leg_after_leg(match, match.pairs)
    assert [leg.fresh for leg in match.pairs.legs[0]] == [True, False, False, False]
