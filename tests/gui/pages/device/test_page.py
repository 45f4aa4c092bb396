import json
import os
import signal

import msgspec
import pytest
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QAbstractItemModelTester

from edgeopt.hw.device import Device
from edgeopt_gui.jobs.ending import Ending
from edgeopt_gui.pages.device.page import ENTRY


@pytest.fixture
def page(qtbot, open_page, context):
    """The page on its first visit, with the real command line behind it."""
    made = open_page(ENTRY)
    qtbot.waitUntil(lambda: not context.jobs.jobs, timeout=60_000)
    return made


@pytest.mark.cold  # or it may be over before anybody looks
def test_the_first_visit_reads_the_device(qtbot, context, open_page):
    page = open_page(ENTRY)
    assert page.state == "busy"
    qtbot.waitUntil(lambda: not context.jobs.jobs, timeout=60_000)
    assert page.state == "content"
    assert page.view.headline.text() == (page.device.cpu.model or page.view.headline.text())
    assert "usable core" in page.view.subline.text()


def test_shows_the_chosen_target_and_why_not_the_others(page):
    assert page.view.why.text().startswith("Most specific target that fits")
    assert len(page.view.targets.rows) >= 5
    QAbstractItemModelTester(page.view.targets, QAbstractItemModelTester.FailureReportingMode.Warning)


def test_gauges_move_while_the_page_is_visible(qtbot, page):
    memory = page.view.gauges[1]
    qtbot.waitUntil(lambda: memory.text.endswith("iB"))
    page.left()
    seen = len(memory.curve.values)
    page.entered()
    qtbot.waitUntil(lambda: len(memory.curve.values) > seen)


def test_reading_again_keeps_what_is_shown(qtbot, context, page):
    page.probe()
    assert page.state == "content"
    assert page.why_not_probe()
    qtbot.waitUntil(lambda: not context.jobs.jobs, timeout=60_000)
    assert page.state == "content"
    assert page.why_not_probe() == ""


@pytest.mark.cold  # or it may have ended before it is killed
def test_a_killed_probe_says_so_and_can_be_tried_again(qtbot, context, open_page):
    page = open_page(ENTRY)
    for job in context.jobs.jobs:
        os.kill(job.pid, signal.SIGKILL)
    qtbot.waitUntil(lambda: not context.jobs.jobs, timeout=60_000)
    assert page.state == "error"
    assert page.why_not_known()
    page.probe()
    assert page.state == "busy"
    qtbot.waitUntil(lambda: not context.jobs.jobs, timeout=60_000)
    assert page.state == "content"


@pytest.mark.cold
def test_without_targets_the_facts_still_stand(qtbot, context, open_page):
    page = open_page(ENTRY)
    targets = next(job for job in context.jobs.jobs if job.command.arguments == ("targets",))
    os.kill(targets.pid, signal.SIGKILL)
    qtbot.waitUntil(lambda: not context.jobs.jobs, timeout=60_000)
    assert page.state == "content"
    assert "SIGKILL" in page.view.chosen.text()


def test_the_record_can_be_copied_and_saved(context, page, tmp_path):
    page.copy()
    copied = msgspec.json.decode(QGuiApplication.clipboard().text(), type=Device)
    assert copied == page.device
    page.save_to(tmp_path / "device.json")
    assert json.loads((tmp_path / "device.json").read_text())["cpu"]["simd_level"] == copied.cpu.simd_level


def test_a_record_that_cannot_be_saved_is_told(qtbot, context, page, tmp_path):
    with qtbot.waitSignal(context.failed) as failed:
        page.save_to(tmp_path / "missing" / "device.json")
    assert "could not be saved" in failed.args[0].what
    assert failed.args[0].next_step


def test_sources_come_and_go_and_are_remembered(context, page):
    page.toggle_sources()
    assert context.settings.flag("device.sources")
    page.toggle_sources()
    assert not context.settings.flag("device.sources")


def test_the_command_line_of_the_page(page):
    assert page.command().line == "edgeopt probe"
    assert page.command_of_sources().line == "edgeopt probe --explain"


def test_cancelled_reading_again_keeps_what_is_shown(qtbot, context, page):
    page.probe()
    for job in context.jobs.jobs:
        job.cancel()
    qtbot.waitUntil(lambda: not context.jobs.jobs, timeout=60_000)
    assert page.state == "content"
    assert page.view.why.text().startswith("Most specific")


def test_the_action_of_the_sources_says_what_it_would_do(page):
    action = next(each for each in ENTRY.actions if each.key == "device.sources")
    assert action.face(page) is None
    page.toggle_sources()
    assert action.face(page).title == "Hide sources"


def test_measuring_the_device_shows_its_peaks(qtbot, context, page):
    assert context.why_not_measure_device() == ""
    context.measure_device()
    (job,) = context.jobs.jobs
    assert job.command.line == "edgeopt probe --deep --again"
    assert "Measuring the device" in context.why_not_measure_device()
    job.cancel()
    qtbot.waitUntil(lambda: not context.jobs.jobs)
    measured = {**json.loads(page.record()), "peaks": {"measured_at": "2026-05-04T10:00:00+00:00", "took_s": 9.0}}
    context.device_measured.emit(Ending("done", measured, "", ""))
    assert page.device.peaks.took_s == 9.0
    assert page.view.no_peaks.isHidden()
