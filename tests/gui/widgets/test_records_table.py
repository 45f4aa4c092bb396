import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QGuiApplication, QKeySequence
from PySide6.QtWidgets import QLineEdit, QVBoxLayout, QWidget

from edgeopt_gui.widgets.records import Column, RecordsModel
from edgeopt_gui.widgets.records_table import RecordsTable

COLUMNS = (Column("Name", lambda row: row[0]), Column("Size", lambda row: row[1], align="right"))
ROWS = (("relu", 3), ("conv", 1), ("add", 2))


@pytest.fixture
def table(qtbot):
    records = RecordsModel(COLUMNS, key=lambda row: row[0])
    records.set_rows(ROWS)
    made = RecordsTable(records, "Nodes")
    qtbot.addWidget(made)
    made.resize(400, 200)
    made.show()
    return made


def test_the_arrow_keys_and_enter_pick_and_choose(qtbot, table):
    table.pick("relu")
    picked, chosen = [], []
    table.picked.connect(picked.append)
    table.chosen.connect(chosen.append)
    qtbot.keyClick(table, Qt.Key.Key_Down)
    qtbot.keyClick(table, Qt.Key.Key_Return)
    assert picked == [("conv", 1)]
    assert chosen == [("conv", 1)]


def test_texts_are_cut_before_the_table_scrolls_and_widths_of_the_user_stay(qtbot, table):
    table.records.set_rows([("a" * 70, 12345678901234)])
    table.fit()
    table.resize(300, 200)
    metrics = table.fontMetrics()
    qtbot.waitUntil(lambda: table.horizontalScrollBar().maximum() == 0)
    assert table.columnWidth(1) > metrics.horizontalAdvance("12345678901234")
    table.setColumnWidth(0, 240)
    table.resize(320, 200)
    assert table.columnWidth(0) == 240


def test_a_click_on_a_title_sorts_and_the_third_one_gives_the_given_order(qtbot, table):
    table.pick("conv")
    header = table.horizontalHeader()
    orders = []
    for _ in range(3):
        x = header.sectionViewportPosition(0) + 8
        qtbot.mouseClick(header.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(x, 8))
        orders.append([row[0] for row in table.records.shown])
    assert orders == [["add", "conv", "relu"], ["relu", "conv", "add"], ["relu", "conv", "add"]]
    assert header.sortIndicatorSection() == -1
    assert table.current == ("conv", 1)


def test_a_filter_keeps_the_picked_row_while_it_is_shown(table):
    table.pick("conv")
    table.records.search("o")
    assert table.current == ("conv", 1)
    table.records.search("relu")
    assert table.current is None
    table.records.search("")
    assert table.current == ("conv", 1)


def test_copies_the_row(qtbot, table):
    table.pick("add")
    qtbot.keySequence(table, QKeySequence(QKeySequence.StandardKey.Copy))
    assert QGuiApplication.clipboard().text() == "add\t2"


def test_a_row_that_is_not_shown_cannot_be_picked(table):
    assert not table.pick("pool")


def test_a_short_table_needs_no_bar(table):
    table.show_all_rows()
    assert not table.verticalScrollBar().isVisible()
    assert table.height() < 200


def test_tab_leaves_the_table(qtbot):
    page = QWidget()
    qtbot.addWidget(page)
    records = RecordsModel(COLUMNS, key=lambda row: row[0])
    records.set_rows(ROWS)
    table, after = RecordsTable(records, "Nodes"), QLineEdit()
    layout = QVBoxLayout(page)
    layout.addWidget(table)
    layout.addWidget(after)
    page.show()
    table.setFocus()
    qtbot.keyClick(table, Qt.Key.Key_Tab)
    qtbot.waitUntil(after.hasFocus)


def test_a_column_is_as_wide_as_the_last_row_and_never_wider_than_it_may(table):
    narrow = table.columnWidth(1)
    table.records.set_rows((*ROWS, ("last", 10**15)))
    table.fit()
    assert table.columnWidth(1) > narrow
    letter = table.fontMetrics().averageCharWidth()
    table.records.set_rows((("x" * 200, 1),))
    table.fit()
    assert table.columnWidth(0) == COLUMNS[0].most_letters * letter


def test_the_first_click_on_figures_sorts_the_largest_first_and_keeps_the_row_in_sight(qtbot, table):
    table.records.set_rows([(f"n{size}", size) for size in range(100)])
    table.pick("n99")
    header = table.horizontalHeader()
    place = QPoint(header.sectionViewportPosition(1) + 8, 8)
    qtbot.mouseClick(header.viewport(), Qt.MouseButton.LeftButton, pos=place)
    assert [row[1] for row in table.records.shown[:3]] == [99, 98, 97]
    assert table.viewport().rect().contains(table.visualRect(table.currentIndex()).center())
    qtbot.mouseClick(header.viewport(), Qt.MouseButton.LeftButton, pos=place)
    assert table.current == ("n99", 99)
    assert table.viewport().rect().contains(table.visualRect(table.currentIndex()).center())
