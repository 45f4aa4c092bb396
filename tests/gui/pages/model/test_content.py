import msgspec
import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QScrollArea, QTabWidget

from edgeopt.analyzing.analyze import analyze
from edgeopt.samples import MODEL
from edgeopt_gui.pages.model.content import ModelContent


@pytest.fixture(scope="module")
def analysis():
    return analyze(MODEL)


@pytest.fixture
def content(qtbot, analysis):
    made = ModelContent()
    qtbot.addWidget(made)
    made.resize(830, 400)
    made.show_analysis(analysis)
    made.show_nodes(list(analysis.nodes))
    made.show()
    return made


def titles(content):
    tabs = content.findChild(QTabWidget)
    return [tabs.tabText(place) for place in range(tabs.count())]


def test_the_tabs_say_how_much_is_in_them(content, analysis):
    assert titles(content) == ["Nodes (95)", "Weights (49)", "Inputs and outputs (2)"]
    content.show_analysis(msgspec.structs.replace(analysis, weights_count=1234))
    assert titles(content)[1] == "Largest weights (49 of 1,234)"


def test_notes_stand_there_when_there_are_some(content, analysis):
    content.show_analysis(msgspec.structs.replace(analysis, warnings=("Two weights are the same.",)))
    assert content.notes.isVisible()
    assert content.notes.text() == "Two weights are the same."
    content.show_analysis(msgspec.structs.replace(analysis, warnings=()))
    assert not content.notes.isVisible()


def test_the_summary_scrolls_to_the_bar_under_the_cursor(qtbot, content):
    bar = next(area for area in content.findChildren(QScrollArea) if area.accessibleName() == "Summary")
    qtbot.waitUntil(lambda: bar.verticalScrollBar().maximum() > 0)
    qtbot.keyClick(content.operators, Qt.Key.Key_End)
    assert bar.verticalScrollBar().value() > 0


def test_choosing_a_bar_shows_its_nodes(content):
    tabs = content.findChild(QTabWidget)
    tabs.setCurrentIndex(1)
    content.operators.choose("Gemm")
    assert tabs.currentIndex() == 0
    assert [node.operator for node in content.nodes.records.shown] == ["Gemm"]
