import asyncio
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import onnx.parser
import pytest

import edgeopt
from edgeopt.backends import null
from edgeopt.bundle.runtime import batch_trial
from edgeopt.errors import DataError, ModelError, UsageError
from edgeopt.graph.accuracy import signal_to_noise_db

pytest.importorskip("onnxruntime")


@pytest.fixture
def load(tmp_path):
    """A session of a model given as text, with batching."""
    sessions = []

    def made(text, **batching):
        onnx.save(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}'), tmp_path / "m.onnx")
        sessions.append(
            edgeopt.load(tmp_path / "m.onnx", "onnxruntime-cpu", batching=edgeopt.Batching(**batching))
        )
        return sessions[-1]

    yield made
    for session in sessions:
        session.close()


@pytest.fixture
def batches(monkeypatch):
    """The number of rows in each run of a null model."""
    sizes, run = [], null.NullSession.run

    def counted(self, feeds):
        sizes.append(len(feeds["x"]))
        return run(self, feeds)

    monkeypatch.setattr(null.NullSession, "run", counted)
    return sizes


SQUARES = (
    "g (float[n, 2] x) => (float[n, 2] y, float[n] z) { y = Mul(x, x) z = ReduceSum <keepdims = 0> (x, axes) }"
)
SQUARES = SQUARES.replace("{", "<int64[1] axes = {1}> {", 1)
LOOKUP = "g (int64[n] x) => (float[n] y) <float[4] table = {10, 11, 12, 13}> { y = Gather(table, x) }"


def row(number):
    return np.full((1, 8), number, np.float32)


async def together(session, calls):
    return await asyncio.gather(*(session.run_async(each) for each in calls), return_exceptions=True)


def test_calls_at_one_time_are_one_run_and_each_gets_its_own_rows(null_model, batches):
    model = null_model("m")
    with edgeopt.load(model) as alone:
        wanted = [alone.run(row(k))["y"] for k in range(8)]
    with edgeopt.load(model, batching=edgeopt.Batching(max_size=8, max_delay_us=60_000_000)) as session:
        batches.clear()
        given = asyncio.run(together(session, [row(k) for k in range(8)]))
    assert batches == [8]
    for mine, right in zip(given, wanted, strict=True):
        np.testing.assert_array_equal(mine["y"], right)


def test_without_batching_every_call_is_a_run(null_model, batches):
    with edgeopt.load(null_model("m")) as session:
        asyncio.run(together(session, [row(k) for k in range(4)]))
    assert batches == [1] * 4


def test_a_batch_that_does_not_fill_is_run_after_the_delay(null_model, batches):
    with edgeopt.load(null_model("m"), batching=edgeopt.Batching(8, 1000)) as session:
        batches.clear()
        asyncio.run(together(session, [row(k) for k in range(3)]))
    assert batches == [3]


def test_other_shapes_and_calls_too_large_to_share_are_not_mixed_in(load):
    session = load(SQUARES, max_size=4, max_delay_us=1000)
    calls = [np.full((rows, 2), k, np.float32) for k, rows in enumerate([1, 2, 1, 5, 2, 3])]
    for call, outputs in zip(calls, asyncio.run(together(session, calls)), strict=True):
        np.testing.assert_array_equal(outputs["y"], call * call)
        np.testing.assert_array_equal(outputs["z"], call.sum(axis=1))


def test_a_bad_request_fails_alone(load):
    session = load(LOOKUP, max_size=4, max_delay_us=60_000_000)
    good, bad, *others = asyncio.run(together(session, [np.array([k]) for k in (0, 9, 2, 3)]))
    assert isinstance(bad, ModelError)
    assert [each["y"].tolist() for each in (good, *others)] == [[10.0], [12.0], [13.0]]


def test_what_is_no_request_at_all_fails_as_without_batching(load):
    session = load(SQUARES, max_size=4, max_delay_us=1000)
    good, *bad = asyncio.run(
        together(
            session,
            [np.ones((1, 2), np.float32), {"q": np.ones((1, 2))}, [[1.0, 2.0]], np.float32(1), np.ones((1, 2))],
        )
    )
    assert good["y"].tolist() == [[1, 1]]
    assert [type(each) for each in bad] == [DataError] * 4


def test_a_cancelled_call_frees_its_place_in_the_batch(null_model, batches):
    async def work(session):
        cancelled, *others = (asyncio.create_task(session.run_async(row(k))) for k in range(3))
        await asyncio.sleep(0)
        cancelled.cancel()
        await asyncio.gather(cancelled, return_exceptions=True)
        return await asyncio.gather(*others, *(session.run_async(row(k)) for k in (3, 4)))

    with edgeopt.load(null_model("m"), batching=edgeopt.Batching(4, 60_000_000)) as session:
        batches.clear()
        assert len(asyncio.run(work(session))) == 4
    assert batches == [4]


def test_closing_fails_the_calls_that_wait_for_others(null_model):
    async def work(session):
        tasks = [asyncio.create_task(session.run_async(row(k))) for k in range(3)]
        await asyncio.sleep(0)
        session.close()
        return await asyncio.gather(*tasks, return_exceptions=True)

    session = edgeopt.load(null_model("m"), batching=edgeopt.Batching(8, 1000))
    for error in asyncio.run(work(session)):
        assert isinstance(error, UsageError)
        assert "closed" in error.message


def test_none_of_thousands_is_lost_or_mixed(load):
    """Eight callers, several shapes, some bad requests, random cancellations."""
    session = load(LOOKUP, max_size=8, max_delay_us=200)
    counts = {"answered": 0, "cancelled": 0, "failed": 0}

    async def caller(seed):
        chance = random.Random(seed)  # noqa: S311 - no secret
        for _ in range(500):
            values = np.array([chance.randrange(4) for _ in range(chance.choice([1, 1, 1, 2]))])
            if chance.random() < 0.02:
                values[0] = 99
            task = asyncio.create_task(session.run_async(values))
            if chance.random() < 0.1:
                for _ in range(chance.randrange(4)):
                    await asyncio.sleep(0)
                task.cancel()
            (result,) = await asyncio.gather(task, return_exceptions=True)
            if isinstance(result, asyncio.CancelledError):
                counts["cancelled"] += 1
            elif values[0] == 99:
                assert isinstance(result, ModelError)
                counts["failed"] += 1
            else:
                assert result["y"].tolist() == (values + 10).tolist()
                counts["answered"] += 1

    async def work():
        await asyncio.gather(*(caller(seed) for seed in range(8)))

    asyncio.run(work())
    assert sum(counts.values()) == 4000
    assert min(counts.values()) > 20


MLP = """g (float[n, 4] x) => (float[n, 4] y)
    <float[4, 4] w = {1, -2, 3, 4, -5, 6, 7, -8, 9, 1, -2, 3, 4, 5, -6, 7}, float[4] b = {1, 2, 3, 4}> {
    m = Gemm (x, w, b) r = Relu (m) y = MatMul (r, w) }"""


def test_quiet_calls_beside_loud_ones_get_the_answers_of_single_runs(load, monkeypatch):
    monkeypatch.setattr(batch_trial, "MIN_GAIN", 0.0)
    session = load(MLP, max_size=8, max_delay_us=500)
    chance = np.random.default_rng(2)
    calls = [
        (chance.standard_normal((1, 4)) * 2.0 ** chance.integers(-6, 7)).astype(np.float32) for _ in range(400)
    ]
    with edgeopt.load(session._model, "onnxruntime-cpu") as alone:
        wanted = [alone.run(call)["y"] for call in calls]
    for given, right in zip(asyncio.run(together(session, calls)), wanted, strict=True):
        assert signal_to_noise_db(right, given["y"]) > 90
    assert session.batch_trial.used


def test_samples_without_a_graph_must_reach_the_floor(null_model, monkeypatch):
    def leaking(self, feeds):
        mixed = {"x": feeds["x"] + 0.005 * (feeds["x"].sum(axis=0, keepdims=True) - feeds["x"])}
        return run(self, mixed)

    run = null.NullSession.run
    monkeypatch.setattr(null.NullSession, "run", leaking)
    with pytest.raises(UsageError, match=r"it is within .* dB of a single run, and must be within 40 dB"):
        edgeopt.load(null_model("m"), batching=edgeopt.Batching(max_size=4))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "g (float[1, 4] x) => (float[1, 4] y) { y = Relu(x) }",
            r"the input 'x' has no open first axis.*\[1, 4\]",
        ),
        (
            "g (float[n, 4] x, float r) => (float[n, 4] y) { y = Mul(x, r) }",
            "the input 'r' has no open first axis",
        ),
        (
            "g (float[n, 4] x) => (float[n, 4] y, float m) { y = Relu(x) m = ReduceMax <keepdims = 0> (x) }",
            "output 'm'",
        ),
        ("g (float[n, 4] x) => (float[k, 4] y) { y = ReduceMax <axes = [0]> (x) }", "output"),
        (
            "g (float[n] x) => (float[n] y) { m = ReduceMean(x) y = Sub(x, m) }",
            "ReduceMean .*reduces over the rows",
        ),
        ("g (float[n, 4] x) => (float[k, 4] y) { y = Concat <axis = 0> (x, x) }", "joins tensors along the rows"),
    ],
)
def test_a_model_that_cannot_be_batched_is_refused_with_the_reason(load, text, reason):
    with pytest.raises(UsageError, match=reason) as raised:
        load(text.replace("ReduceMax <axes = [0]> (x)", "ReduceMax <axes = [0], keepdims = 1> (x)"))
    assert raised.value.message.startswith("The model cannot run samples in batches: ")


def test_a_bundle_is_tried_on_its_golden_samples(bundle):
    with edgeopt.load(bundle, batching=edgeopt.Batching()) as session:
        image = np.random.default_rng(0).standard_normal((1, 3, 16, 16)).astype(np.float32)
        wanted = session.run(image)["y"]
        for outputs in asyncio.run(together(session, [image] * 8)):
            np.testing.assert_allclose(outputs["y"], wanted, rtol=1e-5, atol=1e-6)


def test_batches_that_are_not_faster_are_not_used(null_model, batches, monkeypatch):
    """By a clock of its own, because other processes make sleeps longer."""
    seconds = 0.0

    def slower(self, feeds):
        nonlocal seconds
        seconds += 0.002 * len(feeds["x"]) ** 2
        return run(self, feeds)

    run = null.NullSession.run
    monkeypatch.setattr(null.NullSession, "run", slower)
    monkeypatch.setattr(batch_trial, "time", SimpleNamespace(perf_counter=lambda: seconds))
    with edgeopt.load(null_model("m"), batching=edgeopt.Batching(max_size=4)) as session:
        assert not session.batch_trial.used
        assert "at least 1.05 times is required" in session.batch_trial.reason
        batches.clear()
        asyncio.run(together(session, [row(number) for number in range(4)]))
    assert batches == [1, 1, 1, 1]


def test_a_batch_that_the_device_cannot_hold_is_not_used(null_model, monkeypatch):
    def limited(self, feeds):
        if len(feeds["x"]) > 2:
            raise ModelError("The runtime ran out of memory.", "Use smaller batches.")
        return run(self, feeds)

    run = null.NullSession.run
    monkeypatch.setattr(null.NullSession, "run", limited)
    with edgeopt.load(null_model("m"), batching=edgeopt.Batching(max_size=4)) as session:
        assert not session.batch_trial.used
        assert "A batch of 4 failed" in session.batch_trial.reason


def test_a_batch_for_which_memory_runs_out_is_refused_with_the_reason(null_model, monkeypatch):
    def limited(self, feeds):
        if len(feeds["x"]) > 1:
            raise MemoryError
        return run(self, feeds)

    run = null.NullSession.run
    monkeypatch.setattr(null.NullSession, "run", limited)
    with pytest.raises(UsageError, match="there is not enough memory"):
        edgeopt.load(null_model("m"), batching=edgeopt.Batching(max_size=4))


def test_session_without_batching_has_no_trial(null_model):
    with edgeopt.load(null_model("m")) as session:
        assert session.batch_trial is None


@pytest.mark.parametrize("batching", [{"max_size": 0}, {"max_delay_us": -1}])
def test_impossible_batches_are_refused(batching):
    with pytest.raises(UsageError, match="are not possible"):
        edgeopt.Batching(**batching)


def image(seed):
    return np.random.default_rng(seed).standard_normal((1, 3, 16, 16)).astype(np.float32)


@pytest.fixture
def gate(monkeypatch):
    """Holds the runs of null models until it is opened, and counts those that have begun."""

    class Gate:
        def __init__(self):
            self.begun, self.opened, self.at_once, self.maximum = threading.Semaphore(0), threading.Event(), 0, 0
            self.ended = []
            self.lock = threading.Lock()

    made, run = Gate(), null.NullSession.run

    def held(self, feeds):
        with made.lock:
            made.at_once += 1
            made.maximum = max(made.maximum, made.at_once)
        made.begun.release()
        assert made.opened.wait(60)
        outputs = run(self, feeds)
        with made.lock:
            made.at_once -= 1
            made.ended.append(float(feeds["x"][0, 0]))
        return outputs

    monkeypatch.setattr(null.NullSession, "run", held)
    return made


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
    assert gate.maximum == 3


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
