import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel

from edgeopt_gui.widgets.filter_bar import FilterBar
from edgeopt_gui.widgets.records import Column, RecordsModel


@pytest.fixture
def bar(qtbot):
    records = RecordsModel((Column("Name", str),), key=str)
    records.set_rows(f"node {k}" for k in range(1200))
    made = FilterBar(records, "Search the nodes", "nodes")
    made.records = records
    qtbot.addWidget(made)
    made.show()
    return made


def said(bar):
    return bar.findChild(QLabel, "count").text()


def test_says_how_many_rows_are_left(qtbot, bar):
    assert said(bar) == "1,200 nodes"
    qtbot.keyClicks(bar.line, "119")
    assert said(bar) == "12 of 1,200 nodes"
    bar.records.put("node 9119")
    assert said(bar) == "13 of 1,201 nodes"


def test_escape_empties_it(qtbot, bar):
    qtbot.keyClicks(bar.line, "77")
    qtbot.keyClick(bar.line, Qt.Key.Key_Escape)
    assert bar.line.text() == ""
    assert said(bar) == "1,200 nodes"


def test_is_named_for_screen_readers(bar):
    assert bar.line.accessibleName() == "Search the nodes"
