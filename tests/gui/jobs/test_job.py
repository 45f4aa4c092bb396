import itertools
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeopt import events
from edgeopt_gui.jobs.command import Command
from edgeopt_gui.jobs.ending import ending_of
from edgeopt_gui.jobs.lines import EventLines
from edgeopt_gui.jobs.runner import JobRunner

SAMPLE = Path(__file__).parents[3] / "edgeopt" / "data" / "demo" / "digits_cnn.onnx"
PATIENCE_MS = 60_000


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
        job.event_received, timeout=PATIENCE_MS, check_params_cb=lambda e: getattr(e, "phase", "") == "screening"
    ):
        pass
    qtbot.waitUntil(lambda: len(psutil.Process(job.pid).children(recursive=True)) > 0, timeout=PATIENCE_MS)
    return job, psutil.Process(job.pid).children(recursive=True)


@pytest.mark.cold
def test_a_job_ends_with_the_result_of_the_command_line(qtbot, runner):
    with qtbot.waitSignal(runner.ended, timeout=PATIENCE_MS) as ended:
        job = runner.run(Command("Probing", ("probe",)))
    assert ended.args[0] is job
    assert job.ending.good
    assert job.ending.data["cpu"]["logical_cores"] >= 1
    assert runner.jobs == ()


@pytest.mark.cold
def test_an_error_arrives_as_a_sentence(qtbot, runner):
    with qtbot.waitSignal(runner.ended, timeout=PATIENCE_MS) as ended:
        runner.run(Command("Checking", ("verify", "nothing here.edgeopt")))
    ending = ended.args[0].ending
    assert ending.how == "failed"
    assert "nothing here.edgeopt" in ending.what
    assert "exit code 3" in ending.details
    assert "edgeopt verify 'nothing here.edgeopt'" in ending.details


@pytest.mark.cold
def test_a_command_that_has_ended_is_not_stopped(qtbot, runner, monkeypatch):
    job = runner.run(Command("Checking", ("verify", "nothing here.edgeopt")))
    qtbot.waitUntil(lambda: job.ending is not None, timeout=PATIENCE_MS)
    sent = []
    monkeypatch.setattr("os.kill", lambda *told: sent.append(told))
    job.stop()
    assert (sent, job.stopping) == ([], False)


@pytest.mark.cold
def test_cancel_ends_the_command_and_its_trials_and_leaves_nothing_behind(qtbot, runner, tmp_path):
    job, trials = begin_search(qtbot, runner, tmp_path)
    begin = time.monotonic()
    with qtbot.waitSignal(job.ended, timeout=PATIENCE_MS) as ended:
        job.cancel()
    assert ended.args[0].how == "cancelled"
    assert time.monotonic() - begin < 60
    qtbot.waitUntil(lambda: not any(p.is_running() for p in trials), timeout=60_000)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.cold
@pytest.mark.slow
def test_a_job_killed_from_outside_is_told_and_takes_its_trials_along(qtbot, runner, tmp_path):
    job, trials = begin_search(qtbot, runner, tmp_path)
    with qtbot.waitSignal(job.ended, timeout=PATIENCE_MS) as ended:
        os.kill(job.pid, signal.SIGKILL)
    assert ended.args[0].how == "crashed"
    assert "SIGKILL" in ended.args[0].what
    qtbot.waitUntil(lambda: not any(p.is_running() for p in trials), timeout=60_000)


@pytest.mark.cold
def test_a_command_that_does_not_heed_is_killed_after_a_while(qtbot, runner, monkeypatch):
    monkeypatch.setattr("edgeopt_gui.jobs.job.PATIENCE_MS", 100)
    job = runner.run(Command("Probing", ("probe",)))
    qtbot.waitUntil(lambda: job.running, timeout=PATIENCE_MS)
    os.kill(job.pid, signal.SIGSTOP)  # deaf to SIGTERM, as a process stuck in a native call is
    with qtbot.waitSignal(job.ended, timeout=PATIENCE_MS) as ended:
        job.cancel()
    assert ended.args[0].how == "cancelled"


@pytest.mark.cold
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
job.event_received.connect(lambda event: getattr(event, "phase", "") == "screening" and print(job.pid, flush=True))
app.exec()
"""


@pytest.mark.cold
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


@pytest.mark.cold
@pytest.mark.slow
def test_progress_is_kept_for_those_who_look_later(qtbot, runner, tmp_path):
    job, _ = begin_search(qtbot, runner, tmp_path)
    assert isinstance(job.progress, events.Progress)
    assert job.running


def test_the_line_can_be_typed_in_a_shell_even_with_spaces_in_names():
    command = Command("Analyzing", ("analyze", "my models/a b.onnx"))
    assert shlex.split(command.line) == ["edgeopt", "analyze", "my models/a b.onnx"]


def test_measuring_the_device_is_a_measurement_and_reading_it_is_none():
    assert Command("", ("probe", "--deep")).measures
    assert not Command("", ("probe",)).measures
    assert not Command("", ("optimize", "m.onnx", "--device", "d.json")).measures


RESULT = events.Result("probe", {"a": 1})
ERROR = events.Error("bad-model", "It is no model.", "Give another.")


def end(last, **changes):
    facts = {"cancelled": False, "exit_code": 0, "crashed": False, "details": "$ edgeopt probe"}
    return ending_of(last, **(facts | changes))


def test_a_result_is_good_and_has_its_data():
    ending = end(RESULT)
    assert ending.good
    assert ending.data == {"a": 1}


def test_a_result_that_says_no_is_a_result():
    assert end(RESULT, exit_code=6).good
    assert end(RESULT, exit_code=4).good
    assert end(RESULT, exit_code=1).how == "crashed"


def test_an_error_keeps_its_sentence_and_its_hint():
    ending = end(ERROR, exit_code=3)
    assert (ending.how, ending.what, ending.next_step) == ("failed", "It is no model.", "Give another.")


def test_a_result_does_not_hide_that_the_process_died_after_it():
    assert end(RESULT, exit_code=signal.SIGSEGV, crashed=True).how == "crashed"


def test_a_job_killed_from_outside_names_the_signal_and_a_next_step():
    ending = end(None, exit_code=signal.SIGKILL, crashed=True)
    assert ending.how == "crashed"
    assert "SIGKILL" in ending.what
    assert ending.next_step


@pytest.mark.parametrize("crashed", [True, False])
def test_a_cancelled_job_is_cancelled_however_it_ended(crashed):
    ending = end(events.Error("terminated", "Stopped."), cancelled=True, exit_code=143, crashed=crashed)
    assert ending.how == "cancelled"


def test_a_job_that_was_done_before_the_cancel_reached_it_is_done():
    assert end(RESULT, cancelled=True).good


def test_silence_is_told_with_the_exit_code():
    assert "exit code 7" in end(None, exit_code=7).what


TOLD = [
    events.Progress("racing", done=1, total=9),
    events.Metric("latency_ms", 0.5, time_s=1.0),
    events.Standing("cleaned", "racing", speedup=2.0),
    events.Result("probe", {"cpu": "ü"}),
]
STREAM = b"".join(events.encode(event).encode() + b"\n" for event in TOLD)


@given(st.lists(st.integers(0, len(STREAM)), max_size=8).map(sorted))
def test_events_arrive_whole_however_the_pipe_cuts_them(cuts):
    lines = EventLines()
    edges = [0, *cuts, len(STREAM)]
    heard = [event for a, b in itertools.pairwise(edges) for event in lines.feed(STREAM[a:b])]
    assert heard == TOLD


def test_what_is_no_event_is_skipped():
    noise = b'\nwarning: something\n{"event": "of a later version"}\n\xff\xfe\n[1, 2\n'
    assert list(EventLines().feed(noise + STREAM)) == TOLD


@pytest.mark.cold
def test_windows_that_search_at_once_wait_for_each_other(qtbot, runner, tmp_path):
    """Each job has a process of its own, as the jobs of two windows have."""
    runner.lock = tmp_path / "cache" / "measuring.lock"
    first, _ = begin_search(qtbot, runner, tmp_path)
    others = [runner.run(search(tmp_path)) for _ in range(2)]
    for job in others:
        qtbot.waitUntil(lambda job=job: job.progress is not None, timeout=PATIENCE_MS)
        assert job.progress.phase == "waiting for another search or measurement on this device"
    others[0].cancel()
    qtbot.waitUntil(lambda: others[0].ending is not None, timeout=PATIENCE_MS)
    assert others[0].ending.what == "Cancelled; nothing was changed."
    assert others[1].progress.phase.startswith("waiting")
    first.cancel()
    qtbot.waitUntil(lambda: others[1].progress.phase == "reading the model", timeout=PATIENCE_MS)


def test_a_search_on_another_device_does_not_wait():
    arguments = ("optimize", "m.onnx", "-o", "m.edgeopt")
    assert Command("", arguments).measures_here
    assert not Command("", (*arguments, "--on", "ssh://pi@camera")).measures_here
    assert not Command("", ("analyze", "m.onnx")).measures_here
