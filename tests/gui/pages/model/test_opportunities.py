import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication

from edgeopt.graph.analysis import Opportunity
from edgeopt_gui.pages.model.opportunities import Opportunities

ROWS = (
    Opportunity(
        "layout", "Avoid transposes", "They compute nothing.", ("t1",), 0.1, "", "edgeopt simplify a.onnx"
    ),
    Opportunity("batch", "Run several at once", "Weights are read once.", (), None, "", "edgeopt bench a.onnx"),
)


@pytest.fixture
def tab(qtbot):
    made = Opportunities()
    made.told = []
    made.looked_at.connect(lambda each: made.told.append(each and each.kind))
    qtbot.addWidget(made)
    made.resize(700, 500)
    made.set_rows(ROWS, "")
    return made


def test_the_first_is_told_once_somebody_looks(tab):
    assert [kind for kind in tab.told if kind] == []
    tab.show()
    assert tab.told[-1] == "layout"
    assert tab.command.text() == "edgeopt simplify a.onnx"


def test_another_one_shows_its_command_to_copy(qtbot, tab):
    tab.show()
    qtbot.keyClick(tab.table, Qt.Key.Key_Down)
    assert tab.told[-1] == "batch"
    assert tab.facts.groups[0].title == "Run several at once"
    tab.command.copy()
    assert QGuiApplication.clipboard().text() == "edgeopt bench a.onnx"
    assert not tab.nodes.isVisible()


def test_the_button_and_enter_want_its_nodes(qtbot, tab):
    tab.show()
    assert tab.nodes.text() == "Show its node"
    wanted = []
    tab.nodes_wanted.connect(lambda each: wanted.append(each.kind))
    qtbot.mouseClick(tab.nodes, Qt.MouseButton.LeftButton)
    qtbot.keyClick(tab.table, Qt.Key.Key_Return)
    assert wanted == ["layout", "layout"]
    qtbot.keyClick(tab.table, Qt.Key.Key_Down)
    qtbot.keyClick(tab.table, Qt.Key.Key_Return)
    assert wanted == ["layout", "layout"], "this one names no nodes"


def test_without_any_it_says_why(tab):
    tab.show()
    tab.set_rows((), "Nothing was found.")
    assert tab.sentence.isVisible()
    assert tab.sentence.text() == "Nothing was found."
    assert not tab.table.isVisible()
    assert tab.told[-1] is None
