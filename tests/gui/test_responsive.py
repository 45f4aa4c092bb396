"""The event loop answers: while nothing happens, and while a search takes all the machine."""

import os

import pytest

from edgeopt_gui.gaps import GapMonitor
from edgeopt_gui.pages import PAGES

PATIENCE_MS = 120_000
SEARCHED_MS = 7000  # by then it has made variants, and candidates race
IDLE_MS = 1200  # more than the longest of its timers, one second


def told(gaps):
    return "\n".join(f"{gap.length_ms:.0f} ms at\n{gap.stack}" for gap in gaps)


@pytest.mark.slow
@pytest.mark.timing
def test_every_page_answers_within_50_ms_while_nothing_happens(qtbot, open_window, context):
    window = open_window()
    window.open_sample()
    found = {}
    for entry in PAGES:
        window.show_page(entry.key)
        qtbot.waitUntil(lambda: not context.jobs.jobs and window.shown_page.state != "busy", timeout=PATIENCE_MS)
        monitor = GapMonitor(50)
        monitor.start()
        qtbot.wait(IDLE_MS)
        if gaps := monitor.stop():
            found[entry.key] = told(gaps)
    assert found == {}, "\n".join(f"{key}: {text}" for key, text in found.items())


@pytest.mark.slow
@pytest.mark.timing
@pytest.mark.timeout(240)
def test_it_answers_within_150_ms_while_a_search_runs(qtbot, open_window, context):
    window = open_window()
    window.open_sample()
    window.show_page("optimize")
    qtbot.waitUntil(lambda: not context.jobs.jobs, timeout=PATIENCE_MS)
    monitor = GapMonitor(150)
    monitor.start()
    window.book["optimize.start"].shown.trigger()
    assert context.jobs.jobs
    qtbot.wait(SEARCHED_MS)
    assert context.jobs.jobs
    window.cancel_jobs()
    qtbot.waitUntil(lambda: not context.jobs.jobs, timeout=PATIENCE_MS)
    gaps = monitor.stop()
    assert gaps == (), f"load {os.getloadavg()[0]:.1f}\n{told(gaps)}"


@pytest.mark.slow
def test_a_job_killed_from_outside_is_told_and_the_app_goes_on(qtbot, open_window, context):
    import psutil

    window = open_window()
    window.open_sample()
    window.show_page("optimize")
    qtbot.waitUntil(lambda: not context.jobs.jobs, timeout=PATIENCE_MS)
    window.book["optimize.start"].shown.trigger()
    job = context.jobs.jobs[0]
    with qtbot.waitSignal(job.told, timeout=PATIENCE_MS):
        pass
    with qtbot.waitSignal(job.ended, timeout=PATIENCE_MS) as ended:
        psutil.Process(job.pid).kill()
    assert ended.args[0].how == "crashed"
    assert "killed from outside" in ended.args[0].what
    assert window.shown_page.state == "error" or window.isVisible()
    window.log.flush()
    assert any("killed from outside" in line.text for line in window.log.model.shown)
    assert not window.book["optimize.start"].why_not()
