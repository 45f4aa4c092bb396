"""Processes that are forked warm, held to the answers of those that are started anew."""

import asyncio
import json
import os
import signal
import subprocess
import sys

import psutil
import pytest
import uvloop

from tests import warm

MODULE = "tests.mirror"
PATH = os.pathsep.join(p for p in sys.path if p)


@pytest.fixture(params=["warm", "anew"])
def how(request, monkeypatch):
    monkeypatch.setitem(warm.MODULES, MODULE, False)
    with warm.processes(request.param == "warm"):
        yield request.param


def begin(*arguments, flags=(), more=None, **options):
    environment = {**os.environ, "PYTHONPATH": PATH, "PYTHONUNBUFFERED": "", **(more or {})}
    command = [sys.executable, *flags, "-m", MODULE, *arguments]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen(command, **{**pipes, "env": environment, "text": True, **options})


def test_the_one_is_forked_and_the_other_is_not(how):
    with begin("wait") as process:
        process.stdout.readline()
        mine = MODULE in psutil.Process(process.pid).cmdline()
        assert psutil.Process(process.pid).ppid() == os.getpid()
        process.kill()
    assert mine is (how == "anew")
    assert process.returncode == -signal.SIGKILL


def test_it_leads_its_session_as_soon_as_its_number_is_known(how):
    for _ in range(10):
        with begin("wait", start_new_session=True) as process:
            assert os.getsid(process.pid) == process.pid
            process.kill()


def test_a_signal_ends_it_as_soon_as_its_number_is_known(how):
    for _ in range(20):
        with begin("wait") as process:
            process.terminate()
            try:
                assert process.wait(60) == -signal.SIGTERM
            finally:
                process.kill()


def test_it_sees_what_it_was_started_with(how, tmp_path):
    mine, theirs = os.pipe()
    options = {"cwd": tmp_path, "start_new_session": True, "pass_fds": (theirs,), "more": {"OWN": "é"}}
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        process = begin("tell", str(theirs), "ü", flags=["-P", "-u"], **options)
    finally:
        os.sched_setaffinity(0, cores)
    with process:
        os.close(theirs)
        told = json.loads(process.communicate("from above")[0])
    with open(mine) as pipe:  # noqa: PTH123 - it is no path
        assert pipe.read() == "through the pipe"
    own = list(dict.fromkeys(PATH.split(os.pathsep)))
    assert told.pop("path")[: len(own)] == own
    assert told == {
        "arguments": [str(theirs), "ü"],
        "name": "__main__",
        "file": str(MIRROR),
        "folder": str(tmp_path),
        "own": "é",
        "hidden": None,
        "stdin": "from above",
        "session": process.pid,
        "group": process.pid,
        "cores": [min(cores)],
        "files": [0, 1, 2, theirs],
        "above": os.getpid(),
        "main_thread": True,
    }
    assert process.returncode == 0


MIRROR = warm.__spec__.origin.replace("warm.py", "mirror.py")


@pytest.mark.parametrize(
    ("ending", "code", "error"),
    [
        ("return", 0, ""),
        ("exit:7", 7, ""),
        ("exit:a sentence", 1, "a sentence\n"),
        ("raise", 1, "ValueError: a fault\n"),
        ("interrupt", -signal.SIGINT, "KeyboardInterrupt\n"),
        ("abort", -signal.SIGABRT, ""),
        ("hard", 9, ""),
    ],
)
def test_it_ends_as_it_would(how, ending, code, error):
    with begin(ending) as process:
        out, err = process.communicate()
    # What is written without a line's end, and by whoever asked to be called at the end, comes out too.
    assert out == ("" if ending in ("abort", "hard") else "begun, at the end")
    assert (process.returncode, err[-len(error) :] if error else err) == (code, error)


def test_a_signal_reaches_it(how):
    with begin("wait") as process:
        process.stdout.readline()
        process.terminate()
        assert process.wait(60) == -signal.SIGTERM


def test_one_that_cannot_write_says_so(how):
    with begin("wait-and-write") as process:
        process.stdout.readline()
        process.stdout.close()
        process.stdin.close()
        assert process.wait(60) == 120


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_loop_waits_for_it(how, loop):
    async def started():
        command = (sys.executable, "-P", "-m", MODULE, "exit:7")
        environment = {**os.environ, "PYTHONPATH": PATH}
        process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.DEVNULL, env=environment)
        assert process.returncode is None
        return await process.wait(), process.returncode

    with asyncio.Runner(loop_factory=loop) as runner:
        assert runner.run(started()) == (7, 7)


@pytest.mark.parametrize(
    "changes", [{"PYTHONPATH": "/elsewhere"}, {"PYTHONOPTIMIZE": "1"}, {"LC_ALL": "C"}, {"LD_PRELOAD": "x.so"}]
)
def test_what_changes_the_start_itself_is_started_anew(changes):
    command = [sys.executable, "-m", "edgeopt_agent.main"]
    assert warm._program(command, {**os.environ, "PYTHONPATH": PATH}) is not None
    assert warm._program(command, {**os.environ, **changes}) is None
    assert warm._program([sys.executable, "-c", ""], None) is None
    assert warm._program([sys.executable, "-I", "-m", "edgeopt_agent.main"], None) is None
    assert warm._program(["edgeopt", "probe"], None) is None
