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


def test_a_result_scrolls_in_a_low_window_and_not_sideways(qtbot, won):
    view = RunView()
    qtbot.addWidget(view)
    view.verdict.set(won)
    view.standing.hide()
    view.resize(450, 300)
    view.show()
    qtbot.waitUntil(lambda: view.verticalScrollBar().maximum() > 0)
    assert view.horizontalScrollBar().maximum() == 0
    assert view.minimumSizeHint().height() < 150


def test_warnings_show_no_caret(qtbot):
    view = RunView()
    qtbot.addWidget(view)
    for label in (view.warnings, view.verdict.limits):
        assert not label.textInteractionFlags() & Qt.TextInteractionFlag.TextSelectableByKeyboard
