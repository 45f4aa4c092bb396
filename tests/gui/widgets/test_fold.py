"""A part that is folded away still tells what is set in it."""

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel

from edgeopt_gui.widgets.fold import Fold


@pytest.fixture
def fold(qtbot):
    made = Fold("More", QLabel("inside"))
    qtbot.addWidget(made)
    made.show()
    qtbot.waitExposed(made)
    return made


def test_it_opens_by_keyboard(qtbot, fold):
    assert not fold.content.isVisible()
    with qtbot.waitSignal(fold.toggled):
        qtbot.keyClick(fold.head, Qt.Key.Key_Space)
    assert fold.content.isVisible()


def test_folded_it_says_what_is_set(fold):
    fold.say("memory at most 64 MiB")
    assert fold.summary.isVisible()
    assert fold.head.accessibleDescription() == "memory at most 64 MiB"
    fold.set_open(True)
    assert not fold.summary.isVisible()
