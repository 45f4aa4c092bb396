import contextlib
import gc
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import psutil
import pytest

import edgeopt
from edgeopt.errors import DataError, ModelError, UsageError, WorkerError
from tests.processes import wait_ended

pytestmark = pytest.mark.processes


def row(number=1.0, rows=1, width=8):
    return np.full((rows, width), number, np.float32)


def worker_of(session):
    """The child process of this one that the session has now."""
    return psutil.Process(session._loaded._worker.pid)


def workers():
    """Those of this process; other tests may have left processes of their own."""
    found = []
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.Error):  # it ends just now
            if "isolated.worker" in " ".join(child.cmdline()):
                found.append(child)
    return found


def shared_memory():
    files = [file for file in Path("/proc/self/fd").iterdir() if file.is_symlink()]
    return sum("memfd:edgeopt" in str(file.readlink()) for file in files)


def image(seed=0, batch=1):
    return np.random.default_rng(seed).standard_normal((batch, 3, 16, 16)).astype(np.float32)


def test_a_bundle_answers_as_it_does_in_this_process(bundle):
    with edgeopt.load(bundle) as plain, edgeopt.load(bundle, isolate=True) as session:
        assert (session.inputs, session.outputs, session.backend) == (plain.inputs, plain.outputs, plain.backend)
        for batch in (1, 64, 3):
            np.testing.assert_array_equal(session.run(image(1, batch))["y"], plain.run(image(1, batch))["y"])


@pytest.mark.skipif(
    (os.cpu_count() or 1) < 2 or not hasattr(os, "sched_yield"), reason="nothing can be polled here"
)
def test_only_a_spare_core_polls_for_answers(conv_model):
    def load(threads):
        return edgeopt.load(conv_model, "onnxruntime-cpu", {"threads": threads}, isolate=True)

    with load(1) as session:
        plain = session.run(image())["y"]
        assert session._loaded._worker.polls
        for _ in range(20):
            np.testing.assert_array_equal(session.run(image())["y"], plain)
        with load(os.cpu_count() - 1) as other:
            other.run(image())
            assert not session._loaded._worker.polls
            np.testing.assert_array_equal(session.run(image())["y"], plain)
        assert session._loaded._worker.polls
    with load(0) as session:
        assert not session._loaded._worker.polls


def test_the_model_runs_in_a_process_of_its_own_whose_memory_is_known(bundle):
    with edgeopt.load(bundle, isolate=True) as session, edgeopt.load(bundle) as plain:
        assert worker_of(session).ppid() == os.getpid()
        assert session.memory_bytes > 2**20
        assert plain.memory_bytes is None


def test_results_stay_valid_after_later_runs_and_after_the_session(null_model):
    with edgeopt.load(null_model("m"), isolate=True) as session:
        kept = [session.run(row(k))["y"] for k in range(20)]
    with edgeopt.load(null_model("m")) as plain:
        for k, array in enumerate(kept):
            np.testing.assert_array_equal(array, plain.run(row(k))["y"])


def test_outputs_that_outgrow_the_shared_memory_arrive_whole(null_model):
    with edgeopt.load(null_model("m"), isolate=True) as session, edgeopt.load(null_model("m")) as plain:
        for rows in (1, 100_000, 10, 300_000):
            given = row(2.0, rows)
            np.testing.assert_array_equal(session.run(given)["y"], plain.run(given)["y"])


@pytest.mark.parametrize(
    ("dtype", "values"),
    [("str", ["bär", "", "a much longer text"]), ("int64", [1, -2, 3]), ("bool", [True, False, True])],
)
def test_types_that_are_not_floats(null_model, dtype, values):
    port = {"dtype": dtype, "shape": ["n"]}
    model = null_model("m", inputs=[{"name": "x", **port}], outputs=[{"name": "y", **port}])
    given = np.array(values, object if dtype == "str" else dtype)
    with edgeopt.load(model, isolate=True) as session, edgeopt.load(model) as plain:
        mine, theirs = session.run(given)["y"], plain.run(given)["y"]
    assert mine.dtype == theirs.dtype
    assert mine.tolist() == theirs.tolist()


@pytest.mark.parametrize(
    ("feeds", "error"),
    [({"x": row(width=7)}, DataError), ({"z": row()}, DataError), ({"x": np.array([[None] * 8])}, DataError)],
)
def test_wrong_feeds_are_the_same_error_as_in_this_process_and_leave_the_worker(null_model, feeds, error):
    with edgeopt.load(null_model("m"), isolate=True) as session, edgeopt.load(null_model("m")) as plain:
        before = worker_of(session)
        with pytest.raises(error) as mine:
            session.run(feeds)
        with pytest.raises(error) as theirs:
            plain.run(feeds)
        assert mine.value.message == theirs.value.message
        assert worker_of(session) == before


def test_options_that_a_backend_refuses_are_refused_with_its_error(null_model):
    with pytest.raises(UsageError, match="colour"):
        edgeopt.load(null_model("m"), options={"colour": "red"}, isolate=True)
    assert not workers()


def test_a_crash_is_the_error_of_its_request_and_the_next_one_is_answered(null_model):
    """The model that crashed is replaced by a sound one, as the file is read when a worker loads it."""
    model = null_model("m", crash="run")
    with edgeopt.load(model, isolate=True) as session:
        first = worker_of(session)
        null_model("m")
        with pytest.raises(WorkerError, match=r"crashed \(SIGSEGV\) while it ran this request") as raised:
            session.run(row())
        assert raised.value.ending == "crashed"
        assert "next request" in raised.value.hint
        assert session.run(row())["y"].shape == (1, 8)
        assert worker_of(session) != first
        assert not first.is_running()


def test_a_hang_ends_at_the_time_limit(null_model):
    model = null_model("m", hang="run")
    with edgeopt.load(model, isolate=edgeopt.Isolation(time_limit_s=0.2)) as session:
        null_model("m")
        with pytest.raises(WorkerError, match=r"no answer within 0\.2 s") as raised:
            session.run(row())
        assert raised.value.ending == "hung"


def test_a_request_that_takes_too_much_memory_is_an_error_of_that_request(null_model):
    model = null_model("m", eat_memory_at="run")
    with edgeopt.load(model, isolate=edgeopt.Isolation(memory_limit_bytes=2**29)) as session:
        null_model("m")
        with pytest.raises(WorkerError, match="ran out of memory; its limit is 512 MiB") as raised:
            session.run(row())
        assert raised.value.ending == "memory"
        assert session.run(row())["y"].shape == (1, 8)


def test_a_worker_that_was_killed_while_idle_costs_no_request(null_model):
    with edgeopt.load(null_model("m"), isolate=True) as session:
        worker = worker_of(session)
        worker.send_signal(signal.SIGKILL)
        psutil.wait_procs([worker], timeout=30)
        assert session.run(row())["y"].shape == (1, 8)


def test_a_worker_that_was_killed_under_way_is_told_apart_from_a_crash(null_model):
    with edgeopt.load(null_model("m", hang="run"), isolate=True) as session:
        worker = worker_of(session)
        killer = threading.Timer(0.1, worker.kill)
        killer.start()
        with pytest.raises(WorkerError, match="was killed while it ran this request") as raised:
            session.run(row())
        assert raised.value.ending == "killed"


@pytest.mark.parametrize(("fault", "error"), [("crash", WorkerError), ("fail", ModelError)])
def test_a_model_that_cannot_be_loaded_is_refused_and_leaves_no_process(null_model, fault, error):
    with pytest.raises(error):
        edgeopt.load(null_model("m", **{fault: "load"}), isolate=True)
    assert not workers()


def test_close_leaves_no_process_and_no_shared_memory(null_model):
    gc.collect()
    before = shared_memory()
    session = edgeopt.load(null_model("m"), isolate=True)
    worker = worker_of(session)
    for rows in (1, 50_000):
        session.run(row(rows=rows))
    assert shared_memory() > before
    session.close()
    session.close()
    assert not worker.is_running()
    assert shared_memory() == before
    with pytest.raises(UsageError, match="closed"):
        session.run(row())


def test_shared_memory_does_not_grow_with_the_number_of_runs(null_model):
    with edgeopt.load(null_model("m"), isolate=True) as session:
        for k in range(200):
            session.run(row(rows=1 + 1000 * (k % 7)))
        worker = worker_of(session)
        assert shared_memory() <= 8
        assert (
            len([m for m in Path(f"/proc/{worker.pid}/maps").read_text().splitlines() if "memfd:edgeopt" in m])
            <= 8
        )


def test_several_threads_each_get_their_own_outputs(bundle):
    with edgeopt.load(bundle) as plain, edgeopt.load(bundle, isolate=True) as session:
        wrong = []

        def work(seed):
            wanted = plain.run(image(seed))["y"]
            wrong.extend(k for k in range(50) if not np.array_equal(session.run(image(seed))["y"], wanted))

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong


def test_the_worker_ends_when_its_program_is_killed(null_model):
    program = (
        "import edgeopt, sys; s = edgeopt.load(sys.argv[1], isolate=True); "
        "print(s._loaded._worker.pid, flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", program, str(null_model("m"))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        worker = psutil.Process(int(process.stdout.readline()))
        process.kill()
    wait_ended([worker])


def test_a_session_that_is_dropped_ends_its_worker(null_model):
    session = edgeopt.load(null_model("m"), isolate=True)
    worker = worker_of(session)
    del session
    gc.collect()
    assert not worker.is_running()


def test_a_program_that_forgets_to_close_ends_without_a_word(null_model):
    program = "import edgeopt, sys; s = edgeopt.load(sys.argv[1], isolate=True); print(s._loaded._worker.pid)"
    command = [sys.executable, "-W", "error", "-c", program, str(null_model("m"))]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert not psutil.pid_exists(int(done.stdout))


def test_a_fork_that_ends_leaves_the_worker_of_its_parent(null_model):
    program = (
        "import edgeopt, os, sys, numpy; s = edgeopt.load(sys.argv[1], isolate=True); child = os.fork()\n"
        "if not child: sys.exit()\n"
        "os.waitpid(child, 0); worker = s._loaded._worker.pid; s.run(numpy.ones((1, 8), 'float32'))\n"
        "print(s._loaded._worker.pid == worker)"
    )
    command = [sys.executable, "-c", program, str(null_model("m"))]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "True\n"


@pytest.mark.parametrize("limit", ["time_limit_s", "load_limit_s", "memory_limit_bytes"])
def test_a_limit_of_nothing_is_refused(limit):
    with pytest.raises(UsageError, match="above zero"):
        edgeopt.Isolation(**{limit: 0})


def test_an_interrupted_run_does_not_give_its_answer_to_the_next(null_model, monkeypatch):
    with edgeopt.load(null_model("m"), isolate=True) as session, edgeopt.load(null_model("m")) as plain:
        process = session._loaded._worker
        with monkeypatch.context() as patch:

            def interrupted(limit_s):
                raise KeyboardInterrupt

            patch.setattr(process, "receive", interrupted, raising=True)
            with pytest.raises(KeyboardInterrupt):
                session.run(row(1.0))
        np.testing.assert_array_equal(session.run(row(2.0))["y"], plain.run(row(2.0))["y"])


def test_an_error_of_the_model_keeps_its_kind(null_model):
    with (
        edgeopt.load(null_model("m", fail="run"), isolate=True) as session,
        pytest.raises(ModelError, match="planted"),
    ):
        session.run(row())


@pytest.mark.timing
def test_the_worker_is_back_within_a_second(null_model):
    import time

    model = null_model("m", crash="run")
    with edgeopt.load(model, isolate=True) as session:
        null_model("m")
        with pytest.raises(WorkerError):
            session.run(row())
        begin = time.perf_counter()
        session.run(row())
        assert time.perf_counter() - begin < 1.0
