from PySide6.QtWidgets import QLabel

from edgeopt_gui.pages.model.details import Detailed
from edgeopt_gui.widgets.records import Column, RecordsModel


def test_rows_or_the_sentence_that_says_why_there_are_none(qtbot):
    below = QLabel("details")
    records = RecordsModel((Column("Name", str),), key=lambda row: row)
    tab = Detailed(records, "Names", (below,), lines=8)
    qtbot.addWidget(tab)
    tab.set_rows((), "Nothing yet.")
    tab.show()
    assert tab.sentence.isVisible()
    assert not below.isVisible()
    tab.set_rows(("a", "b"), "Nothing yet.")
    assert below.isVisible()
    assert tab.table.current == "a"
    tab.table.pick("b")
    tab.set_rows(("a", "b", "c"), "Nothing yet.")
    assert tab.table.current == "b"
