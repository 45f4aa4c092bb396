"""Whoever asks a process gets an answer whatever becomes of it: one contract for all that are asked."""

import importlib
import os
import signal
import sys
import threading

import psutil
import pytest

from edgeopt.commands.analyze import messages as analyzing
from edgeopt.commands.analyze import messages as analyzing_lane
from edgeopt.commands.ops import child as ops
from edgeopt.commands.ops import run as ops_run
from edgeopt.errors import TrialError
from edgeopt.measure import isolated_backend as apart_backend
from edgeopt.measure import isolated_worker as apart
from edgeopt.measure import messages as bench
from edgeopt.measure import op_times, op_times_worker
from edgeopt.measure.host import TRIAL_MODULE, Asked, LocalHost
from edgeopt.measure.peaks import measure as peaks_lane
from edgeopt.measure.peaks import tasks as peaks
from edgeopt.measure.serve import NO_MEMORY, NO_PACKAGE, Failed
from edgeopt.pipeline.build import messages as making
from edgeopt.pipeline.build import variants
from tests.near import NearHost

# Each module that is asked, a question for it, and how its answers are read.
ASKED = {
    TRIAL_MODULE: (bench.Load("null", "m.null.json", {}, "samples"), bench.decode_answer),
    apart_backend.CHILD_MODULE: (apart.Open("null", "m.null.json"), apart.decode_answer.decode),
    peaks_lane.CHILD_MODULE: (peaks.Repeat(peaks.Dispatch("null"), 1.0), peaks.decode_answer),
    ops_run.CHILD_MODULE: (ops.Open("null", {}, "m", "f", "o"), ops.decode_answer.decode),
    analyzing_lane.CHILD_MODULE: (analyzing.Cover("null", "m.null.json"), analyzing.decode_answer.decode),
    op_times.CHILD_MODULE: (op_times_worker.Wanted("null", "m", "s"), op_times_worker.decode_answer),
    variants.MAKER_MODULE: (making.Inspect("m.onnx", "samples", 1), making.decode_answer),
}
# A module that is asked as the real one is, and does something else with the question each time.
PLANTED = """
import os, signal, sys, time
from {module} import ANSWERING as REAL
from edgeopt.measure.serve import Answering, serve
from edgeopt.errors import UsageError

def raises(error):
    raise error

FAULTS = iter([{faults}])
ANSWERING = Answering(REAL.decode, lambda: lambda request: next(FAULTS)())
if __name__ == "__main__":
    serve(ANSWERING.lines())
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
    "[bytearray(16 << 20) for _ in range(1 << 20)]": ("memory", "used more than 300 MiB; it was killed"),
}
# The one that imports least.
QUICK = peaks_lane.CHILD_MODULE


@pytest.fixture
def planted(tmp_path, monkeypatch):
    """What asks a module of this kind, with these faults in place of its answers."""
    monkeypatch.syspath_prepend(str(tmp_path))
    made = []

    def plant(module, *faults, host=None, most_starts=None):
        name = f"planted_{module.replace('.', '_')}"
        text = PLANTED.format(module=module, faults=", ".join(f"lambda: {fault}" for fault in faults))
        (tmp_path / f"{name}.py").write_text(text)
        monkeypatch.delitem(sys.modules, name, raising=False)
        importlib.invalidate_caches()
        request, decode = ASKED[module]
        made.append(Asked(host or LocalHost(tmp_path, 300 << 20), name, decode, most_starts))
        return made[-1], request

    yield plant
    for each in made:
        each.close()


@pytest.mark.parametrize("host", [LocalHost, NearHost])
@pytest.mark.parametrize("module", ASKED)
def test_what_it_raises_is_an_answer_and_it_goes_on(planted, module, host):
    asked, request = planted(module, *SAID, host=host())
    assert [asked.ask(request, 60) for _ in SAID] == list(SAID.values())


@pytest.mark.parametrize("module", ASKED)
def test_a_crash_is_an_answer_and_the_next_question_has_a_process_of_its_own(planted, module):
    asked, request = planted(module, "signal.raise_signal(signal.SIGSEGV)")
    for _ in range(2):  # the second would be at the end of its faults
        answer = asked.ask(request, 60)
        assert (answer.ending, answer.told) == ("crashed", "its process crashed: SIGSEGV")


@pytest.mark.parametrize("fault", ENDS)
def test_however_it_ends_that_is_an_answer(planted, fault):
    asked, request = planted(QUICK, fault)
    answer = asked.ask(request, 1 if "sleep" in fault else 60)
    ending, words = ENDS[fault]
    assert answer.ending == ending
    assert answer.message.startswith(words)
    assert asked.child is None


@pytest.fixture
def interrupted():
    """Raises KeyboardInterrupt in this thread in half a second."""

    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, interrupt)
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGUSR1))
    timer.start()
    yield
    timer.join()
    signal.signal(signal.SIGUSR1, before)


def test_whoever_is_interrupted_while_it_waits_leaves_no_process_at_work(planted, request):
    asked, question = planted(QUICK, "time.sleep(600)")
    asked.begin()
    process = psutil.Process(asked.child.pid)
    request.getfixturevalue("interrupted")
    with pytest.raises(KeyboardInterrupt):
        asked.ask(question, 60)
    assert not process.is_running()


def test_one_that_cannot_be_started_is_an_answer(planted, monkeypatch):
    asked, request = planted(QUICK, "None")

    def refused(*_, **__):
        raise BlockingIOError(11, "Resource temporarily unavailable")

    with monkeypatch.context() as patched:
        patched.setattr("subprocess.Popen", refused)
        answer = asked.ask(request, 60)
    assert (answer.ending, answer.code) == ("not-started", "not-started")
    assert answer.told == "its process could not be started: Resource temporarily unavailable"
    assert asked.ready(0.0)


def test_whose_answers_hang_on_having_a_process_says_so_by_an_error(tmp_path, monkeypatch):
    """A search cannot go on, nor what measures operators or peaks; the model is not at fault."""

    def refused(*_, **__):
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr("subprocess.Popen", refused)
    lane = ops_run.Lane("null", LocalHost(tmp_path), tmp_path)
    lane.open(tmp_path / "m", tmp_path / "f", {})
    peaks_one = peaks_lane.Lane("null", LocalHost(tmp_path), [peaks.Dispatch("null")])
    peaks_one.ask(peaks.Dispatch("null"), 1.0)
    for asked in (lane.answer, lambda: peaks_one.answer(60.0)):
        with pytest.raises(TrialError, match=r"^A process could not be started: Resource temporarily") as caught:
            asked()
        assert caught.value.code == "not-started"
        assert "ulimit" in caught.value.hint


def test_it_is_started_so_often_and_no_more(planted):
    asked, request = planted(QUICK, "os._exit(1)", most_starts=1)
    assert asked.ask(request, 60).ending == "exited"
    assert asked.ask(request, 60).ending == "too-often"


def test_it_is_ready_when_it_has_answered(planted):
    asked, request = planted(QUICK, "time.sleep(0.5)")
    asked.send(request)
    assert not asked.ready(0.0)
    assert asked.ready(60)
    assert asked.answer(1).ending == "nonsense"


def test_begun_early_it_is_the_process_that_answers(planted):
    asked, request = planted(QUICK, "raises(ValueError(os.getpid()))")
    asked.begin()
    pid = asked.child.pid
    assert asked.ask(request, 60).message == f"ValueError: {pid}"


def test_what_was_closed_has_no_answer(planted):
    asked, request = planted(QUICK, "time.sleep(600)")
    asked.send(request)
    asked.close()
    asked.close()
    assert asked.answer(60) == Failed("was ended", ending="closed")


@pytest.mark.parametrize("host", [LocalHost, NearHost])
def test_answers_are_the_same_wherever_they_are_given(host, load_null):
    asked = Asked(host(), TRIAL_MODULE, bench.decode_answer)
    found = asked.ask(bench.Describe("null", load_null().model_path), 60)
    asked.close()
    assert isinstance(found, bench.Described)
    assert [each.name for each in found.inputs] == ["x"]
