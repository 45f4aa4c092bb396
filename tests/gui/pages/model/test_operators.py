from edgeopt_gui.pages.model.operators import Operators
from edgeopt_gui.pages.model.work import Totals, totals


def test_shows_the_share_that_is_known(qtbot, analysis):
    tab = Operators()
    qtbot.addWidget(tab)
    titles = [column.title for column in tab.records.columns]
    tab.set_rows(analysis.operators, totals(analysis))
    assert tab.records.rowCount() == 16
    assert tab.table.isColumnHidden(titles.index("Time %"))
    tab.set_rows(analysis.operators, Totals(1000, 2.0))
    assert not tab.table.isColumnHidden(titles.index("Time %"))
    assert tab.table.isColumnHidden(titles.index("Work %"))


def test_operators_with_the_most_work_come_first(qtbot, analysis):
    tab = Operators()
    qtbot.addWidget(tab)
    tab.set_rows(analysis.operators, totals(analysis))
    assert tab.records.shown[0].operator == "Conv"
    work = [row.operations for row in tab.records.shown if row.unknown < row.count]
    assert work == sorted(work, reverse=True)
