"""What a soaking release is held against; the rest of a soak is tried on whole agents in test_machine.py."""

import asyncio
import itertools
import os
from collections import deque
from types import SimpleNamespace

import msgspec
import pytest

from edgeopt_agent.data_dir import open_data_dir
from edgeopt_agent.deployments.observed import Observed
from edgeopt_agent.deployments.probing import _quick_enough
from edgeopt_agent.deployments.record import Record
from edgeopt_agent.deployments.refused import StepError
from edgeopt_agent.deployments.site import Site, Work, first_of
from edgeopt_agent.deployments.soaking import _Limits, _rest_s, soak
from edgeopt_agent.settings import Settings
from edgeopt_agent.workers.frames import Golden
from edgeopt_agent.workers.router import Router
from edgeopt_agent.workers.shadow import Shadow


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
            site = Site(chosen, data, None, Router(chosen), None, observed)
            work = Work(Record(id=1, release="new", old="old"))
            return _Limits(site, work, SimpleNamespace(pid=os.getpid())), observed.begin("new"), observed

        yield make


def test_a_single_failure_among_many_requests_is_borne(limits):
    judge, seen, observed = limits()
    for number in range(200):
        observed.watch("new", number != 7, 1.0, "why", number)
    judge.judge_requests(seen)
    for number in range(2):
        observed.watch("new", False, 1.0, "the model failed", number)
    with pytest.raises(StepError, match=r"3 of 202 requests failed during the soak: the model failed") as caught:
        judge.judge_requests(seen)
    assert not caught.value.fault


def test_a_release_is_judged_by_enough_requests_and_different_failures(limits):
    judge, seen, observed = limits()
    for _ in range(30):
        observed.watch("new", False, 1.0, "the model failed", 1)
    judge.judge_requests(seen)
    judge, seen, observed = limits()
    for number in range(5):
        observed.watch("new", False, 1.0, "the model failed", number)
    judge.judge_requests(seen, own_requests=14)
    with pytest.raises(StepError, match="5 of 5 requests failed"):
        judge.judge_requests(seen, own_requests=15)


def test_memory_that_grows_with_the_requests_of_clients_is_not_the_release_s(limits, monkeypatch):
    judge, seen, observed = limits(memory_factor=1.0, memory_slack_bytes=10)
    monkeypatch.setattr("edgeopt_agent.deployments.soaking.process_memory_bytes", lambda _pid: sizes.pop(0))
    sizes = [100]
    judge.follow(SimpleNamespace(pid=1))
    observed.watch("new", True, 1.0, "")
    sizes = [500, 510]
    judge.judge_memory(seen)
    judge.judge_memory(seen)
    sizes = [511]
    with pytest.raises(StepError, match="Its worker grew to"):
        judge.judge_memory(seen)


def test_slow_requests_are_held_against_the_release_before(limits):
    judge, seen, observed = limits(old_ms=[10.0] * 100)
    for latency_ms in [10.0] * 97 + [34.0] * 3:
        observed.watch("new", True, latency_ms, "")
    judge.judge_requests(seen)
    for _ in range(5):
        observed.watch("new", True, 50.0, "")
    with pytest.raises(StepError, match=r"takes longer than 50.0 ms; .* at most 35.0 ms"):
        judge.judge_requests(seen)


def test_without_enough_requests_before_there_is_nothing_to_hold_them_against(limits):
    judge, seen, observed = limits(old_ms=[10.0] * 10)
    for _ in range(100):
        observed.watch("new", True, 500.0, "")
    judge.judge_requests(seen)
    judge, seen, observed = limits(old_ms=[10.0] * 100)
    for _ in range(100):
        observed.watch("new", True, 500.0, "")
    with pytest.raises(StepError, match="takes longer than 500 ms"):
        judge.judge_requests(seen)


@pytest.mark.parametrize(("count", "slow"), [(50, 2), (99, 2), (200, 2), (1000, 10)])
def test_a_few_slow_requests_are_noise(limits, count, slow):
    judge, seen, observed = limits(old_ms=[1.0] * 100)
    for number in range(count):
        observed.watch("new", True, 500.0 if number >= count - slow else 1.0, "")
    judge.judge_requests(seen)
    observed.watch("new", True, 500.0, "")
    with pytest.raises(StepError, match="takes longer than 500 ms"):
        judge.judge_requests(seen)


def test_golden_inputs_that_get_slower_are_held_against_the_bundle_and_one_slow_run_is_not(limits):
    judge, _, _ = limits()
    judge.judge_own(deque([1.0, 1.0, 90.0, 1.0, 1.0]))
    judge.judge_own(deque([90.0, 90.0]))
    with pytest.raises(StepError, match=r"take 9.00 ms during the soak; by its bundle, at most 8.00 ms"):
        judge.judge_own(deque([1.0, 9.0, 9.0, 9.0, 1.0]))


def test_waiting_ends_with_the_first_event():
    async def wait():
        one, other = asyncio.Event(), asyncio.Event()
        asyncio.get_running_loop().call_soon(other.set)
        await asyncio.wait_for(first_of((one, other), None), 60)
        await first_of((one,), 0.0)
        return one.is_set()

    assert asyncio.run(wait()) is False


def test_a_slow_model_makes_up_for_requests_that_do_not_come():
    settings = Settings(data_dir=None)
    assert _rest_s(settings, golden_s=0.01, left_s=600, rounds=25) == 1.0
    assert _rest_s(settings, golden_s=5.0, left_s=600, rounds=25) == 600 / 25 - 5.0
    assert _rest_s(settings, golden_s=5.0, left_s=600, rounds=0) == 50.0
    assert _rest_s(settings, golden_s=5.0, left_s=20, rounds=0) == 20
    assert _rest_s(settings, golden_s=5.0, left_s=-3, rounds=9) == 5.0


class Stub:
    """A worker that answers its golden inputs with these latencies, one after the other."""

    def __init__(self, *latencies_ms, release_id="old", meanwhile=lambda: None):
        self.pid, self.release_id, self.alive, self.ended = os.getpid(), release_id, True, asyncio.Event()
        self.ended_by_request = lambda: False
        self._latencies_ms = iter(latencies_ms)
        self._meanwhile = meanwhile

    async def golden(self, _timeout_s, **_how):
        self._meanwhile()
        return Golden(200.0, 30.0, None, next(self._latencies_ms), 1, 2)


@pytest.fixture
def site(tmp_path, old_bundle):
    with open_data_dir(tmp_path / "data") as data:
        for name in ("old", "new"):
            data.release(name).symlink_to(old_bundle)
        settings = Settings(data_dir=data.root, self_request_s=0.0, soak_compare_s=0.0)
        yield Site(settings, data, None, Router(settings), None)


def soaked(site, worker, **asked):
    record = Record(id=1, release="new", old="old", **asked)
    return asyncio.run(soak(site, Work(record, candidate=worker)))


def test_each_golden_sample_counts_as_a_request(site):
    outcome = soaked(site, Stub(*[1.0] * 50), soak_requests=100)
    assert outcome.changes["detail"]["soak_requests"] == 100


def test_when_the_predecessor_is_slow_too_it_is_the_machine(site):
    site.router.standby = Stub(*[90.0] * 9)
    soaked(site, Stub(*[90.0] * 9, *[1.0] * 9), soak_requests=20)
    site.router.standby = Stub(*[1.0] * 9)
    with pytest.raises(StepError, match=r"take 90\.0 ms during the soak"):
        soaked(site, Stub(*[90.0] * 9), soak_requests=20)


def test_a_failure_in_the_last_moment_counts(site):
    site.settings = msgspec.structs.replace(site.settings, judged_requests=3)

    def fail():
        for number in range(3):
            site.observed.watch("new", False, 1.0, "the model failed", number)

    with pytest.raises(StepError, match="3 of 3 requests failed"):
        soaked(site, Stub(1.0, meanwhile=fail), soak_requests=1)


def test_a_candidate_is_too_slow_only_when_it_stays_so(site, old_bundle):
    slow, quick = (Golden(200.0, 30.0, None, latency_ms, 1) for latency_ms in (90.0, 2.0))
    found = asyncio.run(_quick_enough(site, Stub(80.0, 2.0), old_bundle, slow))
    assert found.latency_ms == quick.latency_ms
    with pytest.raises(StepError, match=r"takes 70\.0 ms here"):
        asyncio.run(_quick_enough(site, Stub(80.0, 70.0), old_bundle, slow))


class Compared(Shadow):
    """What so many compared requests have shown: the noise is as strong as the signal."""

    def __init__(self, count):
        super().__init__()
        self.compared, self.outputs = count, {"y": (1.0, 1.0)} if count else {}


def one_source(site, make_null_bundle):
    for name in ("old", "new"):
        site.data.release(name).unlink()
        site.data.release(name).symlink_to(make_null_bundle(source="1" * 64))


def test_few_comparisons_decide_at_the_end_of_a_soak(site, make_null_bundle, monkeypatch):
    one_source(site, make_null_bundle)
    monkeypatch.setattr("edgeopt_agent.deployments.soaking.Shadow", lambda: Compared(1))
    with pytest.raises(StepError, match=r"agrees with .* over 1 requests"):
        soaked(site, Stub(*[1.0] * 50), soak_requests=10)


def test_a_soak_without_a_comparison_waits_for_one_and_says_so(site, make_null_bundle, monkeypatch):
    one_source(site, make_null_bundle)
    site.settings = msgspec.structs.replace(site.settings, soak_compare_s=3600.0)
    shadow, rounds = Compared(0), itertools.count()
    monkeypatch.setattr("edgeopt_agent.deployments.soaking.Shadow", lambda: shadow)

    def compare_later():
        if next(rounds) == 30:
            shadow.compared, shadow.outputs = 1, {"y": (1.0, 0.0)}

    outcome = soaked(site, Stub(*[1.0] * 50, meanwhile=compare_later), soak_requests=10)
    assert outcome.changes["detail"]["compared_requests"] == 1
    assert next(rounds) > 30

    site.settings = msgspec.structs.replace(site.settings, soak_compare_s=0.0)
    shadow = Compared(0)
    outcome = soaked(site, Stub(*[1.0] * 50), soak_requests=10)
    assert outcome.reason.endswith("no request was compared with the release before it")
