"""A worker client reports whatever becomes of its process: one contract for all tasks."""

import importlib
import os
import subprocess
import sys

import msgspec
import pytest

from edgeopt.commands.analyze.messages import Cover
from edgeopt.commands.ops import run as ops_run
from edgeopt.commands.ops.tasks import OpenOperator
from edgeopt.errors import TrialError
from edgeopt.measure.kernel_times import TimeKernels
from edgeopt.measure.messages import Describe, Described, Load
from edgeopt.measure.peaks import measure as peaks
from edgeopt.measure.peaks.tasks import Dispatch, Repeat
from edgeopt.pipeline.builders.messages import Inspect
from edgeopt.workers.client import WorkerClient
from edgeopt.workers.host import LocalHost
from edgeopt.workers.isolated_backend import OpenModel
from edgeopt.workers.protocol import NO_MEMORY, NO_PACKAGE, Done, Failed
from edgeopt.workers.tasks import TASKS, TaskRunner
from tests.near import NearHost

# A request for each module of tasks.
REQUESTS = {
    "trial": Load("null", "m.null.json", {}, "samples"),
    "isolated backend": OpenModel("null", "m.null.json"),
    "peaks": Repeat(Dispatch("null"), 1.0),
    "operators": OpenOperator("null", {}, "m", "f", "o"),
    "analyze": Cover("null", "m.null.json"),
    "kernel times": TimeKernels("null", "m", "s"),
    "variants": Inspect("m.onnx", "samples", 1),
}
# A worker that decodes requests as the real one does, and does something else with each.
PLANTED = """
import os, signal, sys, time
from edgeopt.errors import UsageError
from edgeopt.workers.protocol import serve
from edgeopt.workers.tasks import TaskRunner

def raises(error):
    raise error

FAULTS = iter([{faults}])

class Planted(TaskRunner):
    def find(self, name):
        return super().find(name)._replace(run=lambda request: next(FAULTS)())

if __name__ == "__main__":
    serve(Planted().answer)
"""
SAID = {
    "raises(UsageError('No.', 'Ask otherwise.'))": Failed("No.", "Ask otherwise.", "usage"),
    "raises(MemoryError())": Failed("There is not enough memory.", code=NO_MEMORY),
    "raises(ModuleNotFoundError(name='onnxscript'))": Failed(
        "The Python package 'onnxscript' is not installed.", code=NO_PACKAGE
    ),
    "raises(ModuleNotFoundError('install foo'))": Failed("ModuleNotFoundError: install foo"),
    "raises(ValueError('odd'))": Failed("ValueError: odd"),
}
ENDS = {
    "signal.raise_signal(signal.SIGSEGV)": ("crashed", "crashed: SIGSEGV"),
    "os.kill(os.getpid(), signal.SIGKILL)": ("killed", "was killed by the system"),
    "(print('no device', file=sys.stderr), os._exit(3))": ("exited", "ended with exit code 3 (no device)"),
    "raises(SystemExit(4))": ("exited", "ended with exit code 1"),
    "time.sleep(600)": ("hung", "hung: no answer within 1 s; it was killed"),
    "{'type': 'nothing that anybody knows'}": ("nonsense", "sent an invalid answer"),
    "(bytearray(400 << 20), time.sleep(600))": ("memory", "used more than 300 MiB; it was killed"),
}
INTERRUPTED = """
import signal
import psutil
from edgeopt.measure.peaks.tasks import Dispatch, Repeat
from edgeopt.workers import host
from edgeopt.workers.client import WorkerClient
from edgeopt.workers.protocol import Done

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
host.WORKER_MODULE = "planted_worker"
client = WorkerClient(host.LocalHost())
client.begin("repeat")
process = psutil.Process(client.child.pid)
try:
    client.ask(Repeat(Dispatch("null"), 1.0), Done, 60)
except KeyboardInterrupt:
    print("interrupted; its worker", "runs on" if process.is_running() else "has ended")
"""
# The task that imports least.
QUICK = "peaks"


@pytest.fixture
def planted(tmp_path, monkeypatch):
    """A client, whose worker has these faults instead of answers, and a request for it."""
    monkeypatch.syspath_prepend(str(tmp_path))
    made = []

    def plant(kind, *faults, host=None, max_starts=None):
        text = PLANTED.format(faults=", ".join(f"lambda: {fault}" for fault in faults))
        (tmp_path / "planted_worker.py").write_text(text)
        monkeypatch.setattr("edgeopt.workers.host.WORKER_MODULE", "planted_worker")
        if isinstance(host, NearHost):
            monkeypatch.delitem(sys.modules, "planted_worker", raising=False)
            importlib.invalidate_caches()
            host.runner = importlib.import_module("planted_worker").Planted
        made.append(WorkerClient(host or LocalHost(tmp_path, 300 << 20), max_starts))
        return made[-1], REQUESTS[kind]

    yield plant
    for each in made:
        each.close()


def test_each_task_takes_the_request_with_its_name():
    runner = TaskRunner()
    for name in TASKS:
        decode = runner.find(name).decode
        with pytest.raises(msgspec.ValidationError, match="Invalid value 'no task'"):
            decode(b'{"type": "no task"}')
        assert "Invalid value" not in runner.answer(f'{{"type": "{name}"}}'.encode()).decode()
    assert {type(each).__struct_config__.tag for each in REQUESTS.values()} <= set(TASKS)


def test_a_request_without_a_task_is_a_failure_and_not_the_end():
    for line in (b"nonsense", b'{"type": "no task"}', b"{}"):
        assert b'"type":"failed"' in TaskRunner().answer(line)


@pytest.mark.parametrize("host", [LocalHost, NearHost])
@pytest.mark.parametrize("kind", REQUESTS)
def test_an_exception_is_an_answer_and_the_worker_goes_on(planted, kind, host):
    client, request = planted(kind, *SAID, host=host())
    assert [client.ask(request, Done, 60) for _ in SAID] == list(SAID.values())


@pytest.mark.parametrize("kind", REQUESTS)
def test_a_crash_is_an_answer_and_the_next_request_has_a_new_process(planted, kind):
    client, request = planted(kind, "signal.raise_signal(signal.SIGSEGV)")
    for _ in range(2):  # the second would be at the end of its faults
        answer = client.ask(request, Done, 60)
        assert (answer.ending, answer.reason) == ("crashed", "its process crashed: SIGSEGV")


@pytest.mark.parametrize("fault", ENDS)
def test_every_ending_is_an_answer(planted, fault):
    client, request = planted(QUICK, fault)
    answer = client.ask(request, Done, 1 if fault == "time.sleep(600)" else 60)
    ending, words = ENDS[fault]
    assert answer.ending == ending
    assert answer.message.startswith(words)
    assert client.child is None


def test_an_interrupted_client_leaves_no_process_running(tmp_path):
    """In a process of its own, which its worker interrupts: by then it waits, however busy the machine is."""
    interrupt = "lambda: (os.kill(os.getppid(), signal.SIGINT), time.sleep(600))"
    (tmp_path / "planted_worker.py").write_text(PLANTED.format(faults=interrupt))
    (tmp_path / "client.py").write_text(INTERRUPTED)
    search = os.pathsep.join([str(tmp_path), *sys.path])
    ran = subprocess.run(
        [sys.executable, str(tmp_path / "client.py")],
        check=False,
        env=os.environ | {"PYTHONPATH": search},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "interrupted; its worker has ended\n", "")


def test_a_refused_start_is_an_answer(planted, monkeypatch):
    client, request = planted(QUICK, "None")

    def refused(*_, **__):
        raise BlockingIOError(11, "Resource temporarily unavailable")

    with monkeypatch.context() as patched:
        patched.setattr("subprocess.Popen", refused)
        answer = client.ask(request, Done, 60)
    assert (answer.ending, answer.code) == ("not-started", "not-started")
    assert answer.reason == "its process could not be started: Resource temporarily unavailable"
    assert client.ready(0.0)


def test_searches_and_measurements_raise_a_refused_start(tmp_path, monkeypatch):
    """A search cannot go on, nor what measures operators or peaks; the model is not at fault."""

    def refused(*_, **__):
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr("subprocess.Popen", refused)
    worker = ops_run.BackendWorker("null", LocalHost(tmp_path), tmp_path)
    worker.open(tmp_path / "m", tmp_path / "f", {})
    tasks = peaks.RuntimeTasks("null", LocalHost(tmp_path), [Dispatch("null")])
    tasks.ask(Dispatch("null"), 1.0)
    for answer in (lambda: worker.answer(Done), lambda: tasks.answer(60.0)):
        with pytest.raises(TrialError, match=r"^A process could not be started: Resource temporarily") as caught:
            answer()
        assert caught.value.code == "not-started"
        assert "ulimit" in caught.value.hint


def test_starts_are_limited(planted):
    client, request = planted(QUICK, "os._exit(1)", max_starts=1)
    assert client.ask(request, Done, 60).ending == "exited"
    assert client.ask(request, Done, 60).ending == "too-often"


def test_it_is_ready_when_the_answer_is_there(planted):
    client, request = planted(QUICK, "time.sleep(0.5)")
    client.send(request)
    assert not client.ready(0.0)
    assert client.ready(60)
    assert client.answer(Done, 1) == Done()


def test_a_process_that_was_started_early_answers(planted):
    client, request = planted(QUICK, "raises(ValueError(os.getpid()))")
    client.begin("repeat")
    pid = client.child.pid
    assert client.ask(request, Done, 60).message == f"ValueError: {pid}"


def test_a_closed_client_has_no_answer(planted):
    client, request = planted(QUICK, "time.sleep(600)")
    client.send(request)
    client.close()
    client.close()
    assert client.answer(Done, 60) == Failed("was ended", ending="closed")


@pytest.mark.parametrize("host", [LocalHost, NearHost])
def test_answers_are_the_same_in_this_process(host, load_null):
    client = WorkerClient(host())
    found = client.ask(Describe("null", load_null().model_path), Described, 60)
    client.close()
    assert isinstance(found, Described)
    assert [each.name for each in found.inputs] == ["x"]
