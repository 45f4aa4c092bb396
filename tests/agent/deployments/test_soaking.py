"""What a soaking release is held against; the rest of a soak is tried on whole agents in test_machine.py."""

import asyncio
import os
from collections import deque
from types import SimpleNamespace

import msgspec
import pytest

from edgeopt_agent.data_dir import open_data_dir
from edgeopt_agent.deployments.observed import Observed
from edgeopt_agent.deployments.record import Record
from edgeopt_agent.deployments.refused import StepError
from edgeopt_agent.deployments.site import Site, Work, first_of
from edgeopt_agent.deployments.soaking import _Limits
from edgeopt_agent.settings import Settings


@pytest.fixture
def limits(tmp_path, old_bundle):
    """Makes the limits of a release whose bundle says 1 ms, after one that took so many ms."""
    with open_data_dir(tmp_path / "data") as data:
        data.release("new").symlink_to(old_bundle)

        def make(old_ms=(), **settings):
            observed = Observed()
            for latency_ms in old_ms:
                observed.watch("old", True, latency_ms, "")
            chosen = msgspec.structs.replace(Settings(data_dir=data.root), **settings)
            site = Site(chosen, data, None, None, None, observed)
            work = Work(Record(id=1, release="new", old="old"))
            return _Limits(site, work, SimpleNamespace(pid=os.getpid())), observed.begin("new"), observed

        yield make


def test_a_single_failure_among_many_requests_is_borne(limits):
    judge, seen, observed = limits()
    for number in range(200):
        observed.watch("new", number != 7, 1.0, "why")
    judge.judge_requests(seen)
    for _ in range(2):
        observed.watch("new", False, 1.0, "the model failed")
    with pytest.raises(StepError, match=r"3 of 202 requests failed while it soaked: the model failed"):
        judge.judge_requests(seen)


def test_a_failure_among_the_first_requests_is_not(limits):
    judge, seen, observed = limits()
    observed.watch("new", False, 1.0, "the model failed")
    with pytest.raises(StepError, match="1 of 1 requests failed"):
        judge.judge_requests(seen)


def test_slow_requests_are_held_against_the_release_before(limits):
    judge, seen, observed = limits(old_ms=[10.0] * 100)
    for latency_ms in [10.0] * 97 + [34.0] * 3:
        observed.watch("new", True, latency_ms, "")
    judge.judge_requests(seen)
    for _ in range(5):
        observed.watch("new", True, 50.0, "")
    with pytest.raises(StepError, match=r"takes longer than 50 ms; .* at most 35 ms"):
        judge.judge_requests(seen)


def test_without_enough_requests_before_there_is_nothing_to_hold_them_against(limits):
    judge, seen, observed = limits(old_ms=[10.0] * 10)
    for _ in range(100):
        observed.watch("new", True, 500.0, "")
    judge.judge_requests(seen)


def test_golden_inputs_that_get_slower_are_held_against_the_bundle_and_one_slow_run_is_not(limits):
    judge, _, _ = limits()
    judge.judge_own(deque([1.0, 1.0, 90.0, 1.0, 1.0]))
    judge.judge_own(deque([90.0, 90.0]))
    with pytest.raises(StepError, match=r"take 9 ms while it soaks; by its bundle, at most 8 ms"):
        judge.judge_own(deque([1.0, 9.0, 9.0, 9.0, 1.0]))


def test_waiting_ends_with_the_first_event():
    async def wait():
        one, other = asyncio.Event(), asyncio.Event()
        asyncio.get_running_loop().call_soon(other.set)
        await asyncio.wait_for(first_of((one, other), None), 5)
        await first_of((one,), 0.0)
        return one.is_set()

    assert asyncio.run(wait()) is False
