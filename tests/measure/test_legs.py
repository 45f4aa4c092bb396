"""Real processes of null models: a proof of speed is judged over legs of fresh ones."""

import os
import signal
import time
from contextlib import ExitStack
from types import SimpleNamespace

import msgspec
import pytest

from edgeopt.measure.contender import Contender, Side
from edgeopt.measure.legs import (
    FEWEST,
    SLOW_FEWEST,
    SLOW_LOAD_MS,
    FallenError,
    Starter,
    Terms,
    is_settled,
    leg_rounds,
    run_legs,
)
from edgeopt.measure.rounds import run_rounds
from edgeopt.measure.schedules import PROOF
from edgeopt.measure.sequential import Decision
from edgeopt.measure.stats import Interval
from edgeopt.workers.host import LocalHost
from edgeopt.workers.tasks import TRIAL

SPAN_MS = 5.0


class Noted(LocalHost):
    """The local machine, which notes what it starts; before each leg, something may be done."""

    def __init__(self, before_leg):
        super().__init__(seed=1)
        self.pids, self._before_leg = [], before_leg

    def start(self, task=TRIAL):
        self._before_leg(len(self.pids) // 2)
        child = super().start(task)
        self.pids.append(child.pid)
        return child


@pytest.fixture
def prove(load_null):
    """Legs of two null models, of which the other's latency may differ by leg."""
    hosts = []

    def run(first_ms, other_ms, maximum=13, left_s=60.0, spoil=None, load_ms=None, **terms):
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
            if load_ms is not None:
                pack.first.loaded = msgspec.structs.replace(pack.first.loaded, load_ms=load_ms)
            terms = Terms(PROOF, maximum, time.monotonic() + left_s, range(1), **terms)
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
    assert FEWEST <= legs_of(seen) == seen.found.legs
    assert len(set(seen.pids)) == 2 * seen.found.legs, "each leg has its own"
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
    assert seen.decision.verdict != "faster"


def test_a_proof_without_time_for_enough_processes_ends_at_once_and_decides_nothing(prove):
    seen = prove(first_ms=1.0, other_ms=4.0, left_s=0.0)
    assert seen.found.legs == 1
    assert seen.decision.verdict == "too few rounds to tell"
    assert "The time limit left 1 start of fresh processes, and a proof needs 8" in seen.found.warning
    assert str(seen.decision.speedup) == "no usable interval"


def test_each_leg_has_fresh_processes_and_begins_with_another_side(prove):
    """A slice after one's own is undisturbed: in one order for all legs, a side was 6 % faster than itself."""
    order = []
    turn = Contender.turn

    def noted(contender, span_ms):
        order.append(contender.name)
        return turn(contender, span_ms)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Contender, "turn", noted)
        seen = prove(first_ms=1.0, other_ms=4.0)
    each = len(order) // seen.found.legs
    starts = [order[k * each] for k in range(seen.found.legs)]
    assert starts.count("first") == starts.count("other")
    assert seen.found.legs >= FEWEST
    assert [leg.fresh for leg in seen.found.pairs.legs[0]] == seen.found.legs * [True]
    assert len(set(seen.pids)) == 2 * seen.found.legs


def test_a_model_that_loads_slowly_is_judged_by_fewer_processes(prove):
    assert prove(first_ms=1.0, other_ms=9.0, maximum=3, load_ms=SLOW_LOAD_MS).found.fewest == SLOW_FEWEST


@pytest.mark.timing
def test_one_that_is_stopped_runs_as_many_as_are_evidence(prove):
    asked = []

    def is_stopped():
        asked.append(True)
        return True

    seen = prove(first_ms=3.0, other_ms=3.2, is_stopped=is_stopped)
    assert legs_of(seen) == FEWEST
    assert len(asked) > len(seen.found.states), "before each round, so that it can be told at once"


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


def test_rounds_take_about_as_long_as_the_start_and_are_even():
    assert [leg_rounds(1.0, each) for each in (0.001, 0.08, 0.12, 0.5)] == [8, 6, 4, 2]


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
        ([NOTHING], [0], 8),
        ([WORSE], [0], 1),
        ([CLEAR, NOTHING], [0, 1], 8),
        ([CLEAR, PROMISING], [0, 1], None),
        ([WORSE, PROMISING], [1], None),
        ([PROMISING, None], [0], None),
        ([CLEAR, None], [0], None),
    ],
)
def test_legs_go_on_while_it_is_not_clear_and_worth_it(decisions, wanted, at):
    assert next((count for count in range(1, 14) if is_settled(decisions, wanted, count)), None) == at
