import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QAbstractItemModelTester

from edgeopt_gui.actions.action import Action
from edgeopt_gui.pages.base import Entry, Page
from edgeopt_gui.widgets.palette import CHOICE_ROLE, Palette


class Plain(Page):
    def __init__(self, context):
        super().__init__(context)
        self.done = []
        self.show_empty("Nothing yet.")

    def bake(self):
        self.done.append("bake")

    def why_not_fly(self):
        return "It has no wings."

    def why_not_swim(self):
        return (
            "It has no fins, no flippers and no propeller, and the water of the lake is frozen until spring. " * 2
        )


PLAIN = Entry(
    "plain",
    "Plain",
    "device",
    Plain,
    (
        Action("plain.bake", "Bake a cake", "Plain", Plain.bake, shortcut="Ctrl+B"),
        Action("plain.fly", "Fly away", "Plain", Plain.bake, Plain.why_not_fly),
        Action("plain.swim", "Swim across", "Plain", Plain.bake, Plain.why_not_swim),
    ),
)


@pytest.fixture
def window(open_window):
    return open_window((PLAIN,))


def open_palette(qtbot, window):
    qtbot.keyClick(window, Qt.Key.Key_K, Qt.KeyboardModifier.ControlModifier)
    return window.findChild(Palette)


def type_in(qtbot, palette, text):
    qtbot.keyClicks(palette.line, text)


def test_it_opens_by_its_shortcut_finds_and_runs(qtbot, window):
    palette = open_palette(qtbot, window)
    QAbstractItemModelTester(palette.model, QAbstractItemModelTester.FailureReportingMode.Fatal)
    type_in(qtbot, palette, "bak")
    assert palette.current.title == "Bake a cake"
    assert palette.current.shortcut == "Ctrl+B"
    qtbot.keyClick(palette.line, Qt.Key.Key_Return)
    assert window.page("plain").done == ["bake"]
    assert not palette.isVisible()


def test_what_cannot_be_done_says_why_and_stays(qtbot, window):
    palette = open_palette(qtbot, window)
    type_in(qtbot, palette, "fly")
    choice = palette.current
    assert choice.aside == "It has no wings."
    assert "It has no wings." in palette.view.currentIndex().data(Qt.ItemDataRole.AccessibleTextRole)
    qtbot.keyClick(palette.line, Qt.Key.Key_Return)
    assert window.page("plain").done == []
    assert palette.isVisible()
    palette.close()


def test_a_reason_is_whole_where_the_window_has_room(qtbot, window):
    window.resize(2400, 800)
    palette = open_palette(qtbot, window)
    type_in(qtbot, palette, "swim")
    metrics = palette.fontMetrics()
    texts = metrics.horizontalAdvance(f"Swim across{palette.current.reason}")
    assert palette.view.viewport().width() >= texts + 4 * metrics.height()
    palette.close()


def test_arrows_walk_and_escape_closes(qtbot, window):
    palette = open_palette(qtbot, window)
    first = palette.current
    qtbot.keyClick(palette.line, Qt.Key.Key_Down)
    assert palette.current is not first
    qtbot.keyClick(palette.line, Qt.Key.Key_Up)
    qtbot.keyClick(palette.line, Qt.Key.Key_Up)
    assert palette.current is first, "the ends hold"
    qtbot.keyClick(palette.line, Qt.Key.Key_Escape)
    assert not palette.isVisible()


def test_what_can_be_done_comes_first_and_nonsense_is_told(qtbot, window):
    palette = open_palette(qtbot, window)
    rows = [palette.model.index(row) for row in range(palette.model.rowCount())]
    reasons = [bool(row.data(CHOICE_ROLE).reason) for row in rows]
    assert reasons == sorted(reasons)
    type_in(qtbot, palette, "qqqq")
    assert palette.current is None
    assert not palette.view.isVisible()
    qtbot.keyClick(palette.line, Qt.Key.Key_Return)
    assert palette.isVisible()
    palette.close()
