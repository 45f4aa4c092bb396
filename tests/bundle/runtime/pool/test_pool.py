import asyncio
import gc
import threading
from pathlib import Path

import numpy as np
import pytest

import edgeopt
from edgeopt.backends import null
from edgeopt.errors import DataError, DeadlineError, OverloadError, UsageError, WorkerError


def row(number=1.0):
    return np.full((1, 8), number, np.float32)


@pytest.fixture
def gate(monkeypatch):
    """From `close` on, runs of null models in this process wait for `opened`; tells the order of those begun."""

    class Gate:
        def __init__(self):
            self.opened, self.begun, self.order = threading.Event(), threading.Semaphore(0), []
            self.closed = False
            self.opened.set()

        def close(self):
            self.opened.clear()
            self.closed = True

        def wait(self, count=1):
            for _ in range(count):
                assert self.begun.acquire(timeout=60)

    made, run = Gate(), null.NullSession.run

    def held(session, feeds):
        if made.closed:
            made.order.append(float(feeds["x"][0, 0]))
            made.begun.release()
            assert made.opened.wait(60)
        return run(session, feeds)

    monkeypatch.setattr(null.NullSession, "run", held)
    yield made
    made.opened.set()


@pytest.fixture
def pool_of(null_model):
    """A pool of null models in this process, by name and latency in milliseconds."""

    def make(latencies, **options):
        sessions = {
            name: edgeopt.load(null_model(name), options={"latency_ms": latency})
            for name, latency in latencies.items()
        }
        return edgeopt.Pool(sessions, **options)

    return make


def ended(limit_s):
    """What a worker answers that has ended."""
    raise EOFError


def waiting_or_running(pool):
    return {name: each.waiting + each.running for name, each in pool.statistics().members.items()}


@pytest.mark.parametrize("strategy", ["round-robin", "least-loaded", "memory", "cost"])
def test_each_request_gets_its_own_outputs(bundle, strategy):
    images = [np.random.default_rng(k).standard_normal((1, 3, 16, 16)).astype(np.float32) for k in range(40)]
    with (
        edgeopt.load(bundle) as plain,
        edgeopt.Pool([edgeopt.load(bundle) for _ in range(3)], strategy=strategy) as p,
    ):
        futures = [p.submit(each) for each in images]
        for future, each in zip(futures, images, strict=True):
            np.testing.assert_array_equal(future.result(60)["y"], plain.run(each)["y"])
        assert sum(each.requests for each in p.statistics().members.values()) == 40


def test_cost_splits_a_queue_by_what_members_take(pool_of, gate):
    """Nothing is answered meanwhile, so the split follows from the latencies that the pool itself measured."""
    with pool_of({"fast": 5, "middle": 10, "slow": 20}, strategy="cost", queue_size=2000) as pool:
        gate.close()
        for _ in range(1400):
            pool.submit(row())
        members = pool.statistics().members
        speeds = {name: 1 / each.latency_ms for name, each in members.items()}
        for name, count in waiting_or_running(pool).items():
            ideal = 1400 * speeds[name] / sum(speeds.values())
            assert abs(count - ideal) <= 0.02 * ideal + 2
        # A run of a null model never takes less than planted.
        assert members["slow"].latency_ms >= 20
        gate.opened.set()


@pytest.mark.parametrize("strategy", ["round-robin", "least-loaded"])
def test_the_other_strategies_split_evenly_whatever_members_take(pool_of, gate, strategy):
    with pool_of({"fast": 0, "slow": 20}, strategy=strategy) as pool:
        gate.close()
        for _ in range(20):
            pool.submit(row())
        assert waiting_or_running(pool) == {"fast": 10, "slow": 10}
        gate.opened.set()


def test_memory_sends_requests_where_the_fewest_bytes_wait(pool_of, gate):
    with pool_of({"one": 0, "two": 0}, strategy="memory") as pool:
        gate.close()
        for rows in (10, 1, 2, 3):
            pool.submit(np.zeros((rows, 8), np.float32))
        assert waiting_or_running(pool) == {"one": 1, "two": 3}
        gate.opened.set()


def test_a_member_takes_over_what_waits_for_one_that_became_slow(null_model):
    """The estimates were alike, but then one member holds its first request until all others are answered."""
    sessions = {name: edgeopt.load(null_model(name), options={"latency_ms": 5}) for name in ("stuck", "free")}
    begun, opened = threading.Event(), threading.Event()
    with edgeopt.Pool(sessions, strategy="cost", queue_size=200) as pool:
        run = sessions["stuck"].run

        def held(feeds):
            begun.set()
            assert opened.wait(60)
            return run(feeds)

        sessions["stuck"].run = held
        answered = threading.Semaphore(0)
        while not begun.is_set():
            pool.submit(row()).add_done_callback(lambda _: answered.release())
            begun.wait(0.001)
        for _ in range(60):
            pool.submit(row()).add_done_callback(lambda _: answered.release())
        try:
            for _ in range(45):  # each member had half of them
                assert answered.acquire(timeout=60)
        finally:
            opened.set()


@pytest.mark.timing
def test_cost_keeps_unequal_members_equally_busy(pool_of):
    with pool_of({"fast": 10, "middle": 20, "slow": 40}, strategy="cost", queue_size=1000) as pool:
        for future in [pool.submit(row()) for _ in range(350)]:
            future.result(60)
        counts = {name: each.requests for name, each in pool.statistics().members.items()}
    for name, ideal in {"fast": 200, "middle": 100, "slow": 50}.items():
        assert abs(counts[name] - ideal) <= 0.05 * ideal + 2


def test_higher_priorities_run_first_and_equal_ones_in_their_order(pool_of, gate):
    with pool_of({"only": 0}) as pool:
        gate.close()
        futures = [pool.submit(row(0))]
        gate.wait()
        futures += [pool.submit(row(k), priority=p) for k, p in ((1, 0), (2, 5), (3, 0), (4, 5), (5, -1))]
        gate.opened.set()
        for future in futures:
            future.result(60)
    assert gate.order == [0, 2, 4, 1, 3, 5]


def test_a_full_queue_refuses_the_next_request_and_takes_it_when_there_is_room(pool_of, gate):
    with pool_of({"only": 0}, queue_size=2) as pool:
        gate.close()
        first = pool.submit(row())
        gate.wait()
        waiting = [pool.submit(row()) for _ in range(2)]
        with pytest.raises(OverloadError, match="is full: 2 requests wait"):
            pool.submit(row())
        assert waiting[0].cancel()
        last = pool.submit(row())
        gate.opened.set()
        for future in (first, waiting[1], last):
            assert future.result(60)["y"].shape == (1, 8)


def test_a_deadline_that_passes_in_the_queue_is_an_error_and_frees_its_place(pool_of, gate):
    with pool_of({"only": 0}, queue_size=1) as pool:
        gate.close()
        first = pool.submit(row(1))
        gate.wait()
        with pytest.raises(DeadlineError, match="within its deadline"):
            pool.run(row(2), deadline_s=0.01)
        late = pool.submit(row(3), deadline_s=0.0)
        last = pool.submit(row(4))
        gate.opened.set()
        assert first.result(60)
        assert last.result(60)
        with pytest.raises(DeadlineError):
            late.result(60)
    assert gate.order == [1, 4]


def test_asyncio_callers_are_answered_cancelled_and_late(pool_of, gate):
    async def work(pool):
        first = asyncio.create_task(pool.run_async(row(1)))
        await asyncio.to_thread(gate.wait)
        cancelled = asyncio.create_task(pool.run_async(row(2)))
        with pytest.raises(DeadlineError):
            await pool.run_async(row(3), deadline_s=0.01)
        last = asyncio.create_task(pool.run_async(row(4)))
        await asyncio.sleep(0)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        assert pool.statistics().waiting == 1
        gate.opened.set()
        return await asyncio.gather(first, last)

    with pool_of({"only": 0}) as pool:
        gate.close()
        assert len(asyncio.run(work(pool))) == 2
    assert gate.order == [1, 4]


def test_wrong_feeds_are_the_error_of_their_request_alone(pool_of):
    with pool_of({"a": 0, "b": 0}) as pool:
        with pytest.raises(DataError):
            pool.run(np.zeros((1, 3), np.float32))
        assert pool.run(row())["y"].shape == (1, 8)
        assert all(each.healthy for each in pool.statistics().members.values())


def test_statistics_tell_time_and_memory(pool_of):
    with pool_of({"a": 3, "b": 3}, strategy="round-robin") as pool:
        for _ in range(4):
            pool.run(row())
        found = pool.statistics().members
    assert [each.requests for each in found.values()] == [2, 2]
    assert all(each.mean_compute_ms >= 3 and each.latency_ms >= 3 for each in found.values())
    assert all(each.memory_bytes is None for each in found.values())


def test_close_fails_what_waits_and_closes_the_sessions(null_model, gate):
    session = edgeopt.load(null_model("m"))
    pool = edgeopt.Pool([session])
    gate.close()
    first = pool.submit(row())
    gate.wait()
    waiting = pool.submit(row())
    closing = threading.Thread(target=pool.close)
    closing.start()
    with pytest.raises(UsageError, match="closed"):
        waiting.result(60)
    gate.opened.set()
    closing.join(60)
    assert first.result(60)
    for call in (session.run, pool.run):
        with pytest.raises(UsageError, match="closed"):
            call(row())


@pytest.mark.parametrize("options", [{"strategy": "fastest"}, {"queue_size": 0}])
def test_a_pool_that_cannot_be_made_says_so(pool_of, options):
    with pytest.raises(UsageError, match="cannot be made"):
        pool_of({"a": 0}, **options)
    with pytest.raises(UsageError, match="0 members"):
        edgeopt.Pool([])


@pytest.mark.processes
def test_dropped_results_give_their_memory_back_before_garbage_is_collected(null_model):
    def held():
        files = [file for file in Path("/proc/self/fd").iterdir() if file.is_symlink()]
        return sum("memfd:edgeopt" in str(file.readlink()) for file in files)

    gc.collect()
    gc.disable()
    try:
        with edgeopt.Pool([edgeopt.load(null_model("m"), isolate=True)]) as pool:
            for _ in range(50):
                pool.run(row())
            assert held() < 10
    finally:
        gc.enable()


@pytest.mark.processes
def test_a_request_whose_worker_ends_is_answered_by_another_member(null_model):
    sessions = {name: edgeopt.load(null_model(name), isolate=True) for name in ("bad", "good")}
    with edgeopt.Pool(sessions, strategy="round-robin") as pool:
        worker = sessions["bad"]._loaded._worker
        receive = worker.receive

        def ends_first(limit_s):
            worker.end()
            return receive(limit_s)

        worker.receive = ends_first
        answers = [pool.submit(row(k)) for k in range(6)]
        assert [answer.result(60)["y"].shape for answer in answers] == [(1, 8)] * 6
        found = pool.statistics().members
        assert found["bad"].failures == 1
        assert found["good"].memory_bytes > 2**20


@pytest.mark.processes
def test_a_member_whose_worker_came_back_gets_requests_again(null_model):
    dying = edgeopt.load(null_model("dying"), isolate=True)
    with edgeopt.Pool(
        {"dying": dying, "sound": edgeopt.load(null_model("sound"))}, strategy="round-robin"
    ) as pool:
        dying._loaded._worker.receive = ended
        for _ in range(2):
            pool.run(row())
        while not pool.statistics().members["dying"].healthy:
            pool.run(row())
        before = pool.statistics().members["dying"].requests
        for _ in range(4):
            pool.run(row())
        assert pool.statistics().members["dying"].requests == before + 2


@pytest.mark.processes
def test_a_request_that_ends_every_worker_is_an_error_and_leaves_a_third_member_alone(null_model):
    sessions = [edgeopt.load(null_model(f"m{k}"), isolate=True) for k in range(3)]
    with edgeopt.Pool(sessions) as pool:
        for session in sessions:
            session._loaded._worker.receive = ended
        with pytest.raises(WorkerError):
            pool.run(row())
        assert sorted(each.failures for each in pool.statistics().members.values()) == [0, 1, 1]
