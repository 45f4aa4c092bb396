import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import edgeopt
from edgeopt.backends import null
from edgeopt.errors import DataError, UsageError


def image(seed):
    return np.random.default_rng(seed).standard_normal((1, 3, 16, 16)).astype(np.float32)


@pytest.fixture
def gate(monkeypatch):
    """Holds the runs of null models until it is opened, and counts those that have begun."""

    class Gate:
        def __init__(self):
            self.begun, self.opened, self.at_once, self.most = threading.Semaphore(0), threading.Event(), 0, 0
            self.ended = []
            self.lock = threading.Lock()

    made, run = Gate(), null.NullSession.run

    def held(self, feeds):
        with made.lock:
            made.at_once += 1
            made.most = max(made.most, made.at_once)
        made.begun.release()
        assert made.opened.wait(60)
        outputs = run(self, feeds)
        with made.lock:
            made.at_once -= 1
            made.ended.append(float(feeds["x"][0, 0]))
        return outputs

    monkeypatch.setattr(null.NullSession, "run", held)
    return made


def row(number):
    return np.full((1, 8), number, np.float32)


async def begun(gate, count):
    for _ in range(count):
        assert await asyncio.to_thread(gate.begun.acquire, timeout=60)


def test_each_caller_gets_its_own_outputs(bundle):
    images = [image(seed) for seed in range(40)]

    async def all_at_once(session):
        return await asyncio.gather(*(session.run_async(each) for each in images))

    with edgeopt.load(bundle) as session:
        wanted = [session.run(each)["y"] for each in images]
        given = asyncio.run(all_at_once(session))
    for mine, alone in zip(given, wanted, strict=True):
        np.testing.assert_array_equal(mine["y"], alone)


def test_as_many_runs_as_allowed_are_under_way_while_the_loop_goes_on(null_model, gate):
    async def work(session):
        tasks = [asyncio.create_task(session.run_async(row(k))) for k in range(7)]
        await begun(gate, 3)
        gate.opened.set()
        return await asyncio.gather(*tasks)

    with edgeopt.load(null_model("m"), concurrency=3) as session:
        assert len(asyncio.run(work(session))) == 7
    assert gate.most == 3


def test_a_cancelled_caller_gives_up_its_place_and_a_run_under_way_ends(null_model, gate):
    async def work(session):
        running, waiting, last = (asyncio.create_task(session.run_async(row(k))) for k in range(3))
        await begun(gate, 1)
        running.cancel()
        waiting.cancel()
        assert [type(e) for e in await asyncio.gather(running, waiting, return_exceptions=True)] == [
            asyncio.CancelledError
        ] * 2
        gate.opened.set()
        await last

    with edgeopt.load(null_model("m"), concurrency=1) as session:
        asyncio.run(work(session))
    assert gate.ended == [0.0, 2.0]


def test_closing_ends_the_run_under_way_and_fails_those_that_wait(null_model, gate):
    async def work(session):
        running, waiting = (asyncio.create_task(session.run_async(row(k))) for k in range(2))
        await begun(gate, 1)
        closing = asyncio.create_task(asyncio.to_thread(session.close))
        while not session._closed:
            await asyncio.sleep(0)
        gate.opened.set()
        await closing
        return await asyncio.gather(running, waiting, return_exceptions=True)

    session = edgeopt.load(null_model("m"), concurrency=1)
    first, second = asyncio.run(work(session))
    assert first["y"].shape == (1, 8)
    assert isinstance(second, UsageError)
    assert "closed" in second.message


def test_whatever_runs_a_closed_session_says_that_it_is_closed(bundle):
    with edgeopt.load(bundle) as session:
        run = session.run
        asyncio.run(session.run_async(image(0)))
    session.close()
    for use in (
        lambda: run(image(0)),
        lambda: session.run(image(0)),
        lambda: session.process({"x": image(0)}),
        lambda: asyncio.run(session.run_async(image(0))),
        lambda: session.stream({"x": "y"}),
        session.__enter__,
    ):
        with pytest.raises(UsageError, match="This session is closed"):
            use()


def test_an_error_reaches_the_caller_that_made_it(bundle):
    async def work(session):
        return await asyncio.gather(
            session.run_async(image(0)), session.run_async({"z": image(0)}), return_exceptions=True
        )

    with edgeopt.load(bundle) as session:
        good, bad = asyncio.run(work(session))
    assert good["y"].shape == (1, 10)
    assert isinstance(bad, DataError)
    assert "'x' is missing" in bad.message


@pytest.mark.parametrize("backend", ["onnxruntime-cpu", "openvino-cpu"])
def test_several_threads_may_run_one_session(conv_model, backend):
    pytest.importorskip(backend.partition("-")[0])
    images = [image(seed) for seed in range(64)]
    with edgeopt.load(conv_model, backend, {"threads": 1}) as session, ThreadPoolExecutor(8) as pool:
        wanted = [session.run(each)["y"] for each in images]
        given = list(pool.map(lambda each: session.run(each)["y"], images * 5))
    for position, mine in enumerate(given):
        np.testing.assert_array_equal(mine, wanted[position % len(images)])


def test_no_concurrency_at_all_is_refused(bundle):
    with pytest.raises(UsageError, match="0 concurrent runs"):
        edgeopt.load(bundle, concurrency=0)


def test_a_run_that_is_prepared_while_the_session_closes_still_ends(conv_model):
    class ClosingFeeds(dict):
        """Of another byte order, so that it is prepared; its session is closed meanwhile."""

        reads = 0

        def __getitem__(self, name):
            self.reads += 1
            if self.reads == 2:
                session.close()
            return super().__getitem__(name)

    session = edgeopt.load(conv_model, "onnxruntime-cpu")
    wanted = session.run(image(0))["y"]
    np.testing.assert_array_equal(session.run(ClosingFeeds(x=image(0).astype(">f4")))["y"], wanted)
