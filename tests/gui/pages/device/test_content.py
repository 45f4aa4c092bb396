from pathlib import Path

import msgspec
import pytest
from PySide6.QtWidgets import QLabel

from edgeopt.hw.host import RecordedHost
from edgeopt.hw.probe import probe
from edgeopt.profiles.targets import Verdict
from edgeopt_gui.pages.device.content import DeviceContent

FAKEROOTS = Path(__file__).parents[3] / "fakeroots"
VERDICTS = (
    Verdict("cpu-avx2", "x86 CPU with AVX2", True, True, "x86_64 with avx2"),
    Verdict("mobile-cpu", "Arm CPU", False, False, "it is for aarch64"),
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
    assert "Not here" in visible_texts(content)
    content.show_device(msgspec.structs.replace(device, unavailable={}))
    assert "Not here" not in visible_texts(content)


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
