import numpy as np
import pytest

from edgeopt.measure.peaks import memory as peaks_memory
from edgeopt.measure.peaks.memory import StreamRunner
from edgeopt.measure.peaks.tasks import Dispatch, Layers, Ran, Repeat, Stream
from edgeopt.workers.client import WorkerClient
from edgeopt.workers.host import LocalHost
from edgeopt.workers.protocol import NO_MEMORY, Failed


@pytest.fixture(autouse=True)
def _small_and_forgotten(monkeypatch):
    """Calls of 1 MiB, so that a test takes milliseconds."""
    monkeypatch.setattr(peaks_memory, "_BYTES_A_CALL", 1 << 20)
    yield
    peaks_memory._windows.cache_clear()


@pytest.mark.parametrize("array_bytes", [4096, 8192, 24 * 1024, 256 * 1024, 3 << 20, 5_000_000])
@pytest.mark.parametrize("way", ["one array", "two arrays"])
def test_every_byte_that_is_counted_is_read(array_bytes, way):
    arrays = 1 if way == "one array" else 2
    runner = StreamRunner(Stream("L2", 1, "read", array_bytes, way))
    (calls,) = runner._calls
    read = [int(call().sum(dtype=np.float64)) * 4 * arrays for call in calls]  # all numbers are 1
    assert read == [runner._bytes_a_call] * len(calls)
    assert sum(read) >= 0.98 * array_bytes * arrays


def test_every_byte_that_is_counted_is_copied():
    runner = StreamRunner(Stream("memory", 1, "copy", 2 << 20))
    one, other = peaks_memory._windows(0, 1, (2 << 20) // 4)
    one[:] = np.arange(one.size)
    for call in runner._calls[0]:
        call()
    assert np.array_equal(one, other)
    assert runner._bytes_a_call * len(runner._calls[0]) == 2 * one.nbytes


def test_a_thread_has_memory_of_its_own():
    StreamRunner(Stream("L1", 2, "copy", 8192))
    places = [peaks_memory._windows(thread, 64, 2048)[0].ctypes.data for thread in (0, 1)]
    assert abs(places[0] - places[1]) > 8192


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("action", ["read", "copy"])
def test_rates_are_those_of_memory(threads, action):
    runner = StreamRunner(Stream("L1", threads, action, 8192))
    rates = [rate for _ in range(5) for rate in runner.rates(20.0)]
    assert 1e7 < np.median(rates) < 1e13  # 10 MB/s to 10 TB/s: a wrong unit would be out of it


def test_rates_add_up_to_the_bytes_that_were_moved_while_both_ran(monkeypatch):
    runner = StreamRunner(Stream("L1", 2, "copy", 8192))
    marks = [np.array([0.0, 1.0, 2.0, 3.0]), np.array([0.0, 0.5, 1.0, 1.5, 2.0])]
    monkeypatch.setattr(runner, "_marks", lambda _: marks)
    assert np.array(runner.rates(1.0)) / runner._bytes_a_call == pytest.approx([3.0, 3.0])


def test_threads_that_never_ran_together_say_nothing(monkeypatch):
    runner = StreamRunner(Stream("L1", 2, "copy", 8192))
    monkeypatch.setattr(runner, "_marks", lambda _: [np.arange(4.0), 10 + np.arange(4.0)])
    assert runner.rates(1.0) == ()


@pytest.mark.parametrize("threads", [1, 2])
def test_too_much_memory_is_an_error_that_can_be_told(threads):
    with pytest.raises(MemoryError):
        StreamRunner(Stream("memory", threads, "read", 1 << 60))


@pytest.fixture
def ask(tmp_path):
    client = WorkerClient(LocalHost(tmp_path))

    def once(task, slice_ms=5.0):
        return client.ask(Repeat(task, slice_ms), Ran, 30)

    yield once
    client.close()


@pytest.mark.parametrize(
    "task",
    [
        Layers("onnxruntime-cpu", "int8", 2, "Conv 3x3", (2, 16, 6), 2),
        Layers("openvino-cpu", "fp32", 1, "MatMul", (4, 16), 2),
        Dispatch("onnxruntime-cpu"),
        Stream("L1", 2, "copy", 8192),
    ],
    ids=["onnxruntime", "openvino", "dispatch", "stream"],
)
def test_rates_of_each_kind_of_task(ask, task):
    answers = [ask(task) for _ in range(4)]
    assert all(isinstance(answer, Ran) for answer in answers), answers
    assert min(rate for answer in answers for rate in answer.rates) > 0
    assert any(len(answer.rates) > 1 for answer in answers)


def test_a_slice_of_no_length_is_one_run(ask):
    assert len(ask(Dispatch("onnxruntime-cpu"), 0.0).rates) == 1


def test_what_cannot_be_done_is_said_and_the_next_task_goes_on(ask):
    unknown = ask(Dispatch("no-such-backend"))
    assert isinstance(unknown, Failed)
    assert "no-such-backend" in unknown.message
    assert ask(Stream("memory", 1, "read", 1 << 60)) == Failed("There is not enough memory.", code=NO_MEMORY)
    assert isinstance(ask(Dispatch("onnxruntime-cpu")), Ran)
