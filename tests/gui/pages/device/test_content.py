from pathlib import Path

import msgspec
import pytest
from PySide6.QtWidgets import QLabel

from edgeopt.hw.host import RecordedHost
from edgeopt.hw.load import LoadSample
from edgeopt.hw.probe import probe
from edgeopt.profiles.targets import Verdict
from edgeopt_gui.pages.device.content import DeviceContent

FAKEROOTS = Path(__file__).parents[3] / "fakeroots"
VERDICTS = (
    Verdict("cpu-avx2", "x86 CPU with AVX2", True, True, "x86_64 with avx2"),
    Verdict("generic-cpu", "Any CPU", True, False, "fits, but cpu-avx2 is more exact"),
    Verdict("mobile-cpu", "Arm CPU", False, False, "it is for aarch64", other_system=True),
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
