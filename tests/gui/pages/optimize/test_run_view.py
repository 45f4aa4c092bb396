"""The tables of a search: what belongs to one tab is seen on that one alone."""

from PySide6.QtCore import Qt

from edgeopt_gui.pages.optimize.run_view import RunView


def test_the_box_of_the_pareto_front_is_on_the_tab_of_the_candidates(qtbot):
    view = RunView()
    qtbot.addWidget(view)
    view.candidates.has_front = True
    view.tabs.setCurrentWidget(view.ledger)
    assert view.candidates.only_front.isHidden()
    view.tabs.setCurrentWidget(view.candidates)
    assert not view.candidates.only_front.isHidden()


def test_warnings_show_no_caret(qtbot):
    view = RunView()
    qtbot.addWidget(view)
    for label in (view.warnings, view.verdict.limits):
        assert not label.textInteractionFlags() & Qt.TextInteractionFlag.TextSelectableByKeyboard
