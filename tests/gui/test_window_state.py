from PySide6.QtCore import QPoint
from PySide6.QtGui import QGuiApplication

from edgeopt_gui import window_state


def test_the_window_comes_back_as_it_was_left(open_window, context, qtbot):
    window = open_window()
    window.resize(800, 720)
    window.move(0, 20)
    window.show_page("optimize")
    window.toggle_log()
    qtbot.waitUntil(lambda: not context.jobs.jobs, timeout=60_000)
    window.close()
    again = type(window)(context, tuple(window._entries.values()))
    qtbot.addWidget(again)
    again.show()
    assert again.size().toTuple() == (800, 720)
    assert again.log.isVisible()
    assert context.settings.text(window_state.PAGE) == "optimize"


def test_a_place_off_every_screen_is_not_gone_to(open_window, context, qtbot, monkeypatch):
    window = open_window()
    qtbot.waitUntil(lambda: not context.jobs.jobs, timeout=60_000)
    window.close()
    # Qt moves it back itself where it can tell; some window managers report what it cannot.
    monkeypatch.setattr(type(window), "restoreGeometry", lambda self, _: self.move(QPoint(9000, 9000)) or True)
    again = type(window)(context, tuple(window._entries.values()))
    qtbot.addWidget(again)
    assert QGuiApplication.primaryScreen().availableGeometry().contains(again.pos() + QPoint(100, 100))


def test_the_layout_can_be_reset(open_window):
    window = open_window()
    window.toggle_log()
    window.resize(1000, 640)
    before = window.size()
    window.book["app.reset-layout"].shown.trigger()
    assert not window.log.isVisible()
    assert window.size() != before or QGuiApplication.primaryScreen().availableGeometry().width() <= 1000


def test_a_larger_font_needs_a_larger_window(open_window, monkeypatch):
    window = open_window()
    screen = QGuiApplication.primaryScreen().availableSize()
    small = window_state.least(window)
    font = window.font()
    font.setPointSizeF(font.pointSizeF() * 1.1)
    window.setFont(font)
    assert window_state.least(window).height() > small.height()
    font.setPointSizeF(font.pointSizeF() * 5)
    window.setFont(font)
    assert window_state.least(window) == screen, "but never larger than the screen"
