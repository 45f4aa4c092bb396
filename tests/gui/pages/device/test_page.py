import json
import os
import signal
import threading
import time
from pathlib import Path

import msgspec
import pytest
from PySide6.QtCore import QThreadPool
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QAbstractItemModelTester
from PySide6.QtWidgets import QLabel

from edgeopt.hw import simd
from edgeopt.hw.device import Accelerator, Device, State, SystemMemory
from edgeopt.hw.host import RecordedHost
from edgeopt.hw.load import LoadSample
from edgeopt.hw.probe import probe
from edgeopt.profiles.targets import TargetVerdict
from edgeopt_gui.jobs.ending import Ending
from edgeopt_gui.pages.device import sampling
from edgeopt_gui.pages.device.content import DeviceContent
from edgeopt_gui.pages.device.facts import absent, groups, headline
from edgeopt_gui.pages.device.instruction_sets import LEVEL_WORDS, by_purpose, level_words
from edgeopt_gui.pages.device.page import ENTRY
from edgeopt_gui.pages.device.readings import NAMES, not_known, readings
from edgeopt_gui.pages.device.sampling import LoadWatch
from edgeopt_gui.pages.device.targets import COLUMNS, chosen_sentences, look, of_other_systems, others


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


FAKEROOTS = Path(__file__).parents[3] / "fakeroots"
VERDICTS = (
    TargetVerdict("cpu-avx2", "x86 CPU with AVX2", True, True, "x86_64 with avx2"),
    TargetVerdict("generic-cpu", "Any CPU", True, False, "fits, but cpu-avx2 is more exact"),
    TargetVerdict("mobile-cpu", "Arm CPU", False, False, "it is for aarch64", other_system=True),
)


@pytest.fixture
def device():
    return probe(RecordedHost(FAKEROOTS / "raspberry-pi-4"))


@pytest.fixture
def content(qtbot, device):
    made = DeviceContent()
    qtbot.addWidget(made)
    made.show_device(device)
    made.show_targets(VERDICTS)
    made.resize(900, 600)
    made.show()
    return made


def visible_texts(content):
    return {label.text() for label in content.findChildren(QLabel) if label.isVisible()}


def test_what_is_not_here_has_a_place_only_when_something_is_missing(content, device):
    assert "Not available" in visible_texts(content)
    content.show_device(msgspec.structs.replace(device, unavailable={}))
    assert "Not available" not in visible_texts(content)


def test_sources_on_demand(content):
    assert "from /proc/meminfo" not in visible_texts(content)
    content.show_sources(True)
    assert "from /proc/meminfo" in visible_texts(content)


def test_the_targets_table_is_as_high_as_its_rows(content):
    assert content.targets.rowCount() == 1
    assert not content.table.verticalScrollBar().isVisible()


def test_without_targets_there_is_the_reason_and_no_table(content):
    content.show_no_targets("The job was killed.", "Start it again.")
    assert (content.chosen.text(), content.why.text()) == ("The job was killed.", "Start it again.")
    assert not content.table.isVisible()


def test_targets_of_other_systems_are_folded(content):
    assert [verdict.name for verdict in content.targets.rows] == ["generic-cpu"]
    assert content.fold.isVisible()
    assert content.fold.head.text() == "Targets of other systems (1)"
    assert not content.foreign_table.isVisible()
    content.fold.set_open(True)
    assert content.foreign_table.isVisible()


def test_values_that_are_not_known_have_no_gauge_but_one_line(content):
    content.show_load(LoadSample(None, 2**30, 2**31, None, None, {"clock_hz": "no cpufreq"}))
    assert [gauge.isVisible() for gauge in content.gauges] == [True, True, False, False]
    assert content.no_gauge.text() == "Not known: clock (no cpufreq); temperature (the device does not report it)."
    content.show_load(LoadSample(40.0, 2**30, 2**31, 2e9, 50.0))
    assert all(gauge.isVisible() for gauge in content.gauges)
    assert not content.no_gauge.isVisible()


def test_the_device_can_be_measured_where_it_has_not_been(content, device):
    assert content.measure.key == "app.measure-device"
    assert content.no_peaks.isVisible()
    assert "least time of a model is unknown" in content.no_peaks.text()


@pytest.fixture
def board():
    return lambda name: probe(RecordedHost(FAKEROOTS / name))


def shown(device):
    return {(group.title, fact.name): fact for group in groups(device) for fact in group.facts}


def test_the_headline_says_what_the_device_can_do(board):
    device = board("raspberry-pi-5")
    name, abilities = headline(device)
    assert name == device.cpu.model
    assert abilities.startswith("Arm NEON with 8-bit dot products · 4 usable cores · ")
    assert abilities.endswith("GiB of memory")


@pytest.mark.parametrize("name", sorted(path.name for path in FAKEROOTS.iterdir()))
def test_every_group_of_every_board_has_something_to_say(board, name):
    found = groups(board(name))
    titles = [group.title for group in found]
    assert titles[:2] == ["System", "CPU"]
    assert len(titles) == len(set(titles))
    assert all(group.facts for group in found)
    assert all(fact.value for group in found for fact in group.facts)


def test_facts_name_their_source(board):
    facts = shown(board("amd-zen4"))
    assert "/proc/cpuinfo: model name" in facts["CPU", "Model"].source
    assert "/proc/meminfo" in facts["Memory", "Total"].source


def test_the_instruction_sets_are_shown_by_what_they_are_for(board):
    facts = shown(board("amd-zen4"))
    assert "avx512-vnni" in facts["CPU", "8-bit integers"].words
    assert ("CPU", "AVX-512") not in facts


def test_the_limits_of_a_container(board):
    device = board("container-cgroup2")
    assert shown(device)["Limits", "CPU quota"].value == f"{device.limits.cgroup_cores:g} cores"
    assert ("Limits", "CPU quota") not in shown(board("amd-zen4"))


def test_accelerators_with_what_is_known_of_them(board):
    gpu = Accelerator("gpu", "Some GPU", memory_total_bytes=8 * 2**30, driver="550.1")
    device = msgspec.structs.replace(board("amd-zen4"), accelerators=(gpu,))
    assert shown(device)["GPU", "0"].value == "Some GPU, 8 GiB, driver 550.1"


def test_whether_it_is_worth_measuring_with_the_reason(board):
    device = board("amd-zen4")
    tired = State(worth_measuring=False, reasons=("It runs on its battery.",))
    facts = shown(msgspec.structs.replace(device, state=tired))
    assert facts["State", "Worth measuring"].value == "not now. It runs on its battery."
    assert ("State", "Worth measuring") not in shown(msgspec.structs.replace(device, state=None))


def test_what_is_unknown_is_said_and_not_invented(board):
    device = board("amd-zen4")
    bare = msgspec.structs.replace(
        device,
        memory=SystemMemory(0, 0, 0),
        cpu=msgspec.structs.replace(device.cpu, model=None, physical_cores=None),
        runtimes=(),
    )
    facts = shown(bare)
    assert not [title for group, title in facts if group in {"Memory", "Runtimes"}]
    assert facts["CPU", "Cores"].value.startswith("unknown physical")
    assert headline(bare)[0] == "x86_64 CPU of an unknown model"
    assert "memory" not in headline(bare)[1]


def test_what_is_not_here_says_why_and_what_would_bring_it(board):
    device = msgspec.structs.replace(
        board("amd-zen4"),
        unavailable={
            "openvino": "not installed; pip install openvino",
            "npu": "no compute accelerator",
            "state.power_w": "no meter",
        },
    )
    openvino, npu = absent(device).facts
    assert (openvino.name, openvino.copy) == ("OpenVINO", "pip install openvino")
    assert (npu.name, npu.value, npu.copy) == ("NPU", "No compute accelerator.", "")


def test_load_and_memory_of_the_moment_are_told_once_and_the_rest_with_its_time(board):
    state = State(worth_measuring=True, load_1m=1.5, clock_hz=2e9, temperatures_c={"cpu": 50.0})
    device = msgspec.structs.replace(board("raspberry-pi-5"), state=state)
    at = time.mktime((2026, 11, 24, 14, 3, 25, 0, 0, -1))
    found = groups(device, at)
    facts = {(group.title, fact.name): fact.value for group in found for fact in group.facts}
    assert "available" not in facts["Memory", "Total"]
    assert ("Memory", "Usable") not in facts
    assert facts["State at 14:03:25", "Memory usable"]
    assert facts["State at 14:03:25", "Worth measuring"]
    assert not {name for title, name in facts if title.startswith("State")} & {"Load", "Clock", "Temperature"}


def test_every_level_has_words():
    assert set(LEVEL_WORDS) == {name for name, _ in simd.LEVELS} | {simd.BASELINE}
    assert level_words("avx1024") == "avx1024"


def test_every_set_stands_in_one_group():
    grouped = [name for _, names in by_purpose(simd.NAMES) for name in names]
    assert sorted(grouped) == sorted(simd.NAMES)


def test_sets_are_grouped_by_what_they_are_good_for():
    assert by_purpose(("neon", "fp16", "dotprod")) == (
        ("Vectors", ("neon",)),
        ("8-bit integers", ("dotprod",)),
        ("Half precision", ("fp16",)),
    )
    assert by_purpose(()) == ()


FULL = LoadSample(41.6, 6 * 2**30, 16 * 2**30, 2.4e9, 61.3)
EMPTY = LoadSample(None, None, None, None, None, {"clock_hz": "the kernel has no cpufreq files"})


def test_values_with_their_units():
    assert [(r.name, r.text, r.note) for r in readings(FULL)] == [
        ("Load", "42 %", "of all cores"),
        ("Memory in use", "6 GiB", "of 16 GiB"),
        ("Clock", "2.40 GHz", "mean of the cores"),
        ("Temperature", "61 °C", "the hottest sensor"),
    ]
    assert tuple(r.name for r in readings(FULL)) == NAMES


def test_a_missing_value_says_why_and_is_never_zero():
    assert all(r.value is None and r.text == "not known" for r in readings(EMPTY))
    assert readings(EMPTY)[2].note == "The kernel has no cpufreq files."
    assert readings(EMPTY)[0].note == "The device does not report it."


def test_the_axis_of_memory_ends_at_what_there_is():
    memory = readings(FULL)[1]
    assert (memory.value, memory.top) == (6 * 2**30, 16 * 2**30)


def test_what_is_not_known_takes_one_line():
    assert not_known(readings(FULL)) == ""
    some = LoadSample(41.6, 1, 2, None, None, {"clock_hz": "the kernel has no cpufreq files"})
    told = "Not known: clock (the kernel has no cpufreq files); temperature (the device does not report it)."
    assert not_known(readings(some)) == told


@pytest.fixture
def watch(qapp, monkeypatch):
    monkeypatch.setattr(sampling, "INTERVAL_MS", 20)
    made = LoadWatch()
    yield made
    made.stop()
    QThreadPool.globalInstance().waitForDone()


def test_samples_come_one_after_the_other_on_the_windows_own_thread(qtbot, watch):
    samples, threads = [], set()
    watch.sampled.connect(samples.append)
    watch.sampled.connect(lambda _: threads.add(threading.get_ident()))
    watch.start()
    qtbot.waitUntil(lambda: len(samples) >= 3)
    assert threads == {threading.get_ident()}
    assert samples[-1].memory_used_bytes > 0


def test_nothing_is_sampled_after_the_stop(qtbot, watch):
    with qtbot.waitSignal(watch.sampled):
        watch.start()
    watch.stop()
    assert not watch.running
    with qtbot.assertNotEmitted(watch.sampled, wait=100):
        QThreadPool.globalInstance().waitForDone()


def test_starts_again(qtbot, watch):
    for _ in range(2):
        with qtbot.waitSignal(watch.sampled):
            watch.start()
        watch.stop()
        QThreadPool.globalInstance().waitForDone()


def test_may_go_while_a_sample_is_taken(qtbot, watch):
    gone = LoadWatch()
    gone.start()
    gone.deleteLater()
    del gone
    with qtbot.waitSignal(watch.sampled):
        watch.start()


VERDICTS_TARGETS = (
    TargetVerdict("cpu-avx2", "x86 CPU with AVX2", True, True, "x86_64 with avx2"),
    TargetVerdict("generic-cpu", "Any CPU", True, False, "fits, but cpu-avx2 is more exact"),
    TargetVerdict("cpu-avx512", "x86 CPU with AVX-512", False, False, "the CPU lacks avx512f"),
    TargetVerdict("mobile-cpu", "Arm CPU", False, False, "it is for aarch64", other_system=True),
)


def test_the_chosen_one_with_its_reason():
    what, why = chosen_sentences(VERDICTS_TARGETS)
    assert what == "cpu-avx2 · x86 CPU with AVX2"
    assert why == "Most specific target that fits: x86_64 with avx2."
    assert chosen_sentences(VERDICTS_TARGETS[1:])[0] == "None"


def test_the_others_with_why_not():
    rows = [[column.text_of(verdict) for column in COLUMNS] for verdict in others(VERDICTS_TARGETS)]
    assert rows == [
        ["generic-cpu", "Any CPU", "yes", "fits, but cpu-avx2 is more exact"],
        ["cpu-avx512", "x86 CPU with AVX-512", "no", "the CPU lacks avx512f"],
    ]
    assert [look(verdict) for verdict in others(VERDICTS_TARGETS)] == ["plain", "quiet"]
    assert [verdict.name for verdict in of_other_systems(VERDICTS_TARGETS)] == ["mobile-cpu"]
