from itertools import pairwise

import msgspec
import numpy as np
import pytest

from edgeopt.errors import TrialError
from edgeopt.measure import rounds
from edgeopt.measure.contender import Contender, ask
from edgeopt.measure.messages import Loaded, Memory, Time, Timed
from edgeopt.measure.report import RoundState
from edgeopt.measure.rounds import DeviceWatch, latency_ms, run_rounds, slice_ms, speedup, take_turns
from edgeopt.measure.schedules import Schedule
from edgeopt.measure.stats import verdict


class Listed:
    """A child that needs no process: writes down when it is its turn, and answers with the next latency."""

    def __init__(self, name, turns, latencies_ms=()):
        self.name, self.turns, self.latencies_ms = name, turns, list(latencies_ms)

    def send(self, line):
        assert msgspec.json.decode(line)["type"] == "time"
        self.turns.append(self.name)

    def receive(self, _timeout_s):
        if not self.latencies_ms:
            return msgspec.json.encode(Timed((1.0,), Memory()))
        return msgspec.json.encode(Timed((self.latencies_ms.pop(0),), Memory()))

    def close(self):
        """Nothing to close."""


def listed(names, rounds):
    """The order of the turns, one string a round."""
    turns = []
    contenders = [Contender(name, Listed(name, turns), Loaded((), (), 0, 0, Memory())) for name in names]
    run_rounds(contenders, rounds, 1)
    return ["".join(turns[k : k + len(names)]) for k in range(0, len(turns), len(names))]


@pytest.mark.parametrize("names", ["A", "AB", "ABC", "ABCD", "ABCDE"])
def test_everyone_has_one_turn_a_round(names):
    orders = listed(names, 2 * len(names))
    assert len(orders) == 2 * len(names)
    assert all(sorted(order) == list(names) for order in orders)


@pytest.mark.parametrize("names", ["AB", "ABC", "ABCD", "ABCDE"])
def test_everyone_is_first_and_last_equally_often(names):
    orders = listed(names, 2 * len(names))
    for place in (0, -1):
        assert sorted(order[place] for order in orders) == sorted(2 * names)


@pytest.mark.parametrize("names", ["AB", "ABC", "ABCD", "ABCDE"])
def test_nobody_always_follows_the_same_neighbour(names):
    followed = {pair for order in listed(names, 2 * len(names)) for pair in pairwise(order)}
    assert all((b, a) in followed for a, b in followed)


def test_the_ratio_is_taken_within_each_round():
    """The machine gets ten times slower half-way; the ratio of the sides stays."""
    slow, fast = [2.0] * 4 + [20.0] * 4, [1.0] * 4 + [10.0] * 4
    sides = [
        Contender(n, Listed(n, [], ms), Loaded((), (), 0, 0, Memory())) for n, ms in (("A", slow), ("B", fast))
    ]
    run_rounds(sides, 8, 1)
    interval = speedup(*sides)
    assert (interval.low, interval.median, interval.high) == pytest.approx((2.0, 2.0, 2.0))
    assert interval.rounds == 8


def test_one_who_came_later_is_compared_over_the_rounds_that_both_ran():
    early = Contender("A", Listed("A", [], [9.0, 9.0, 2.0, 2.0, 2.0]), Loaded((), (), 0, 0, Memory()))
    late = Contender("B", Listed("B", []), Loaded((), (), 0, 0, Memory()))
    run_rounds([early], 2, 1)
    run_rounds([early, late], 3, 1)
    assert (speedup(early, late).median, speedup(early, late).rounds) == (pytest.approx(2.0), 3)


@pytest.mark.parametrize(("latency_ms", "span_ms"), [(0.01, 40), (4, 40), (10, 100), (100, 400), (5000, 400)])
def test_a_slice_holds_several_runs_within_bounds(latency_ms, span_ms, monkeypatch):
    monkeypatch.setattr(rounds, "SHORTEST_SLICE_MS", 40.0)  # that of other tests is shorter
    assert slice_ms(latency_ms) == span_ms


@pytest.mark.timing
def test_equal_contenders_come_out_equal(contender):
    sides = contender("a", latency_ms=3), contender("b", latency_ms=3)
    run_rounds(list(sides), 9, 20)
    interval = speedup(*sides)
    assert interval.low < 1.03
    assert interval.high > 0.97


@pytest.mark.timing
def test_twice_the_latency_is_half_the_speed(contender):
    sides = contender("a", latency_ms=3), contender("b", latency_ms=6)
    run_rounds(list(sides), 9, 25)
    interval = speedup(*sides)
    assert 0.4 < interval.median < 0.6
    assert verdict(interval) == "slower"
    assert verdict(speedup(*reversed(sides))) == "faster"


@pytest.mark.timing
def test_a_contender_keeps_its_slices_its_latencies_and_its_memory(contender):
    one = contender("a", latency_ms=2)
    run_rounds([one], 3, 15)
    assert len(one.slices_ms) == 3
    assert len(one.latencies_ms) >= 3
    assert np.median(one.latencies_ms) == pytest.approx(np.median(one.slices_ms), rel=0.5)
    assert one.memory is not None
    assert one.failure is None


def test_who_falls_in_the_middle_is_marked_and_the_others_go_on(contender):
    first, doomed, last = contender("first"), contender("doomed"), contender("last")
    run_rounds([first, doomed, last], 2, 1)
    doomed.child._process.kill()
    run_rounds([first, doomed, last], 3, 1)
    assert doomed.failure.startswith("was killed by the system, perhaps for memory")
    assert len(doomed.slices_ms) == 2
    assert [len(c.slices_ms) for c in (first, last)] == [5, 5]
    assert (first.failure, last.failure) == (None, None)
    assert speedup(first, last).rounds == 5


def test_a_failed_contender_is_not_asked_again():
    turns = []
    gone = Contender("B", Listed("B", turns), Loaded((), (), 0, 0, Memory()), failure="crashed: SIGSEGV")
    run_rounds([Contender("A", Listed("A", turns), Loaded((), (), 0, 0, Memory())), gone], 3, 1)
    assert turns == ["A"] * 3


def test_a_slice_of_a_model_that_fails_is_a_failure_with_its_reason(start, load_null, samples):
    one = Contender("never loaded", start(), Loaded((), (), 0, 0, Memory()))
    run_rounds([one], 1, 1)
    assert one.failure == "failed: The trial was asked to run before a model was loaded."
    assert one.slices_ms == []
    assert isinstance(ask(one.child, load_null()), Loaded)
    assert isinstance(ask(one.child, Time(1)), Timed)


@pytest.mark.timing
def test_a_first_idea_of_the_latency(contender):
    assert 4 < latency_ms(contender("a", latency_ms=4)) < 12


def test_a_first_idea_of_a_model_that_fails_is_its_reason(contender):
    one = contender("a")
    one.child._process.kill()
    with pytest.raises(TrialError, match="killed by the system"):
        latency_ms(one)


class Simple:
    failure = None


FIVE = Schedule("five", (2, 5), fewest=2)


def test_rounds_are_numbered_and_it_is_looked_where_the_table_says():
    one, other, turns = Simple(), Simple(), []

    def turn(player):
        turns.append(player)
        return 1.0

    rounds = list(take_turns([one, other], FIVE, turn, first=7))
    assert turns[:4] == [one, other, one, other], "as the eighth and ninth of all rounds"
    assert [(each.number, each.done) for each in rounds] == [(7 + k, k + 1) for k in range(5)]
    assert [each.done for each in rounds if each.is_look] == [2, 5]
    assert [each.done for each in take_turns([Simple()], FIVE, lambda _: 1.0, rounds=3)] == [1, 2, 3]


def test_however_late_it_is_the_fewest_are_run_and_then_nobody_looks():
    rounds = list(take_turns([Simple()], FIVE, lambda _: 1.0, is_late=lambda: True))
    assert [(each.done, each.is_look) for each in rounds] == [(1, False), (2, False)]


def test_who_falls_gives_nothing_and_leaves_and_who_is_taken_out_has_no_turn():
    steady, falling, taken_out = Simple(), Simple(), Simple()
    players, turns = [steady, falling, taken_out], []

    def turn(player):
        turns.append(player)
        if player is falling and turns.count(falling) == 2:
            raise TrialError("crashed")
        return 1.0

    for each in take_turns(players, FIVE, turn):
        assert falling not in dict(each.taken) or each.done < 2
        if each.done == 3:
            players.remove(taken_out)
    assert falling.failure == "crashed"
    assert [turns.count(each) for each in (steady, falling, taken_out)] == [5, 2, 3]


def test_where_a_fall_ends_it_no_further_round_is_run():
    falling, turns = Simple(), []

    def turn(player):
        turns.append(player)
        if player is falling:
            raise TrialError("crashed")

    terms = msgspec.structs.replace(FIVE, falls="ends it")
    assert list(take_turns([Simple(), falling], terms, turn)) == []
    assert len(turns) == 2


def test_spoilt_rounds_are_run_again_so_many_times_and_count_then():
    class State:
        judge_others = True
        begin_round = staticmethod(lambda _number: None)

        def end_round(self):
            return RoundState(0, 0.0, 0.1, bad=("others are busy",))

    watch = DeviceWatch(State(), repeats=2)
    turns = [each.number for each in take_turns([Simple()], FIVE, lambda _: 1.0, watch)]
    assert turns == [0, 1, 2, 3, 4]
    assert [state.repeated for state in watch.states] == [True, True, *[False] * 5]
    assert "2 repeated and left out" in watch.sentence
