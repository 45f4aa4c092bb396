from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PySide6.QtCore import QPersistentModelIndex, Qt
from PySide6.QtTest import QAbstractItemModelTester

from edgeopt_gui.widgets.records import ROW_ROLE, VALUE_ROLE, Column, RecordsModel

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
)
def test_rows_put_one_by_one_stand_as_if_they_had_been_given_at_once(qapp, puts, column, order):
    model = RecordsModel(COLUMNS, key=lambda fruit: fruit.name)
    watcher = QAbstractItemModelTester(model, QAbstractItemModelTester.FailureReportingMode.Warning)
    model.accept(lambda fruit: fruit.grams != 5)
    model.sort(column, order)
    for name, grams in puts:
        model.put(Fruit(name, grams))
    at_once = RecordsModel(COLUMNS, key=lambda fruit: fruit.name)
    at_once.accept(lambda fruit: fruit.grams != 5)
    at_once.sort(column, order)
    at_once.set_rows(model.rows)
    assert model.shown == at_once.shown
    assert watcher.model() is model
