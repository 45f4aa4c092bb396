"""Real processes of null models: a proof of speed is judged over legs of fresh ones."""

import os
import signal
import time
from contextlib import ExitStack
from types import SimpleNamespace

import pytest

from edgeopt.measure import legs
from edgeopt.measure.contender import Side
from edgeopt.measure.host import TRIAL_MODULE, LocalHost
from edgeopt.measure.legs import (
    FEWEST,
    SHORT_FEWEST,
    FallenError,
    Starter,
    Terms,
    affords,
    is_settled,
    leg_rounds,
    run_legs,
)
from edgeopt.measure.rounds import run_rounds
from edgeopt.measure.sequential import Decision
from edgeopt.measure.stats import Interval
from edgeopt.measure.terms import PROOF

SPAN_MS = 5.0


class Noted(LocalHost):
    """The local machine, which notes what it starts; before each leg, something may be done."""

    def __init__(self, before_leg):
        super().__init__(seed=1)
        self.pids, self._before_leg = [], before_leg

    def start(self, module=TRIAL_MODULE):
        self._before_leg(len(self.pids) // 2)
        child = super().start(module)
        self.pids.append(child.pid)
        return child


@pytest.fixture
def prove(load_null):
    """Legs of two null models, of which the other's latency may differ by leg."""
    hosts = []

    def run(first_ms, other_ms, most=13, left_s=60.0, spoil=None, starting_s=None, **terms):
        def before_leg(number):
            load_null("first", latency_ms=first_ms)
            load_null("other", latency_ms=other_ms(number) if callable(other_ms) else other_ms)

        host = Noted(before_leg)
        hosts.append(host)
        before_leg(0)
        sides = [Side(name, load_null(name)) for name in ("first", "other")]
        with ExitStack() as stack:
            starter = Starter(host, sides, stack)
            pack = starter.first()
            run_rounds(list(pack.every), 1, SPAN_MS)
            pack.forget()
            if spoil:
                spoil(pack)
            starter.seconds = starting_s or starter.seconds
            terms = Terms(PROOF, most, time.monotonic() + left_s, range(1), **terms)
            found = run_legs(pack, starter, terms, SPAN_MS)
        (decision,) = found.decisions
        return SimpleNamespace(found=found, decision=decision, pack=pack, pids=host.pids)

    run.hosts = hosts
    return run


def legs_of(seen):
    return len(seen.found.pairs.legs[0])


@pytest.mark.timing
def test_what_is_surely_faster_is_called_so_by_fresh_processes(prove, ends):
    seen = prove(first_ms=1.0, other_ms=4.0)
    assert seen.decision.verdict == "faster"
    assert 1 < seen.decision.speedup.low <= seen.decision.speedup.median
    assert FEWEST <= legs_of(seen) == seen.found.processes
    assert len(set(seen.pids)) == 2 * seen.found.processes, "each leg has its own"
    rounds = sum(leg.rounds for leg in seen.found.pairs.legs[0])
    assert len(seen.pack.first.slices_ms) == len(seen.pack.others[0].slices_ms) == rounds
    assert len(seen.found.states) == seen.decision.speedup.rounds == rounds
    assert not seen.found.warning
    assert ends(*seen.pids)


@pytest.mark.timing
def test_what_one_process_is_lucky_in_is_not_called_faster(prove):
    """As the first pair alone would have it, however many rounds it ran."""
    seen = prove(first_ms=1.0, other_ms=lambda leg: 1.5 if leg == 0 else 1.0)
    assert seen.found.pairs.legs[0][0].calm > 0.1
    assert seen.decision.verdict == "no difference seen"


@pytest.mark.timing
def test_as_many_as_are_evidence_run_even_when_time_is_over_and_not_many_more(prove, monkeypatch):
    monkeypatch.setattr(legs, "LONGEST_S", 0.0)
    seen = prove(first_ms=3.0, other_ms=3.1, left_s=-1.0, starting_s=0.01, patience_s=0.0)
    assert FEWEST <= legs_of(seen) <= SHORT_FEWEST
    seen = prove(first_ms=0.1, other_ms=0.1, left_s=-1.0, starting_s=0.01, patience_s=0.0)
    assert seen.found.processes == legs_of(seen) == SHORT_FEWEST


@pytest.mark.timing
def test_one_that_is_stopped_runs_as_many_as_it_may_then(prove):
    asked = []

    def is_stopped():
        asked.append(True)
        return True

    seen = prove(first_ms=3.0, other_ms=3.2, is_stopped=is_stopped, most_stopped=4)
    assert FEWEST <= legs_of(seen) <= 4
    assert len(asked) > len(seen.found.states), "before each round, so that it can be told at once"


@pytest.mark.timing
def test_where_starting_takes_too_long_the_same_processes_run_on_and_less_is_called(prove):
    seen = prove(first_ms=3.0, other_ms=3.09, most=4, left_s=-1.0, starting_s=100.0)
    assert len(seen.pids) == 2
    assert seen.found.processes == 1
    assert [leg.fresh for leg in seen.found.pairs.legs[0]] == [True] + (legs_of(seen) - 1) * [False]
    assert seen.decision.verdict != "faster", "3 % may be luck"
    assert "differences below 4 % may be chance of one process" in seen.found.warning


def test_one_that_falls_ends_it_and_leaves_no_process(prove, ends):
    with pytest.raises(FallenError) as caught:
        prove(1.0, 1.0, spoil=lambda pack: os.kill(pack.others[0].child.pid, signal.SIGKILL))
    assert caught.value.name == "other"
    assert ends(*prove.hosts[0].pids)


def test_one_that_cannot_load_is_named(load_null, ends):
    host = Noted(lambda _: None)
    sides = [Side("fine", load_null("fine")), Side("broken", load_null("broken", fail="load"))]
    with pytest.raises(FallenError, match="as planted") as caught, ExitStack() as stack:
        Starter(host, sides, stack).first()
    assert caught.value.name == "broken"
    assert ends(*host.pids)


@pytest.mark.parametrize(
    ("left_s", "starting_s", "running_s", "enough"),
    [(60.0, 1.0, 0.5, True), (0.0, 1.0, 0.5, True), (0.0, 20.0, 0.5, False), (60.0, 20.0, 0.5, True)],
    ids=["quick", "quick and late", "slow and late", "slow and early"],
)
def test_fresh_processes_where_there_is_time_for_them(left_s, starting_s, running_s, enough):
    assert affords(time.monotonic() + left_s, starting_s, running_s) == enough


def test_rounds_do_not_take_longer_than_half_of_the_start_but_there_are_enough():
    assert [leg_rounds(1.0, each) for each in (0.001, 0.08, 0.1, 0.5)] == [8, 6, 5, 4]


def decision(verdict, low, median, high):
    return Decision(verdict != "no difference seen", verdict, Interval(median, low, high, 18, 0.99), None, 1)


CLEAR, SLOWER = decision("faster", 1.1, 1.2, 1.3), decision("slower", 0.7, 0.8, 0.9)
PROMISING, NOTHING, WORSE = (decision("no difference seen", 0.9, median, 1.3) for median in (1.1, 1.01, 0.99))


@pytest.mark.parametrize(
    ("decisions", "wanted", "at"),
    [
        ([CLEAR], [0], 1),
        ([CLEAR, SLOWER], [0, 1], 1),
        ([PROMISING], [0], None),
        ([NOTHING], [0], 6),
        ([WORSE], [0], 1),
        ([CLEAR, NOTHING], [0, 1], 6),
        ([CLEAR, PROMISING], [0, 1], None),
        ([WORSE, PROMISING], [1], None),
        ([PROMISING, None], [0], None),
        ([CLEAR, None], [0], None),
    ],
)
def test_legs_go_on_while_it_is_not_clear_and_worth_it(decisions, wanted, at):
    assert next((count for count in range(1, 14) if is_settled(decisions, wanted, count)), None) == at
