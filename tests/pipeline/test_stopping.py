"""The time that is left of a search: one clock, whatever stage tells it."""

import math
import threading
from types import SimpleNamespace

import pytest

from edgeopt import events
from edgeopt.pipeline import stopping
from edgeopt.pipeline.stopping import ClockedEmit, SearchClock, StopControl


@pytest.fixture
def time(monkeypatch):
    """Set by hand."""
    found = SimpleNamespace(now_s=0.0)
    monkeypatch.setattr(stopping, "time", SimpleNamespace(monotonic=lambda: found.now_s))
    return found


@pytest.fixture
def heard():
    return []


@pytest.fixture
def emit(heard):
    """Of a search of 60 s, 20 of them for the proof, which may become twice as long."""
    loaded = SimpleNamespace(load_ms=10.0, first_run_ms=2.0, import_ms=150.0)
    source = SimpleNamespace(slices_ms=[2.0], loaded=loaded)
    clocked = ClockedEmit(heard.append)
    clock = SearchClock(0.0, 60.0, 20.0)
    clocked.control = StopControl(threading.Event(), clock, source, clocked, longest_s=120.0)
    return clocked


def left(heard):
    return [event.time_left_s for event in heard if isinstance(event, events.Progress)]


def test_every_stage_tells_the_time_that_is_left_of_the_whole_search(emit, heard, time):
    for phase, at_s in (("making variants", 5.0), ("racing", 12.0), ("proving", 45.0)):
        time.now_s = at_s
        emit(events.Progress(phase))
    assert left(heard) == [55.0, 48.0, 15.0]


def test_time_is_not_told_before_the_limit_is_known(heard):
    ClockedEmit(heard.append)(events.Progress("reading the model"))
    assert left(heard) == [None]


def test_search_that_takes_longer_tells_so_at_once(emit, heard, time):
    time.now_s = 40.0
    emit(events.Progress("making variants", "nncf-int8"))
    emit.control.extend(25.0, "NNCF took long")
    assert [type(event) for event in heard] == [events.Progress, events.Log, events.Progress]
    assert "the search takes about 25 s longer" in heard[1].message
    assert heard[2] == events.Progress("making variants", "nncf-int8", time_left_s=45.0)
    emit(events.Log("info", "Another thing."))
    assert isinstance(heard[-1], events.Log), "the time is told again only where it changed"


def test_search_that_is_asked_to_end_tells_the_time_until_the_last_proof(emit, heard, time):
    time.now_s = 10.0
    emit(events.Progress("racing"))
    emit.control.stop.set()
    emit.control.record_stop("racing")
    assert heard[1].phase == stopping.STOPPING
    assert heard[1].time_left_s < left(heard)[0]
    assert f"about {math.ceil(heard[1].time_left_s)} s" in heard[-1].message


def test_time_that_is_over_is_none_left(emit, heard, time):
    time.now_s = 75.0
    emit(events.Progress("proving"))
    assert left(heard) == [0.0]


def test_generated_tokens_of_a_decoder_have_time_kept_for_them(emit, time):
    source = emit.control.baseline
    plain, decoder = (stopping.clock_for(0.0, 600.0, source, seconds) for seconds in (0.0, 30.0))
    assert decoder.proof_s == pytest.approx(plain.proof_s + 30.0)

    proof_s = stopping.proof_seconds(source)
    control = StopControl(threading.Event(), SearchClock(0.0, 600.0), source, emit, generation_s=30.0)
    time.now_s = control.proofs_end_s - proof_s - 20.0
    assert not control.has_time_to_prove
    assert control.generation_left_s == pytest.approx(20.0)
    time.now_s = 600.0
    assert control.generation_left_s == 0.0
    control.announce()
    assert control.generation_left_s == pytest.approx(30.0)


def test_a_proof_beyond_the_time_limit_is_part_of_the_time_that_is_left(emit, time):
    source = emit.control.baseline
    control = StopControl(threading.Event(), SearchClock(0.0, 60.0), source, emit, generation_s=100.0)
    proof_s = stopping.proof_seconds(source) + 100.0
    time.now_s = 70.0
    assert control.left_s == pytest.approx(proof_s)
    control.begin_proof()
    time.now_s = 90.0
    assert control.left_s == pytest.approx(proof_s - 20.0)
    time.now_s = 1000.0
    assert control.left_s == 0.0
