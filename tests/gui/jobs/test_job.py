import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from edgeopt import events
from edgeopt_gui.jobs.command import Command
from edgeopt_gui.jobs.runner import JobRunner

SAMPLE = Path(__file__).parents[3] / "edgeopt" / "data" / "demo" / "digits_cnn.onnx"
PATIENCE_MS = 60_000

pytestmark = pytest.mark.cold


@pytest.fixture
def runner(qapp):
    runner = JobRunner()
    yield runner
    runner.close()


def search(tmp_path):
    data = SAMPLE.with_suffix(".npz")
    return Command(
        "Optimizing", ("optimize", str(SAMPLE), "--data", str(data), "-o", str(tmp_path / "out.edgeopt"))
    )


def begin_search(qtbot, runner, tmp_path):
    """A search that has trials running."""
    job = runner.run(search(tmp_path))
    with qtbot.waitSignal(
        job.told, timeout=PATIENCE_MS, check_params_cb=lambda e: getattr(e, "phase", "") == "screening"
    ):
        pass
    qtbot.waitUntil(lambda: len(psutil.Process(job.pid).children(recursive=True)) > 0, timeout=PATIENCE_MS)
    return job, psutil.Process(job.pid).children(recursive=True)


def test_a_job_ends_with_the_result_of_the_command_line(qtbot, runner):
    with qtbot.waitSignal(runner.ended, timeout=PATIENCE_MS) as ended:
        job = runner.run(Command("Probing", ("probe",)))
    assert ended.args[0] is job
    assert job.ending.good
    assert job.ending.data["cpu"]["logical_cores"] >= 1
    assert runner.jobs == ()


def test_an_error_arrives_as_a_sentence(qtbot, runner):
    with qtbot.waitSignal(runner.ended, timeout=PATIENCE_MS) as ended:
        runner.run(Command("Checking", ("verify", "nothing here.edgeopt")))
    ending = ended.args[0].ending
    assert ending.how == "failed"
    assert "nothing here.edgeopt" in ending.what
    assert "exit code 3" in ending.details
    assert "edgeopt verify 'nothing here.edgeopt'" in ending.details


def test_cancel_ends_the_command_and_its_trials_and_leaves_nothing_behind(qtbot, runner, tmp_path):
    job, trials = begin_search(qtbot, runner, tmp_path)
    begin = time.monotonic()
    with qtbot.waitSignal(job.ended, timeout=PATIENCE_MS) as ended:
        job.cancel()
    assert ended.args[0].how == "cancelled"
    assert time.monotonic() - begin < 60
    qtbot.waitUntil(lambda: not any(p.is_running() for p in trials), timeout=60_000)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_job_killed_from_outside_is_told_and_takes_its_trials_along(qtbot, runner, tmp_path):
    job, trials = begin_search(qtbot, runner, tmp_path)
    with qtbot.waitSignal(job.ended, timeout=PATIENCE_MS) as ended:
        os.kill(job.pid, signal.SIGKILL)
    assert ended.args[0].how == "crashed"
    assert "SIGKILL" in ended.args[0].what
    qtbot.waitUntil(lambda: not any(p.is_running() for p in trials), timeout=60_000)


def test_a_command_that_does_not_heed_is_killed_after_a_while(qtbot, runner, monkeypatch):
    monkeypatch.setattr("edgeopt_gui.jobs.job.PATIENCE_MS", 100)
    job = runner.run(Command("Probing", ("probe",)))
    qtbot.waitUntil(lambda: job.running, timeout=PATIENCE_MS)
    os.kill(job.pid, signal.SIGSTOP)  # deaf to SIGTERM, as a process stuck in a native call is
    with qtbot.waitSignal(job.ended, timeout=PATIENCE_MS) as ended:
        job.cancel()
    assert ended.args[0].how == "cancelled"


@pytest.mark.slow
def test_closing_the_runner_leaves_no_job(qtbot, runner, tmp_path):
    job, trials = begin_search(qtbot, runner, tmp_path)
    runner.close()
    assert not job.running
    qtbot.waitUntil(lambda: not any(p.is_running() for p in trials), timeout=60_000)


PROGRAM = """
import sys
from PySide6.QtCore import QCoreApplication
from edgeopt_gui.jobs.command import Command
from edgeopt_gui.jobs.runner import JobRunner

app = QCoreApplication([])
runner = JobRunner()
job = runner.run(Command("Optimizing", tuple(sys.argv[1:])))
job.told.connect(lambda event: getattr(event, "phase", "") == "screening" and print(job.pid, flush=True))
app.exec()
"""


@pytest.mark.slow
def test_a_job_ends_when_the_app_is_killed(tmp_path):
    command = [sys.executable, "-c", PROGRAM, *search(tmp_path).arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as app:
        job = psutil.Process(int(app.stdout.readline()))
        family = [job, *job.children(recursive=True)]
        app.kill()
    _, alive = psutil.wait_procs(family, timeout=60)
    assert alive == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_progress_is_kept_for_those_who_look_later(qtbot, runner, tmp_path):
    job, _ = begin_search(qtbot, runner, tmp_path)
    assert isinstance(job.progress, events.Progress)
    assert job.running
