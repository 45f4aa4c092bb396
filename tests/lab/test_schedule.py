"""The schedule of cells with small programs, on the embedded scheduler and on a standing one."""

import itertools
import os
import signal
import subprocess
import sys

import psutil
import pytest

from edgeopt.errors import MissingError, UsageError
from edgeopt.events import Progress
from edgeopt.lab import schedule
from edgeopt.lab.cell import CellTask
from edgeopt.lab.schedule import run_cells
from tests.processes import ends

RESULT = 'print(\'{"event": "result", "schema": 1, "kind": "fake", "data": {}}\')'
# Says its own number as the phase, so that the test can end it or see it end.
NUMBER = 'import json, os; print(json.dumps({"event": "progress", "phase": str(os.getpid())}), flush=True)'
WAIT = "import sys; sys.stdin.read()"


def task(device, program, *arguments, key=""):
    return CellTask(key or f"a cell on {device}", device, (tuple(map(str, arguments)),), program=("-c", program))


def run(tasks, lanes, scheduler=None, report=lambda *_: None):
    found = {}
    run_cells(tasks, lanes, scheduler, report, lambda task, run: found.update({task.key: run.endings[-1]}))
    return found


def test_cells_of_one_group_run_one_after_the_other():
    pause = f"import time; time.sleep(0.1); {RESULT}"
    tasks = [task(device, pause, key=f"{n} on {device}") for n in range(2) for device in ("one core", "all cores")]
    ended = sorted(run(tasks, [("one core", "all cores")]).values(), key=lambda each: each.begin_s)
    assert len(ended) == 4
    assert all(first.end_s <= second.begin_s for first, second in itertools.pairwise(ended))


def test_cells_of_different_groups_run_side_by_side(tmp_path):
    meet = (
        "import pathlib, sys, time; own, other = map(pathlib.Path, sys.argv[1:]); own.touch()\n"
        f"while not other.exists(): time.sleep(0.01)\n{RESULT}"
    )
    east, west = tmp_path / "east", tmp_path / "west"
    found = run([task("east", meet, east, west), task("west", meet, west, east)], [("east",), ("west",)])
    assert [each.data for each in found.values()] == [{}, {}]


def test_cell_that_crashes_says_so_and_the_next_one_runs():
    crash = "import sys; sys.exit('a library crashed')"
    found = run([task("east", crash, key="first"), task("east", RESULT, key="second")], [("east",)])
    assert found["first"].data is None
    assert found["first"].message == "The command ended with exit code 1 (a library crashed)."
    assert found["second"].data == {}


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system has no affinity")
def test_cell_has_the_cores_and_the_environment_of_its_device():
    core = max(os.sched_getaffinity(0))
    look = (
        "import json, os; data = [sorted(os.sched_getaffinity(0)), os.environ['ONEDNN_MAX_CPU_ISA']]\n"
        "print(json.dumps({'event': 'result', 'schema': 1, 'kind': 'fake', 'data': {'found': data}}))"
    )
    cell = CellTask("key", "east", ((),), (core,), {"ONEDNN_MAX_CPU_ISA": "AVX"}, ("-c", look))
    assert run([cell], [("east",)])["key"].data == {"found": [[core], "AVX"]}


def test_interrupt_ends_the_commands():
    numbers = []

    def interrupt(_task, event):
        assert isinstance(event, Progress)
        numbers.append(int(event.phase))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run([task("east", f"{NUMBER}\n{WAIT}", key=str(n)) for n in range(2)], [("east",)], report=interrupt)
    assert len(numbers) == 1
    assert ends(*numbers)


def test_late_message_of_a_thread_of_dask_is_not_shown():
    program = (
        "import logging; from edgeopt.lab.cell import CellTask; from edgeopt.lab.schedule import run_cells\n"
        f"cell = CellTask('key', 'east', ((),), program=('-c', {RESULT!r}))\n"
        "run_cells([cell], [('east',)], None, print, lambda *_: None)\n"
        "logging.getLogger('distributed.batched').info('Batched Comm Closed')"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stderr == ""


@pytest.fixture
def cluster(tmp_path):
    """A scheduler with one worker process, which offers the device east."""
    import dask
    from distributed import LocalCluster

    place = {"dashboard_address": "127.0.0.1:0", "resources": {"device:east": 1}}
    with (
        dask.config.set({"temporary-directory": str(tmp_path)}),
        LocalCluster(n_workers=1, threads_per_worker=1, **place) as found,
    ):
        yield found


def test_cell_runs_again_after_its_worker_was_killed(cluster, tmp_path):
    """The first time it kills its worker, which is its parent, and waits; the second time it ends."""
    mark = tmp_path / "mark"
    kill = (
        f"{NUMBER}\nimport pathlib, signal, sys; mark = pathlib.Path(sys.argv[1])\n"
        f"if mark.exists():\n    {RESULT}\nelse:\n    mark.touch()\n    sys.stdin.read()"
    )
    numbers = []

    def kill_worker(_task, event):
        numbers.append(int(event.phase))
        if len(numbers) == 1:
            os.kill(psutil.Process(numbers[0]).ppid(), signal.SIGKILL)

    found = run([task("east", kill, mark)], [("east",)], cluster.scheduler_address, kill_worker)
    assert [each.data for each in found.values()] == [{}]
    assert len(set(numbers)) == 2
    assert ends(*numbers)


def test_device_that_no_worker_offers_is_an_error_with_the_command(cluster):
    with pytest.raises(MissingError, match=r"No worker of .* offers: west") as error:
        run([task("west", RESULT)], [("west",)], cluster.scheduler_address)
    assert '--nthreads 1 --resources "device:west=1"' in error.value.hint
    with pytest.raises(MissingError, match="offers: east, west"):
        run([task("west", RESULT)], [("east", "west")], cluster.scheduler_address)


def test_scheduler_that_does_not_answer_is_an_error(monkeypatch):
    monkeypatch.setattr(schedule, "_CONNECT_S", 0.2)
    with pytest.raises(MissingError, match="No Dask scheduler answers"):
        run([task("east", RESULT)], [("east",)], "tcp://127.0.0.1:1")


@pytest.mark.parametrize("address", ["desktop", "tcp://desktop", "tcp://desktop:port", "desktop:8786"])
def test_scheduler_needs_a_complete_address(address):
    with pytest.raises(UsageError, match=f"'{address}' is not the address of a Dask scheduler") as error:
        run([task("east", RESULT)], [("east",)], address)
    assert "tcp://HOST:PORT" in error.value.hint
