"""The command line in interpreters that lack what Windows or macOS lacks; see `lacking/sitecustomize.py`."""

import json
import signal
import subprocess
import sys
from contextlib import ExitStack
from functools import cache

import psutil
import pytest

from tests.portable.systems import QUICK, SYSTEMS, USES, left_in, opened, workers

COMMANDS = (
    ("probe", ("--json",)),
    ("analyze", ("MODEL", "--data", "DATA")),
    ("simplify", ("MODEL", "-o", "small.onnx", "--data", "DATA")),
    ("optimize", ("MODEL", "-o", "m.edgeopt", "--data", "DATA", "--profile", "p.toml", "--time-limit", "3")),
    ("verify", ("BUNDLE",)),
    ("run", ("BUNDLE", "--data", "DATA", "-o", "results")),
    ("report", ("BUNDLE", "-o", "report.html")),
    ("bench", ("BUNDLE", "--baseline-command", "PROGRAM", "--data", "DATA", "--time-limit", "1")),
    ("compare", ("MODEL", "BUNDLE", "--data", "DATA")),
    ("quantize", ("MODEL", "-o", "q.onnx", "--data", "DATA", "--method", "int8", "--time-limit", "5")),
)
QUICK_ONES = {
    "win32": {"probe", "simplify", "optimize", "verify", "run", "compare"},
    "darwin": {"probe", "run"},
}
NO_GAIN = 4
PROGRAM = """
import sys
print("ready", flush=True)
for line in sys.stdin:
    print("done", flush=True)
"""


@pytest.fixture(scope="module")
def session_on(tmp_path_factory, conv_model, conv_data, conv_bundle):
    """Returns the session of a system, which runs the commands of all tests here in one process."""
    with ExitStack() as stack:

        @cache
        def session_on(system):
            folder = tmp_path_factory.mktemp(system)
            session = stack.enter_context(opened(system, folder, conv_model, conv_data, conv_bundle))
            (session.folder / "my program.py").write_text(PROGRAM)
            session.names["PROGRAM"] = f'"{sys.executable}" "{session.folder / "my program.py"}"'
            return session

        yield session_on


def cases():
    for system in SYSTEMS:
        for command, arguments in COMMANDS:
            marks = () if command in QUICK_ONES[system] else (pytest.mark.slow,)
            yield pytest.param(system, command, arguments, marks=marks, id=f"{system} {command}")


@pytest.mark.parametrize(("system", "command", "arguments"), list(cases()))
def test_a_command_works_where_posix_is_missing(session_on, system, command, arguments):
    session = session_on(system)
    answer = session(command, *arguments)
    allowed = {0, NO_GAIN} if command == "quantize" else {0}
    assert answer["code"] in allowed, answer["printed"]
    assert session.ended_children()
    for place in arguments[arguments.index("-o") + 1 :][:1] if "-o" in arguments and answer["code"] == 0 else ():
        assert (session.folder / place).exists()


# Ctrl-Break is SIGUSR1 in `sitecustomize`; SIGKILL ends a command as the task manager does.
ENDS = (
    pytest.param("win32", signal.SIGUSR1, id="win32 Ctrl-Break"),
    pytest.param("win32", signal.SIGKILL, id="win32 killed"),
    pytest.param("darwin", signal.SIGTERM, id="darwin SIGTERM"),
    pytest.param("darwin", signal.SIGINT, id="darwin SIGINT", marks=pytest.mark.slow),
    pytest.param("darwin", signal.SIGKILL, id="darwin killed", marks=pytest.mark.slow),
)


@pytest.mark.parametrize(("system", "number"), ENDS)
def test_a_command_that_is_ended_leaves_no_process(python, tmp_path, conv_model, conv_data, system, number):
    (tmp_path / "p.toml").write_text(QUICK)
    command = ("-m", "edgeopt", "optimize", str(conv_model), "--data", str(conv_data), "-o", "m.edgeopt")
    process = python(system, tmp_path, *command, "--profile", "p.toml")
    started = workers(process)
    process.send_signal(number)
    printed, _ = process.communicate(timeout=60)
    assert process.returncode != 0, printed
    _, alive = psutil.wait_procs(started, timeout=20)
    assert alive == []
    if number != signal.SIGKILL:
        assert left_in(tmp_path, system) == []
        assert not (tmp_path / "m.edgeopt").exists()


TAKEN = (
    *(
        "import fcntl",
        "import resource",
        "import pwd",
        "import termios",
        "import os; os.fork",
        "import os; os.killpg",
    ),
    *("import os; os.sched_getaffinity(0)", "import os; os.pread", "import select; select.poll"),
    *("import signal; signal.SIGKILL", "import socket; socket.AF_UNIX", "from os import getuid"),
    "import importlib; importlib.import_module('os').getuid",
    "import select, os; select.select([os.pipe()[0]], [], [], 0)",
    "import subprocess, sys; subprocess.run([sys.executable, '-V'], start_new_session=True)",
    "import subprocess, sys; subprocess.Popen([sys.executable, '-V'], pass_fds=(1,))",
    "import subprocess, sys; subprocess.Popen([sys.executable, '-V'], preexec_fn=print)",
    "open('/proc/self/stat')",
    "import os; os.listdir('/proc')",
    "import pathlib; pathlib.Path('/sys/class').stat()",
    "import os; f = open('held', 'wb'); os.replace('held', 'other')",
    "import os; f = open('held', 'wb'); os.unlink('held')",
    "import os; open('a', 'wb'); open('b', 'wb'); os.rename('a', 'b')",
    "import os; open('a', 'wb'); os.fsync(os.open('a', os.O_RDONLY))",
    "import ctypes; ctypes.CDLL(None)",
    "open('a', 'w')",
    "import pathlib; pathlib.Path('a').write_text('b')",
)
"""What a module of edgeopt cannot do on Windows."""

PLANTED = """
import json, sys
found = []
for text in json.loads(sys.argv[1]):
    try:
        exec(text, {"__name__": "edgeopt.planted"})
    except (ImportError, AttributeError, OSError, ValueError, TypeError, EncodingWarning):
        exec(text, {"__name__": "planted"})
    else:
        found.append(text)
print(json.dumps(found))
"""


def test_what_windows_lacks_is_taken_from_edgeopt_alone(python, tmp_path):
    process = python("win32", tmp_path, "-c", PLANTED, json.dumps(TAKEN))
    printed, _ = process.communicate(timeout=60)
    (tmp_path / USES).unlink()
    assert printed.splitlines()[-1:] == ["[]"], printed


ASK = """
import sys
from pathlib import Path
from edgeopt.workers.client import WorkerClient
from edgeopt.workers.host import LocalHost
from edgeopt.workers.isolated_backend import ModelPorts, OpenModel

client = WorkerClient(LocalHost(Path(".")))
print(client.ask(OpenModel("null", sys.argv[1]), ModelPorts, float(sys.argv[2])).reason)
client.close()
"""


@pytest.mark.parametrize(
    ("system", "faults", "limit_s", "words"),
    [
        ("win32", {"crash": "load"}, 60, "its process crashed: access violation"),
        ("darwin", {"crash": "load"}, 60, "its process crashed: SIGSEGV"),
        ("win32", {"hang": "load"}, 1, "its process hung: no answer within 1 s; it was killed"),
    ],
)
def test_a_worker_that_crashes_or_hangs_is_a_result(python, tmp_path, null_model, system, faults, limit_s, words):
    process = python(system, tmp_path, "-c", ASK, str(null_model("faulty", **faults)), str(limit_s))
    printed, _ = process.communicate(timeout=60)
    assert printed.splitlines()[-1].startswith(words), printed


def test_a_worker_on_windows_is_in_a_job_that_ends_with_the_command(python, tmp_path, null_model):
    shown = "import fake_kernel32\nprint(*[name for name, *_ in fake_kernel32.CALLS])"
    process = python("win32", tmp_path, "-c", ASK + shown, str(null_model("faulty", crash="load")), "60")
    printed, _ = process.communicate(timeout=60)
    assert printed.splitlines()[-1].split()[-3:] == ["AssignProcessToJobObject", "CloseHandle", "CloseHandle"]


ISOLATED = "import edgeopt, sys; edgeopt.load(sys.argv[1], isolate=True).close()"


def test_a_session_in_a_worker_is_refused_on_windows_in_words(python, tmp_path, conv_bundle):
    printed, _ = python("win32", tmp_path, "-c", ISOLATED, str(conv_bundle)).communicate(timeout=60)
    assert printed.splitlines()[-1].endswith(
        "Sessions in worker processes need a system that passes files between processes: Linux or macOS."
    )


def test_a_session_in_a_worker_works_on_macos(python, tmp_path, conv_bundle):
    process = python("darwin", tmp_path, "-c", ISOLATED, str(conv_bundle))
    printed, _ = process.communicate(timeout=60)
    assert process.returncode == 0, printed


@pytest.mark.parametrize(("system", "name"), [("win32", "Windows"), ("darwin", "Darwin")])
def test_the_agent_says_in_one_sentence_that_it_runs_on_linux(python, tmp_path, system, name):
    process = python(system, tmp_path, "-m", "edgeopt_agent.main", "status")
    printed, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    reason = f"The agent runs on Linux only, and this is {name}."
    sentence = f"{reason} To reach agents from a machine with edgeopt: edgeopt fleet devices"
    assert printed.splitlines() == [f"edgeopt-agent: {sentence}"]


CANCEL = """
import sys
from PySide6.QtCore import QCoreApplication, QTimer
from edgeopt_gui.jobs.command import Command
from edgeopt_gui.jobs.job import Job

application = QCoreApplication([])
job = Job(Command("a search", tuple(sys.argv[1:])))
job.ended.connect(lambda ending: (print(ending.how, flush=True), application.quit()))
job.start()
sys.stdin.readline()
job.cancel()
application.exec()
"""


@pytest.mark.parametrize("system", ["win32", pytest.param("darwin", marks=pytest.mark.slow)])
def test_a_job_of_the_app_that_is_cancelled_cleans_up(python, tmp_path, conv_model, conv_data, system):
    pytest.importorskip("PySide6")
    (tmp_path / "p.toml").write_text(QUICK)
    command = ("optimize", str(conv_model), "--data", str(conv_data), "-o", "m.edgeopt", "--profile", "p.toml")
    process = python(system, tmp_path, "-c", CANCEL, *command, stdin=subprocess.PIPE)
    started = workers(process)
    printed, _ = process.communicate("\n", timeout=60)
    assert printed.splitlines()[-1:] == ["cancelled"], printed
    _, alive = psutil.wait_procs(started, timeout=20)
    assert alive == []
    assert left_in(tmp_path, system) == []
