import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QAbstractItemModelTester

from edgeopt.analyzing.analyze import analyze
from edgeopt.samples import MODEL
from edgeopt_gui.pages.model.nodes import Nodes


@pytest.fixture
def nodes(qtbot):
    made = Nodes()
    qtbot.addWidget(made)
    made.watcher = QAbstractItemModelTester(made.records, QAbstractItemModelTester.FailureReportingMode.Warning)
    made.set_nodes(analyze(MODEL).nodes)
    made.resize(700, 600)
    made.show()
    return made


def detail(nodes, name):
    return next(fact.value for group in nodes.details.groups for fact in group.facts if fact.name == name)


def test_the_first_node_is_picked_and_its_details_stand_below(nodes):
    assert detail(nodes, "Name") == "node_Shape_0"


def test_the_arrow_keys_show_other_details(qtbot, nodes):
    qtbot.keyClick(nodes.table, Qt.Key.Key_Down)
    assert detail(nodes, "Operator") == "Squeeze"


def test_one_operator_alone_and_all_again(qtbot, nodes):
    nodes.show_operator("Conv")
    assert {node.operator for node in nodes.records.shown} == {"Conv"}
    assert detail(nodes, "Operator") == "Conv"
    assert nodes.all.text() == "Only Conv: show all"
    with qtbot.waitSignal(nodes.everything_wanted):
        qtbot.mouseClick(nodes.all, Qt.MouseButton.LeftButton)
    nodes.show_operator("")
    assert nodes.records.rowCount() == 95
    assert not nodes.all.isVisible()


def test_a_search_without_an_answer_says_so(qtbot, nodes):
    qtbot.keyClicks(nodes.bar.line, "nothing like it")
    assert nodes.records.rowCount() == 0
    assert not nodes.details.isVisible()
    nodes.bar.line.clear()
    assert nodes.details.isVisible()
