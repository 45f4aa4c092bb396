import os
import signal
import time

import pytest

from edgeopt import events
from edgeopt.events import Metric
from edgeopt.measure.contender import Side
from edgeopt.measure.contest import contest
from edgeopt.measure.host import LocalHost
from edgeopt.measure.instruments.energy import EnergyMeter
from edgeopt.measure.sequential import Rules

FEW = Rules(rounds_least=4, rounds_most=4)


class Rail:
    """A source that draws four watts and needs so long."""

    name = "a rail"

    def __init__(self, resolution_s):
        self.resolution_s = resolution_s

    def joules(self):
        return 4.0 * time.monotonic()


@pytest.fixture
def measured(load_null):
    """The energy of a side whose slices last some 40 ms."""

    def run(resolution_s, emit=events.ignore, host=None):
        sides = [Side("model", load_null("model", latency_ms=2))]
        meter = EnergyMeter((Rail(resolution_s),), idle_watts=1.0)
        return contest(host or LocalHost(), sides, FEW, emit, meter=meter)

    return run


@pytest.mark.timing
def test_where_slices_are_too_short_for_the_meter_a_longer_one_tells(measured):
    (side,) = measured(0.6).sides
    assert max(piece.seconds for piece in side.slices) < 0.6
    assert side.energy.reason == ""
    # Four watts for two milliseconds, or for more where others take the cores.
    assert 0.0079 < side.energy.joules_per_run < 0.08
    assert side.energy.net_joules_per_run == pytest.approx(0.75 * side.energy.joules_per_run, rel=0.02)
    # It is for energy alone.
    assert len(side.slices) == 4


def test_nobody_waits_for_a_meter_that_needs_long(measured):
    begin = time.monotonic()
    (side,) = measured(30).sides
    assert time.monotonic() - begin < 30
    assert "needs 30 s of one side without interruption" in side.energy.reason


def test_a_crash_in_it_takes_nothing_from_what_was_measured(measured):
    class Known(LocalHost):
        def start(self, *module):
            self.child = super().start(*module)
            return self.child

    host, told = Known(), []

    def kill_at_the_end(event):
        told.extend([event] if isinstance(event, events.Progress) and event.done == 4 else [])
        if told and isinstance(event, Metric) and event.name == "process_memory_bytes":
            os.kill(host.child.pid, signal.SIGKILL)

    (side,) = measured(0.6, kill_at_the_end, host).sides
    assert told
    assert side.failure is None
    assert len(side.slices) == 4
    assert "needs 0.6 s" in side.energy.reason
