import importlib
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PySide6.QtCore import QPersistentModelIndex, QPoint, Qt
from PySide6.QtGui import QGuiApplication, QKeySequence
from PySide6.QtTest import QAbstractItemModelTester, QTest
from PySide6.QtWidgets import (
    QLabel,
    QLineEdit,
    QPlainTextEdit,
    QPushButton,
    QScrollArea,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from edgeopt_gui.jobs.ending import Ending
from edgeopt_gui.widgets.filter_bar import FilterBar
from edgeopt_gui.widgets.records import ROW_ROLE, VALUE_ROLE, Column, RecordsModel
from edgeopt_gui.widgets.records_table import RecordsTable
from edgeopt_gui.widgets.scrolled import Scrolled
from edgeopt_gui.widgets.states import ErrorState

ASCENDING, DESCENDING = Qt.SortOrder.AscendingOrder, Qt.SortOrder.DescendingOrder


@dataclass(frozen=True)
class Fruit:
    name: str
    grams: float | None = None


COLUMNS = (
    Column("Fruit", lambda fruit: fruit.name, tip=lambda fruit: f"a {fruit.name}"),
    Column(
        "Weight",
        lambda fruit: fruit.grams,
        text=lambda fruit: "" if fruit.grams is None else f"{fruit.grams:.0f} g",
        align="right",
        title_tip="of one",
    ),
)
APPLE, FIG, KIWI, LIME = Fruit("apple", 180.0), Fruit("fig", 50.0), Fruit("kiwi"), Fruit("lime", 67.0)


@pytest.fixture
def make(qapp):
    """A model that Qt's own tester watches: what it finds wrong is a warning, which fails the test."""

    def model(*rows, **more):
        made = RecordsModel(COLUMNS, key=lambda fruit: fruit.name, **more)
        made.watcher = QAbstractItemModelTester(made, QAbstractItemModelTester.FailureReportingMode.Warning)
        made.set_rows(rows)
        return made

    return model


def names(model):
    return [model.index(row, 0).data() for row in range(model.rowCount())]


@pytest.mark.parametrize("module", ["compare.view", "model.measured", "model.tables", "optimize.candidates"])
def test_a_name_that_is_cut_in_its_middle_is_whole_in_the_tip(module):
    found = vars(importlib.import_module(f"edgeopt_gui.pages.{module}")).values()
    columns = [each for group in found if isinstance(group, tuple) for each in group if isinstance(each, Column)]
    assert any(each.cut_middle for each in columns)
    assert [each.title for each in columns if each.cut_middle and each.tip is None] == []


def test_shows_text_and_keeps_the_value(make):
    model = make(APPLE, KIWI)
    weight = model.index(0, 1)
    assert (weight.data(), weight.data(VALUE_ROLE), weight.data(ROW_ROLE)) == ("180 g", 180.0, APPLE)
    assert model.index(1, 1).data() == ""
    assert weight.data(Qt.ItemDataRole.TextAlignmentRole) & Qt.AlignmentFlag.AlignRight
    assert model.index(0, 0).data(Qt.ItemDataRole.ToolTipRole) == "a apple"
    assert model.headerData(1, Qt.Orientation.Horizontal) == "Weight"
    assert model.headerData(1, Qt.Orientation.Horizontal, Qt.ItemDataRole.ToolTipRole) == "of one"


@pytest.mark.parametrize(
    ("order", "expected"),
    [(ASCENDING, ["fig", "lime", "apple", "kiwi"]), (DESCENDING, ["apple", "lime", "fig", "kiwi"])],
)
def test_sorts_by_value_with_the_unknown_at_the_end(make, order, expected):
    model = make(APPLE, FIG, KIWI, LIME)
    model.sort(1, order)
    assert names(model) == expected
    model.sort(-1)
    assert names(model) == ["apple", "fig", "kiwi", "lime"]


def test_what_is_selected_follows_its_row_when_the_order_changes(make):
    model = make(APPLE, FIG, LIME)
    held = QPersistentModelIndex(model.index(1, 0))
    model.sort(0, DESCENDING)
    assert (held.row(), held.data()) == (1, "fig")
    model.sort(1, ASCENDING)
    assert (held.row(), held.data()) == (0, "fig")


def test_a_search_keeps_the_rows_with_every_word(make):
    model = make(Fruit("red apple"), Fruit("green apple"), Fruit("red fig"))
    model.search("APPLE red")
    assert names(model) == ["red apple"]
    model.search("")
    assert model.rowCount() == 3


def test_the_search_looks_into_what_it_is_told_to(make):
    model = make(APPLE, FIG, searched=lambda fruit: f"{fruit.grams}")
    model.search("180")
    assert names(model) == ["apple"]


def test_the_search_knows_what_a_row_says_now(make):
    model = make(APPLE, FIG, searched=lambda fruit: f"{fruit.grams}")
    model.search("180")
    model.put(Fruit("fig", 1180.0))
    assert names(model) == ["apple", "fig"]


def test_filters_hold_together(make):
    model = make(APPLE, FIG, LIME)
    model.accept(lambda fruit: fruit.grams < 100)
    model.search("i")
    assert names(model) == ["fig", "lime"]
    assert len(model.rows) == 3


def test_put_adds_replaces_moves_and_hides(make):
    model = make(APPLE, FIG)
    model.sort(1, ASCENDING)
    model.put(LIME)
    assert names(model) == ["fig", "lime", "apple"]
    held = QPersistentModelIndex(model.index(0, 0))
    model.put(Fruit("fig", 900.0))
    assert names(model) == ["lime", "apple", "fig"]
    assert (held.row(), model.index(2, 1).data()) == (2, "900 g")
    model.accept(lambda fruit: (fruit.grams or 0) < 500)
    model.put(Fruit("lime", 700.0))
    assert names(model) == ["apple"]
    assert model.position("lime") is None


def test_many_rows_put_at_once_are_replaced_added_removed_and_sorted(make):
    model = make(APPLE, FIG, KIWI)
    model.sort(1, ASCENDING)
    model.accept(lambda fruit: fruit.grams != 1)
    held = QPersistentModelIndex(model.index(1, 0))
    model.put_all([Fruit("apple", 10.0), LIME, Fruit("grape", 1.0)], removed=["kiwi", "nut"])
    assert names(model) == ["apple", "fig", "lime"]
    assert held.data() == "apple"
    assert [row.name for row in model.rows] == ["apple", "fig", "lime", "grape"]
    model.put_all([Fruit("fig", 1.0), Fruit("grape", 2.0)])
    assert names(model) == ["grape", "apple", "lime"]


def test_selected_rows_stay_selected_when_many_are_put(table):
    table.setSelectionMode(table.SelectionMode.ExtendedSelection)
    table.selectRow(0)
    table.records.put_all([("relu", 9), ("mul", 4)], removed=["add"])
    assert [table.records.row(index.row()) for index in table.selectionModel().selectedRows()] == [("relu", 9)]


def test_looks_stand_out_by_font_and_by_the_palette(make, qapp):
    model = make(APPLE, FIG, look=lambda fruit: "strong" if fruit is APPLE else "quiet")
    assert model.index(0, 0).data(Qt.ItemDataRole.FontRole).bold()
    quiet = model.index(1, 0).data(Qt.ItemDataRole.ForegroundRole)
    assert quiet.color() == qapp.palette().placeholderText().color()


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("abcdefgh"), st.one_of(st.none(), st.integers(0, 9)))),
    st.sampled_from([-1, 0, 1]),
    st.sampled_from([ASCENDING, DESCENDING]),
    st.sampled_from([RecordsModel.put, lambda model, row: model.put_all([row, Fruit(f"{row.name}2", 5)])]),
)
def test_rows_put_one_by_one_stand_as_if_they_had_been_given_at_once(qapp, puts, column, order, put):
    model = RecordsModel(COLUMNS, key=lambda fruit: fruit.name)
    watcher = QAbstractItemModelTester(model, QAbstractItemModelTester.FailureReportingMode.Warning)
    model.accept(lambda fruit: fruit.grams != 5)
    model.sort(column, order)
    for name, grams in puts:
        put(model, Fruit(name, grams))
    at_once = RecordsModel(COLUMNS, key=lambda fruit: fruit.name)
    at_once.accept(lambda fruit: fruit.grams != 5)
    at_once.sort(column, order)
    at_once.set_rows(model.rows)
    assert model.shown == at_once.shown
    assert watcher.model() is model


COLUMNS_RECORDS_TABLE = (Column("Name", lambda row: row[0]), Column("Size", lambda row: row[1], align="right"))
ROWS = (("relu", 3), ("conv", 1), ("add", 2))


@pytest.fixture
def table(qtbot):
    records = RecordsModel(COLUMNS_RECORDS_TABLE, key=lambda row: row[0])
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
    records = RecordsModel(COLUMNS_RECORDS_TABLE, key=lambda row: row[0])
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
    assert table.columnWidth(0) == COLUMNS_RECORDS_TABLE[0].max_letters * letter


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


def test_it_is_no_higher_than_its_wrapped_texts(qtbot):
    label = QLabel("many words " * 60)
    label.setWordWrap(True)
    label.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Minimum)
    page = Scrolled()
    page.column.addWidget(label)
    area = QScrollArea()
    area.setWidgetResizable(True)
    area.setWidget(page)
    qtbot.addWidget(area)
    area.resize(800, 60)
    area.show()
    qtbot.waitExposed(area)
    needed = page.heightForWidth(area.viewport().width())
    assert page.height() == max(needed, area.viewport().height())


ENDING = Ending(
    "failed", {}, "The model is cut short.", "Download it again.", "$ edgeopt analyze a.onnx\nexit code 3"
)


@pytest.fixture
def state(qtbot):
    state = ErrorState()
    qtbot.addWidget(state)
    state.show()
    return state


def test_an_error_says_what_happened_what_next_and_has_details_to_copy(state):
    state.set(ENDING, "")
    said = [label.text() for label in state.findChildren(QLabel) if label.isVisible()]
    assert said == ["The model is cut short.", "Download it again."]
    assert state.findChild(QPlainTextEdit).toPlainText() == ENDING.details
    copy = next(b for b in state.findChildren(QPushButton) if b.text().startswith("Copy"))
    copy.click()
    assert QGuiApplication.clipboard().text() == ENDING.details


def test_no_empty_line_stands_where_there_is_no_next_step(state):
    state.set(Ending("failed", {}, "It failed."), "")
    assert [label.text() for label in state.findChildren(QLabel) if label.isVisible()] == ["It failed."]


def test_a_column_grows_for_a_longer_text_that_arrives_later(qtbot, make):
    """The state of a device was "deployi…" beside a thousand free pixels."""
    table = RecordsTable(make(Fruit("fig"), KIWI), "Fruits")
    qtbot.addWidget(table)
    table.resize(900, 300)
    table.show()
    narrow, long = table.columnWidth(0), "a very long name of a fruit"
    table.records.put_all([Fruit(long)])
    wanted = table.fontMetrics().horizontalAdvance(long)
    qtbot.waitUntil(lambda: table.columnWidth(0) > wanted)
    assert narrow < wanted
    table.setColumnWidth(0, 60)
    table.records.put_all([Fruit(long * 2)])
    QTest.qWait(10)
    assert table.columnWidth(0) == 60, "the user's width stays"
