import asyncio
import errno
import itertools
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import psutil
import pytest
import uvloop

from edgeopt.hw.load import process_cpu_s
from edgeopt_agent.workers.log import MAX_BYTES
from edgeopt_agent.workers.outcomes import RequestTooLarge, WorkerDied, WorkerError, WorkerTimeout
from edgeopt_agent.workers.process import Worker
from tests.agent.infer_request import infer_request

ONE_ROW = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}]}
REQUEST = json.dumps(ONE_ROW).encode()
LATE_S = 3.0


def with_worker(bundle, settings, use):
    """Runs `use(worker)` in an event loop; whatever it does, the worker is gone afterwards."""

    async def run():
        worker = await Worker.start(bundle, "0123456789ab", settings)
        try:
            return await use(worker)
        finally:
            await worker.stop(1.0)
            assert worker.ended.is_set()

    return asyncio.run(run())


def gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def changed(settings, **changes):
    return msgspec.structs.replace(settings, **changes)


def test_a_worker_answers_its_golden_samples_and_requests(conv_bundle, settings):
    async def use(worker):
        assert (worker.name, worker.release_id) == ("conv", "0123456789ab")
        assert worker.plain.inputs[0].shape == ("batch", 3, 16, 16)
        golden = await worker.golden(30.0)
        assert golden.problem is None
        assert golden.accuracy_db > golden.floor_db
        assert 0 < golden.latency_ms < 1000
        assert golden.resident_bytes > 10 << 20
        refused = await worker.infer(infer_request(b"{}"))
        assert refused.status == 400
        assert not refused.run.fault
        assert Path(f"/proc/{worker.pid}/oom_score_adj").read_text().strip() == "500"
        await worker.stop()
        assert worker.how_it_ended() == "stopped"
        assert gone(worker.pid)

    with_worker(conv_bundle, settings, use)


def test_a_damaged_bundle_is_not_loaded_and_the_reason_is_said(bundle, settings):
    (bundle / "model" / "conv.onnx").write_bytes(b"damaged")
    with pytest.raises(WorkerError, match=r"damaged: model/conv\.onnx"):
        with_worker(bundle, settings, None)


@pytest.mark.parametrize(
    ("fault", "limit_s", "words"),
    [
        ({"fail": "load"}, 60.0, "fails while it should load"),
        ({"crash": "load"}, 60.0, "crashed: SIGSEGV.* while loading"),
        ({"hang": "load"}, 2.0, "hung while loading: no answer within 2 s"),
    ],
)
def test_a_bundle_that_does_not_load_costs_only_its_worker(null_bundle, settings, fault, limit_s, words):
    with pytest.raises(WorkerError, match=words):
        with_worker(null_bundle(**fault), changed(settings, probe_timeout_s=limit_s), None)


def test_wrong_golden_answers_are_told_with_both_figures(null_bundle, settings):
    async def use(worker):
        return (await worker.golden(30.0)).problem

    problem = with_worker(null_bundle(noise=1.0), settings, use)
    assert "dB on its golden samples; it needs" in problem


def test_a_slow_model_is_timed_within_the_limit(null_bundle, settings):
    async def use(worker):
        golden = await worker.golden(4.0)
        assert 150 <= golden.latency_ms < 1000

    with_worker(null_bundle(latency_ms=150), settings, use)


def test_the_log_of_a_crashed_worker_shows_where_it_was(null_bundle, settings):
    async def use(worker):
        with pytest.raises(WorkerDied):
            await worker.infer(infer_request(REQUEST))
        await asyncio.wait_for(worker.ended.wait(), 60)
        return worker.how_it_ended()

    how = with_worker(null_bundle(crash="run"), settings, use)
    log = (settings.data_dir / "logs" / "worker-0123456789ab.log").read_text()
    assert "Fatal Python error: Segmentation fault" in log
    assert re.search(r"backends/null\.py.*, line \d+ in run\n", log)
    assert how == "crashed: SIGSEGV"  # without the last line of the trace


@pytest.mark.parametrize(
    ("fault", "limit_s", "kind", "words"),
    [
        ({"crash": "run"}, 60.0, WorkerDied, "crashed: SIGSEGV"),
        ({"hang": "run"}, 0.5, WorkerTimeout, "hung: no answer within 0.5 s; it was killed"),
    ],
)
def test_a_worker_that_cannot_answer_is_gone_and_says_how(null_bundle, settings, fault, limit_s, kind, words):
    async def use(worker):
        with pytest.raises(kind, match=words):
            await worker.infer(infer_request(REQUEST))
        await asyncio.wait_for(worker.ended.wait(), 60)
        assert not worker.alive
        assert worker.how_it_ended().startswith(words[:8])
        assert gone(worker.pid)
        with pytest.raises(WorkerDied):
            await worker.infer(infer_request(REQUEST))

    with_worker(null_bundle(**fault), changed(settings, request_timeout_s=limit_s), use)


POISON = json.dumps({"inputs": [{**ONE_ROW["inputs"][0], "data": [-1, 2, 3, 4]}]}).encode()


@pytest.mark.parametrize("runs", [0, 100])
def test_a_run_that_hangs_with_the_lock_free_is_ended_by_the_latency_of_the_release(null_bundle, settings, runs):
    async def use(worker):
        await worker.golden(30.0)
        for _ in range(runs):
            assert (await worker.infer(infer_request(REQUEST))).status == 200
        asked = [asyncio.ensure_future(worker.infer(infer_request(body))) for body in (POISON, REQUEST)]
        hung, behind = await asyncio.gather(*asked, return_exceptions=True)
        # At least 1 s; on a busy machine a run, and with it the limit, may be longer.
        assert re.search(r"hung: no answer within [\d.]+ s; it was killed", hung.reason)
        assert (hung.begun, behind.begun) == (True, False)

    limits = {"hang_timeout_s": 2.0, "request_timeout_s": 60.0}
    with_worker(null_bundle(hang_on=-1), changed(settings, **limits), use)


def test_a_golden_run_that_hangs_is_ended_too(null_bundle, settings):
    async def use(worker):
        await worker.golden(30.0)
        await asyncio.sleep(LATE_S)
        with pytest.raises(WorkerTimeout, match="hung while answering its golden samples: no answer within 2 s"):
            await worker.golden(60.0, quick=True)

    bundle = null_bundle(late_s=LATE_S, late_ms=1e9)
    with_worker(bundle, changed(settings, hang_timeout_s=2.0, request_timeout_s=60.0), use)


def test_a_slow_or_large_run_is_no_hang(null_bundle, settings):
    async def use(worker):
        await asyncio.sleep(0)  # heartbeats, which have the same limit, begin with that of the start
        worker._settings = changed(settings, hang_timeout_s=0.01)
        await worker.golden(30.0)
        row = ONE_ROW["inputs"][0]
        many = {**row, "shape": [40, 4], "data": row["data"] * 40}
        bodies = [REQUEST, REQUEST, json.dumps({"inputs": [many]}).encode()]
        answers = await asyncio.gather(*(worker.infer(infer_request(body)) for body in bodies))
        assert [answer.status for answer in answers] == [200] * 3

    with_worker(null_bundle(latency_ms=25, row_ms=25), settings, use)


def pause(worker, seconds):
    """Stops the event loop and the worker, as a suspended machine does; the worker goes on a moment later."""
    os.kill(worker.pid, signal.SIGSTOP)
    time.sleep(seconds)
    asyncio.get_running_loop().call_later(0.2, os.kill, worker.pid, signal.SIGCONT)


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_time_in_which_the_agent_is_suspended_is_no_hang(null_bundle, settings, new_loop):
    limit_s = 4.0  # a busy machine answers within it

    async def run():
        limits = {"hang_timeout_s": limit_s, "hang_latency_factor": 0.01, "request_timeout_s": 60.0}
        bundle = null_bundle(latency_ms=300)
        worker = await Worker.start(bundle, "0123456789ab", changed(settings, **limits))
        try:
            await worker.golden(30.0, quick=True)
            asked = [asyncio.ensure_future(worker.infer(infer_request(REQUEST))) for _ in range(2)]
            await asyncio.sleep(0)
            pause(worker, limit_s + 1.0)
            assert [answer.status for answer in await asyncio.gather(*asked)] == [200, 200]
            assert worker.how_it_ended() == ""
        finally:
            await worker.stop(1.0)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(run())


def test_a_run_that_hangs_is_ended_after_a_pause_of_the_agent_too(null_bundle, settings):
    async def use(worker):
        await worker.golden(30.0)
        asked = asyncio.ensure_future(worker.infer(infer_request(POISON)))
        await asyncio.sleep(0)
        pause(worker, 3.0)
        with pytest.raises(WorkerTimeout, match="hung: no answer within"):
            await asked

    limits = {"hang_timeout_s": 2.0, "request_timeout_s": 60.0}
    with_worker(null_bundle(hang_on=-1), changed(settings, **limits), use)


def test_a_model_that_fails_is_a_fault_of_the_model_and_the_worker_lives(null_bundle, settings):
    async def use(worker):
        answer = await worker.infer(infer_request(REQUEST))
        assert (answer.status, answer.run.fault) == (500, True)
        assert "as planted" in answer.reason()
        assert worker.alive

    with_worker(null_bundle(fail="run"), settings, use)


def test_a_killed_worker_is_told_apart_from_one_that_crashed(null_bundle, settings):
    async def use(worker):
        os.kill(worker.pid, signal.SIGKILL)
        await asyncio.wait_for(worker.ended.wait(), 60)
        assert "memory ran out" in worker.how_it_ended()

    with_worker(null_bundle(), settings, use)


def test_stopping_lets_what_is_in_flight_finish(null_bundle, settings):
    async def use(worker):
        asked = [asyncio.ensure_future(worker.infer(infer_request(REQUEST))) for _ in range(3)]
        await asyncio.sleep(0)
        await worker.stop(5.0)
        assert [answer.status for answer in await asyncio.gather(*asked)] == [200] * 3

    with_worker(null_bundle(latency_ms=100), settings, use)


def test_a_worker_that_does_not_stop_is_killed_after_the_grace(null_bundle, settings):
    async def use(worker):
        asked = asyncio.ensure_future(worker.infer(infer_request(REQUEST)))
        await asyncio.sleep(0)
        await worker.stop(0.2)
        with pytest.raises(WorkerDied, match="stopped"):
            await asked

    with_worker(null_bundle(hang="run"), settings, use)


def test_a_flood_on_stderr_neither_blocks_the_worker_nor_fills_the_disk(null_bundle, settings):
    async def use(worker):
        assert (await worker.infer(infer_request(REQUEST))).status == 200

    with_worker(null_bundle(flood_stderr_bytes=3 * MAX_BYTES), settings, use)
    log = settings.data_dir / "logs" / "worker-0123456789ab.log"
    assert log.stat().st_size == MAX_BYTES


AGENT = """
import asyncio, sys
from pathlib import Path
from edgeopt_agent.settings import Settings
from edgeopt_agent.workers.process import Worker
from tests.agent.infer_request import infer_request

async def main():
    worker = await Worker.start(Path(sys.argv[1]), "a", Settings(data_dir=Path(sys.argv[2])))
    asked = asyncio.ensure_future(worker.infer(infer_request(sys.argv[3].encode())))
    await asyncio.sleep(0)
    print(worker.pid, flush=True)
    await asked

asyncio.run(main())
"""


def test_a_worker_ends_with_its_agent_even_inside_a_call_that_never_returns(null_bundle, tmp_path):
    command = [sys.executable, "-c", AGENT, str(null_bundle(hang="run")), str(tmp_path), REQUEST.decode()]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as agent:
        watched = os.pidfd_open(int(agent.stdout.readline()))
        agent.kill()
    assert select.select([watched], [], [], 10)[0], "the worker outlived its agent"
    os.close(watched)


def test_a_log_that_cannot_be_written_is_no_reason_not_to_serve(null_bundle, settings):
    settings.data_dir.mkdir()
    (settings.data_dir / "logs").write_text("in its place")

    async def use(worker):
        return (await worker.infer(infer_request(REQUEST))).status

    assert with_worker(null_bundle(flood_stderr_bytes=100_000), settings, use) == 200


@pytest.mark.parametrize("fails_at", ["socketpair", "pipe", "create_subprocess_exec", "connect_read_pipe"])
def test_a_start_that_fails_leaves_no_descriptor_and_no_process(null_bundle, settings, monkeypatch, fails_at):
    bundle = null_bundle()

    async def use():
        loop = asyncio.get_running_loop()
        owner = {"socketpair": socket, "pipe": os, "create_subprocess_exec": asyncio, "connect_read_pipe": loop}
        with pytest.raises(WorkerError):  # what is opened once stays open
            await Worker.start(bundle / "nowhere", "0123456789ab", settings)
        others = set(psutil.Process().children())
        before = len(list(Path("/proc/self/fd").iterdir()))
        original, calls = getattr(owner[fails_at], fails_at), []

        def fail_second(*given, **more):
            calls.append(given)
            if len(calls) == 2 or fails_at.startswith("c"):
                raise OSError(errno.EMFILE, "Too many open files")
            return original(*given, **more)

        with monkeypatch.context() as patch:
            patch.setattr("edgeopt_agent.workers.launch._WAIT_FOR_RESOURCES_S", 0.0)
            patch.setattr(owner[fails_at], fails_at, fail_second)
            with pytest.raises(WorkerError, match="Too many open files"):
                await Worker.start(bundle, "0123456789ab", settings)
        async with asyncio.timeout(20):
            while set(psutil.Process().children()) - others:
                await asyncio.sleep(0)
        return len(list(Path("/proc/self/fd").iterdir())) - before

    assert asyncio.run(use()) == 0


def test_a_start_waits_for_descriptors_that_are_used_up_for_a_moment(null_bundle, settings, monkeypatch):
    original, calls = os.pipe, []

    def pipe():
        calls.append(1)
        if len(calls) <= 2:
            raise OSError(errno.EMFILE, "Too many open files")
        return original()

    async def use(worker):
        assert (await worker.infer(infer_request(REQUEST))).status == 200

    monkeypatch.setattr(os, "pipe", pipe)
    with_worker(null_bundle(), settings, use)
    assert len(calls) > 2


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        ({"name": "z"}, "names the inputs 'z'; the model has 'x'"),
        ({"dtype": "float64"}, "'x' is float64; the model takes float32"),
        ({"shape": ["batch", 5]}, "'x' the shape .*5.*; the model has .*4"),
        ({"shape": [4]}, "'x' the shape"),
    ],
)
def test_a_profile_that_does_not_describe_its_model_is_refused(null_bundle, settings, declared, words):
    port = {"name": "x", "dtype": "float32", "shape": ["batch", 4], **declared}
    with pytest.raises(WorkerError, match=words):
        with_worker(null_bundle(declared=(port,)), settings, None)


def test_a_name_that_is_too_long_is_refused(null_bundle, settings):
    with pytest.raises(WorkerError, match="name has 200 characters; at most 128"):
        with_worker(null_bundle(name="n" * 200), settings, None)


@pytest.mark.parametrize("works", [True, False])
def test_time_spent_on_a_request_is_not_taken_for_a_hang(null_bundle, settings, monkeypatch, works):
    silent = asyncio.Event()

    async def answers(_heartbeat, _limit_s):
        await asyncio.sleep(0)
        return not silent.is_set()

    seconds = itertools.count()
    monkeypatch.setattr("edgeopt_agent.workers.heartbeat.Heartbeat.answers", answers)
    monkeypatch.setattr("edgeopt_agent.workers.process.process_cpu_s", lambda _pid: next(seconds) if works else 1)

    async def use(worker):
        asked = asyncio.create_task(worker.infer(infer_request(REQUEST)))
        await asyncio.sleep(0)
        silent.set()
        if works:
            answer = await asked
            silent.clear()
            assert answer.status == 200
        else:
            with pytest.raises(WorkerTimeout, match="no sign of life"):
                await asked

    # The first beat is after the request has begun.
    with_worker(null_bundle(latency_ms=300), changed(settings, heartbeat_s=0.0), use)


def test_the_processor_time_of_a_process_is_told():
    assert process_cpu_s(os.getpid()) > 0
    assert process_cpu_s(1 << 30) is None


def test_a_request_that_kills_the_worker_by_its_memory_is_told_apart_from_those_behind_it(
    null_bundle, settings, monkeypatch
):
    async def use(worker):
        monkeypatch.setattr(worker._log, "last_line", lambda: "terminate called: std::bad_alloc")
        asked = [asyncio.create_task(worker.infer(infer_request(REQUEST))) for _ in range(2)]
        while worker._lanes.at_work is None:
            await asyncio.sleep(0.01)
        os.kill(worker.pid, signal.SIGABRT)
        first, second = await asyncio.gather(*asked, return_exceptions=True)
        assert isinstance(first, RequestTooLarge)
        assert "Send fewer values in one request" in str(first)
        assert isinstance(second, WorkerDied)
        assert not isinstance(second, RequestTooLarge)
        assert worker.ended_by_request()

    with_worker(null_bundle(hang="run"), settings, use)


def test_a_worker_that_runs_out_of_memory_by_itself_is_not_ended_by_a_request(null_bundle, settings, monkeypatch):
    async def use(worker):
        monkeypatch.setattr(worker._log, "last_line", lambda: "MemoryError")
        asked = asyncio.create_task(worker.golden(30.0))
        await asyncio.sleep(0)
        os.kill(worker.pid, signal.SIGABRT)
        with pytest.raises(WorkerDied, match="took more than"):
            await asked
        assert not worker.ended_by_request()

    with_worker(null_bundle(hang="run"), settings, use)


def test_an_end_by_a_request_is_told_only_once_it_has_been_judged(null_bundle, settings):
    async def use(worker):
        asked = asyncio.create_task(worker.infer(infer_request(REQUEST)))
        while worker._lanes.at_work is None:
            await asyncio.sleep(0.01)
        worker.kill("killed by the test")
        early = 0
        while not worker.ended.is_set():
            await asyncio.sleep(0)
            if worker._lanes.closed and not worker.how_it_ended():
                early += 1
                assert not worker.ended_by_request()
        assert early
        assert worker.ended_by_request()
        with pytest.raises(WorkerDied):
            await asked

    with_worker(null_bundle(hang="run"), settings, use)


def test_a_start_that_is_cancelled_twice_leaves_nothing_behind(null_bundle, settings, monkeypatch):
    loading = []

    async def load(worker, _folder):
        loading.append(worker)
        await asyncio.Event().wait()

    async def run():
        monkeypatch.setattr(Worker, "_load", load)
        starting = asyncio.create_task(Worker.start(null_bundle(), "0123456789ab", settings))
        while not loading:
            await asyncio.sleep(0.01)
        for _ in range(2):
            starting.cancel()
            await asyncio.sleep(0)
        await asyncio.gather(starting, return_exceptions=True)
        await asyncio.wait_for(loading[0].ended.wait(), 60)
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(loading[0]._lifeline)
        assert gone(loading[0].pid)

    asyncio.run(run())
