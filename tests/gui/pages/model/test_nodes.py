import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QFont
from PySide6.QtTest import QAbstractItemModelTester
from PySide6.QtWidgets import QStyleOptionViewItem

from edgeopt_gui.pages.model.nodes import Nodes
from edgeopt_gui.pages.model.work import Totals, totals


@pytest.fixture
def nodes(qtbot, analysis):
    made = Nodes()
    qtbot.addWidget(made)
    made.watcher = QAbstractItemModelTester(made.records, QAbstractItemModelTester.FailureReportingMode.Warning)
    made.set_nodes(analysis.nodes, totals(analysis))
    made.resize(700, 600)
    made.show()
    return made


def detail(nodes, name):
    return next(fact.value for group in nodes.details.groups for fact in group.facts if fact.name == name)


def test_the_node_with_the_largest_share_is_first_and_its_details_stand_below(nodes, analysis):
    shares = [node.cost.operations or 0 for node in nodes.records.shown]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] == max(node.cost.operations or 0 for node in analysis.nodes)
    assert detail(nodes, "Operator") == "Conv"


def test_constants_are_folded_away_until_they_are_asked_for(qtbot, nodes):
    assert nodes.constants.text() == "Constants (16)"
    assert "Constant" not in {node.operator for node in nodes.records.shown}
    nodes.constants.click()
    assert nodes.records.rowCount() == 95
    nodes.constants.click()
    nodes.show_operator("Constant")
    assert nodes.records.rowCount() == 16


def test_zeros_are_blank(nodes):
    columns = {column.title: column for column in nodes.records.columns}
    shape = next(node for node in nodes.records.rows if node.operator == "Shape")
    assert [columns[title].text_of(shape) for title in ("Operations", "Work %")] == ["", ""]


def test_long_names_are_cut_in_their_middle(nodes):
    place = next(k for k, column in enumerate(nodes.records.columns) if column.title == "Name")
    option = QStyleOptionViewItem()
    nodes.table.itemDelegateForColumn(place).initStyleOption(option, nodes.records.index(0, place))
    assert option.textElideMode == Qt.TextElideMode.ElideMiddle


def test_the_arrow_keys_show_other_details(qtbot, nodes):
    qtbot.keyClick(nodes.table, Qt.Key.Key_Down)
    assert detail(nodes, "Name") == nodes.records.row(1).name


def test_one_operator_alone_and_all_again(qtbot, nodes):
    nodes.show_operator("Conv")
    assert {node.operator for node in nodes.records.shown} == {"Conv"}
    assert detail(nodes, "Operator") == "Conv"
    assert nodes.all.text() == "Only Conv: show all"
    with qtbot.waitSignal(nodes.everything_wanted):
        qtbot.mouseClick(nodes.all, Qt.MouseButton.LeftButton)
    nodes.show_operator("")
    assert nodes.records.rowCount() == 79
    assert not nodes.all.isVisible()


def test_a_search_without_an_answer_says_so(qtbot, nodes):
    qtbot.keyClicks(nodes.bar.line, "nothing like it")
    assert nodes.records.rowCount() == 0
    assert not nodes.details.isVisible()
    nodes.bar.line.clear()
    assert nodes.details.isVisible()


def titles(nodes):
    header = nodes.table.horizontalHeader()
    return [c.title for place, c in enumerate(nodes.records.columns) if not header.isSectionHidden(place)]


def test_shares_are_of_the_least_time_where_it_is_known_and_else_of_the_operations(nodes, analysis):
    assert "Work %" in titles(nodes)
    assert "Time %" not in titles(nodes)
    nodes.set_nodes(analysis.nodes, Totals(1000, 1.5))
    assert "Time %" in titles(nodes)
    assert "Work %" not in titles(nodes)


def test_marked_nodes_stand_out_and_a_line_says_why(nodes):
    nodes.mark(frozenset({"node_conv2d"}), "Quantize the large layers")
    fonts = {
        row.name: nodes.records.index(place, 0).data(Qt.ItemDataRole.FontRole)
        for place, row in enumerate(nodes.records.shown)
    }
    assert [name for name, font in fonts.items() if isinstance(font, QFont) and font.bold()] == ["node_conv2d"]
    assert nodes.marks.isVisible()
    assert "Quantize the large layers" in nodes.marks.text()
    nodes.mark(frozenset(), "")
    assert not nodes.marks.isVisible()


def test_the_same_nodes_again_move_nothing(qtbot, nodes, analysis):
    nodes.table.pick(("", 40))
    with qtbot.assertNotEmitted(nodes.records.modelReset):
        nodes.set_nodes(list(analysis.nodes), totals(analysis))
    assert nodes.table.current.position == 40
