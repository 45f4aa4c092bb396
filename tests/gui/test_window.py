import hashlib
import os
import shutil

import pytest
from PySide6.QtCore import QMimeData, QPoint, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDragLeaveEvent, QDropEvent, QGuiApplication
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QApplication,
    QComboBox,
    QDialog,
    QLabel,
    QLineEdit,
    QTextBrowser,
)

from edgeopt.bundle.deployment import SourceModel
from edgeopt.data.demo import DATA, MODEL
from edgeopt_gui import window_state
from edgeopt_gui.actions.action import Action
from edgeopt_gui.gaps import GapMonitor
from edgeopt_gui.jobs.command import Command
from edgeopt_gui.jobs.ending import Ending
from edgeopt_gui.pages import PAGES
from edgeopt_gui.pages.base import Entry, Page
from edgeopt_gui.source_model import source_of
from edgeopt_gui.subject import subject_at
from edgeopt_gui.widgets.drop_hint import DropHint
from edgeopt_gui.window import Window

KEYS = [entry.key for entry in PAGES]


class Counting(Page):
    def __init__(self, context):
        super().__init__(context)
        self.told = []
        self.show_empty("Nothing yet.", "app.open-model")

    def entered(self):
        self.told.append("entered")

    def left(self):
        self.told.append("left")

    def note(self):
        self.told.append("note")

    def command(self):
        return Command("Probing", ("probe", "--deep"))


def counting(key):
    action = Action(f"{key}.note", "Note it", key.title(), Counting.note, icon="check", primary=True)
    return Entry(key, key.title(), "device", Counting, (action,))


def few(*keys):
    """The entries of these pages."""
    return tuple(entry for entry in PAGES if entry.key in keys)


def test_pages_are_made_in_steps_between_which_each_can_be_visited(qtbot, context):
    window = Window(context, [counting(key) for key in ("first", "second", "third")])
    qtbot.addWidget(window)
    assert next(window._steps) == "second"
    made = window._made["second"]
    window.show_page("second")
    assert window.shown_page is made
    assert list(window._steps) == ["third"] * 3 + ["first", "second", "third"]
    assert window.page("third").told == []
    assert not window.book["third.note"].shown.icon().isNull()
    window.book["third.note"].shown.trigger()
    assert window.page("third").told == ["entered", "note"]


@pytest.fixture
def unmade(qtbot, context):
    """A window with the first of three pages; the others are not made yet."""
    window = Window(context, [counting(key) for key in ("first", "second", "third")])
    qtbot.addWidget(window)
    window.show()
    return window


def title(window):
    return window.header.findChild(QLabel, "title").text()


def test_a_page_that_is_not_made_yet_shows_its_title_at_once_and_its_content_in_the_next_steps(qtbot, unmade):
    first = unmade.page("first")
    unmade.rail.button("second").click()
    assert title(unmade) == "Second"
    assert unmade.rail.button("second").isChecked()
    assert "second" not in unmade._pages
    assert not first.isVisible()
    qtbot.waitUntil(lambda: "second" in unmade._pages and unmade._pages["second"].isVisible())
    assert unmade.shown_page is unmade.page("second")
    assert unmade.page("second").told == ["entered"]
    assert first.told == ["entered", "left"]


def test_the_last_of_several_pages_chosen_in_a_hurry_is_shown(qtbot, unmade):
    unmade.rail.button("second").click()
    unmade.rail.button("third").click()
    qtbot.waitUntil(lambda: "third" in unmade._pages and unmade._pages["third"].isVisible())
    assert title(unmade) == "Third"
    assert "second" not in unmade._pages or unmade.page("second").told == []


def test_going_back_before_the_next_page_is_made_shows_the_old_page_as_it_was(qtbot, unmade):
    unmade.rail.button("second").click()
    unmade.rail.button("first").click()
    assert unmade.page("first").isVisible()
    assert title(unmade) == "First"
    assert unmade.page("first").told == ["entered"]
    list(unmade._steps)
    assert unmade.page("first").isVisible()
    assert unmade.page("second").told == []


def test_an_action_that_needs_a_page_makes_the_page_before_it_is_shown_in_steps(qtbot, unmade):
    unmade.rail.button("second").click()
    unmade.show_page("second")
    unmade.book["second.note"].shown.trigger()
    assert unmade.page("second").told == ["entered", "note"]
    qtbot.waitUntil(lambda: unmade.page("second").isVisible())
    assert unmade.page("second").told == ["entered", "note"]


def test_the_page_that_is_being_made_is_the_one_kept_for_the_next_start(unmade, context):
    unmade.rail.button("second").click()
    unmade.close()
    assert context.settings.text(window_state.PAGE) == "second"


def drag(kind, window, mime):
    """Qt gives drops only to what its own drag manager has under the pointer, so the window is told directly."""
    place, buttons, keys = QPoint(400, 300), Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    event = kind(place, Qt.DropAction.CopyAction, mime, buttons, keys)
    event.ignore()
    (window.dragEnterEvent if kind is QDragEnterEvent else window.dropEvent)(event)
    # The event itself must not come near pytest: showing it would touch what Qt has let go of.
    return event.isAccepted()


def mime_of(*paths):
    mime = QMimeData()
    mime.setUrls([QUrl.fromLocalFile(str(path)) for path in paths])
    return mime


def said(window):
    return window.statusBar().currentMessage()


def test_every_page_is_reached_by_its_digit_and_by_the_rail(qtbot, open_window):
    window = open_window()
    for place, key in enumerate(KEYS):
        other = KEYS[place - 1]
        window.show_page(other)
        qtbot.keyClick(window, Qt.Key(Qt.Key.Key_1 + place), Qt.KeyboardModifier.ControlModifier)
        assert window.shown_page is window.page(key), key
        assert window.rail.button(key).isChecked(), key
        window.show_page(other)
        window.rail.button(key).setFocus()
        qtbot.keyClick(window.rail.button(key), Qt.Key.Key_Space)
        assert window.shown_page is window.page(key), key
        assert window.header.findChild(QLabel, "title").text() == PAGES[place].title


def test_a_page_hears_when_it_comes_and_goes(open_window):
    window = open_window((counting("first"), counting("second")))
    first, second = window.page("first"), window.page("second")
    window.show_page("second")
    window.show_page("second")
    window.show_page("first")
    assert first.told == ["entered", "left", "entered"]
    assert second.told == ["entered", "left"]
    window.close()
    assert first.told[-1] == "left"


def test_an_action_of_a_page_is_done_where_it_is_seen(open_window):
    window = open_window((counting("first"), counting("second")))
    window.book["second.note"].shown.trigger()
    assert window.shown_page is window.page("second")
    assert "note" in window.page("second").told


def test_the_command_line_of_the_page_is_copied(open_window):
    window = open_window((counting("first"),))
    window.book["app.copy-command"].shown.trigger()
    assert QGuiApplication.clipboard().text() == "edgeopt probe --deep"
    assert "edgeopt probe --deep" in said(window)


def test_a_model_dropped_is_shown_and_remembered(open_window, context):
    window = open_window(few("device", "model"))
    assert drag(QDropEvent, window, mime_of(MODEL, DATA))
    assert context.subject.path == MODEL
    assert context.data == DATA
    assert window.shown_page is window.page("model")
    assert context.settings.recent() == (MODEL,)
    assert window.windowTitle().startswith("digits_cnn.onnx")


def test_data_dropped_belongs_to_the_model_that_is_open(open_window, context):
    window = open_window(few("model", "optimize"))
    drag(QDropEvent, window, mime_of(DATA))
    assert context.data is None
    assert "open the model" in said(window)
    window.open_paths([MODEL])
    drag(QDropEvent, window, mime_of(DATA))
    assert context.data == DATA
    assert window.shown_page is window.page("optimize")


def test_what_is_of_no_use_is_said_and_changes_nothing(open_window, context, tmp_path):
    window = open_window((counting("first"),))
    before = window.shown_page
    drag(QDropEvent, window, mime_of(tmp_path))
    assert "not a bundle" in said(window)
    assert context.subject is None
    assert window.shown_page is before


def test_a_hint_covers_the_window_while_something_is_dragged_over_it(open_window):
    window = open_window((counting("first"),))
    hint = window.findChild(DropHint)
    drag(QDragEnterEvent, window, mime_of(MODEL))
    assert hint.isVisible()
    assert hint.geometry() == window.rect()
    QApplication.sendEvent(hint, QDragLeaveEvent())
    assert not hint.isVisible()
    text = QMimeData()
    text.setText("words")
    assert not drag(QDragEnterEvent, window, text)
    assert not hint.isVisible()


def test_a_drop_on_the_hint_counts(open_window, context):
    window = open_window((counting("first"),))
    hint = window.findChild(DropHint)
    hint.cover()
    drag(QDropEvent, hint, mime_of(MODEL))
    assert not hint.isVisible()
    assert context.subject.path == MODEL


def test_a_recent_file_is_one_click_away_where_nothing_is_open(qtbot, open_window, context):
    context.settings.remember(MODEL)
    page = open_window((counting("first"),)).page("first")
    button = page._empty.recent.buttons[0]
    assert button.isVisible()
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    assert context.subject.path == MODEL


def test_the_built_in_sample_comes_with_its_data(open_window, context):
    open_window((counting("first"),)).book["app.open-sample"].shown.trigger()
    assert (context.subject.path, context.data) == (MODEL, DATA)


def test_a_failure_that_no_page_shows_is_told_with_details_to_copy(open_window, context):
    window = open_window((counting("first"),))
    context.report(
        Ending("failed", {}, "The disk is full.", "Free some space.", "$ edgeopt optimize\nexit code 1")
    )
    dialog = window._failure
    assert dialog.isVisible()
    assert (dialog.what.text(), dialog.next_step.text()) == ("The disk is full.", "Free some space.")
    assert "exit code 1" in dialog.text()
    context.report(Ending("failed", {}, "And again.", "", ""))
    assert dialog.what.text() == "And again."
    assert any("earlier one" in label.text() for label in dialog.findChildren(QLabel))
    dialog.close()
    window.log.flush()
    assert "The disk is full. Free some space." in [line.text for line in window.log.model.shown]


def test_a_long_name_gives_way_and_is_whole_in_the_tip(open_window, context, tmp_path):
    window = open_window((counting("first"),))
    path = tmp_path / ("very-long-name-" * 12 + ".onnx")
    path.touch()
    window.open_paths([path])
    subject = window.header.findChild(QLabel, "subject")
    assert "…" in subject.text()
    assert subject.toolTip() == str(path)
    assert window.width() == 1200


def test_help_lists_every_shortcut(open_window):
    window = open_window()
    window.book["app.help"].shown.trigger()
    dialog = window.findChild(QDialog, "help")
    text = dialog.findChild(QTextBrowser).toPlainText()
    for bound in window.book:
        if bound.action.shortcut:
            assert bound.action.title in text
    assert all(entry.purpose.endswith(".") for entry in PAGES)
    # A cell of the table may begin a line of its own.
    assert [page.title for page in PAGES if page.title not in text or page.purpose not in text] == []
    dialog.close()


def test_everything_is_named_for_screen_readers(open_window):
    window = open_window()
    shell = [window.rail, window.header, window.log, window.jobs_bar]
    unnamed = [
        f"{type(widget).__name__} {widget.objectName()}"
        for part in shell
        for kind in (QAbstractButton, QAbstractItemView, QComboBox, QLineEdit)
        for widget in part.findChildren(kind)
        if widget.isVisibleTo(part)
        and widget.focusPolicy() != Qt.FocusPolicy.NoFocus
        and not widget.objectName().startswith("qt_")
        and not (widget.accessibleName() or (hasattr(widget, "text") and widget.text()) or widget.toolTip())
    ]
    assert unnamed == []


def test_every_page_fits_into_the_smallest_window(open_window):
    window = open_window()
    window.open_sample()
    for key in KEYS:
        window.show_page(key)
        window.resize(1200, 800)
        window.resize(1000, 640)
        assert window.size().toTuple() == (1000, 640), key
        assert window.minimumSizeHint().width() <= 1000, key
        assert window.minimumSizeHint().height() <= 640, key


def test_ctrl_w_closes_the_model(qtbot, open_window, context, tmp_path):
    window = open_window(few("model"))
    context.open(subject_at(tmp_path / "a.onnx"))
    qtbot.keyClick(window, Qt.Key.Key_W, Qt.KeyboardModifier.ControlModifier)
    assert context.subject is None


def test_the_window_comes_back_as_it_was_left(open_window, context, qtbot):
    window = open_window((counting("first"), counting("second")))
    window.resize(800, 720)
    window.move(0, 20)
    window.show_page("second")
    window.toggle_log()
    qtbot.waitUntil(lambda: not context.jobs.jobs, timeout=60_000)
    window.close()
    again = type(window)(context, tuple(window._entries.values()))
    qtbot.addWidget(again)
    again.show()
    assert again.size().toTuple() == (800, 720)
    assert again.log.isVisible()
    assert context.settings.text(window_state.PAGE) == "second"


def test_a_place_off_every_screen_is_not_gone_to(open_window, context, qtbot, monkeypatch):
    window = open_window((counting("first"),))
    qtbot.waitUntil(lambda: not context.jobs.jobs, timeout=60_000)
    window.close()
    # Qt moves it back itself where it can tell; some window managers report what it cannot.
    monkeypatch.setattr(type(window), "restoreGeometry", lambda self, _: self.move(QPoint(9000, 9000)) or True)
    again = type(window)(context, tuple(window._entries.values()))
    qtbot.addWidget(again)
    assert QGuiApplication.primaryScreen().availableGeometry().contains(again.pos() + QPoint(100, 100))


def test_the_layout_can_be_reset(open_window):
    window = open_window((counting("first"),))
    window.toggle_log()
    window.resize(1000, 640)
    before = window.size()
    window.book["app.reset-layout"].shown.trigger()
    assert not window.log.isVisible()
    assert window.size() != before or QGuiApplication.primaryScreen().availableGeometry().width() <= 1000


def test_a_larger_font_needs_a_larger_window(open_window, monkeypatch):
    window = open_window((counting("first"),))
    screen = QGuiApplication.primaryScreen().availableSize()
    small = window_state.minimum(window)
    font = window.font()
    font.setPointSizeF(font.pointSizeF() * 1.1)
    window.setFont(font)
    assert window_state.minimum(window).height() > small.height()
    font.setPointSizeF(font.pointSizeF() * 5)
    window.setFont(font)
    assert window_state.minimum(window) == screen, "but never larger than the screen"


@pytest.fixture
def copied(tmp_path, conv_bundle, conv_model, change_deployment):
    bundle = shutil.copytree(conv_bundle, tmp_path / "out" / "conv.edgeopt")
    content = conv_model.read_bytes()
    source = SourceModel(conv_model.name, hashlib.sha256(content).hexdigest(), len(content))
    change_deployment(bundle, source=source)
    return bundle


def test_it_is_found_beside_the_bundle_and_among_recent_files(copied, conv_model, tmp_path):
    elsewhere = tmp_path / "models" / conv_model.name
    elsewhere.parent.mkdir()
    shutil.copyfile(conv_model, elsewhere)
    assert source_of(copied, ()) == (conv_model.name, None)
    assert source_of(copied, (tmp_path / "other.onnx", elsewhere)).path == elsewhere
    beside = copied.parent / conv_model.name
    beside.write_bytes(b"another model of this name")
    assert source_of(copied, (elsewhere,)).path == elsewhere
    shutil.copyfile(conv_model, beside)
    assert source_of(copied, (elsewhere,)).path == beside


def test_the_window_opens_it(qtbot, open_window, context, copied, conv_model):
    window = open_window(few("model"))
    assert window.why_not_open_source() == "No bundle is open."
    shutil.copyfile(conv_model, copied.parent / conv_model.name)
    context.open(subject_at(copied))
    window.book["app.open-source"].shown.trigger()
    qtbot.waitUntil(lambda: context.subject.kind == "model")
    assert context.subject.path == copied.parent / conv_model.name


PATIENCE_MS = 120_000
SEARCHED_MS = 7000  # by then it has made variants, and candidates race
IDLE_MS = 1200  # more than the longest of its timers, one second


def told(gaps):
    return "\n".join(f"{gap.length_ms:.0f} ms at\n{gap.stack}" for gap in gaps)


@pytest.mark.slow
@pytest.mark.timing
def test_every_page_answers_within_50_ms_while_nothing_happens(qtbot, open_window, context):
    window = open_window()
    window.open_sample()
    found = {}
    for entry in PAGES:
        window.show_page(entry.key)
        qtbot.waitUntil(lambda: not context.jobs.jobs and window.shown_page.state != "busy", timeout=PATIENCE_MS)
        monitor = GapMonitor(50)
        monitor.start()
        qtbot.wait(IDLE_MS)
        if gaps := monitor.stop():
            found[entry.key] = told(gaps)
    assert found == {}, "\n".join(f"{key}: {text}" for key, text in found.items())


@pytest.mark.slow
@pytest.mark.timing
@pytest.mark.timeout(240)
def test_it_answers_within_150_ms_while_a_search_runs(qtbot, open_window, context):
    window = open_window()
    window.open_sample()
    window.show_page("optimize")
    qtbot.waitUntil(lambda: not context.jobs.jobs, timeout=PATIENCE_MS)
    monitor = GapMonitor(150)
    monitor.start()
    window.book["optimize.start"].shown.trigger()
    assert context.jobs.jobs
    qtbot.wait(SEARCHED_MS)
    assert context.jobs.jobs
    window.cancel_jobs()
    qtbot.waitUntil(lambda: not context.jobs.jobs, timeout=PATIENCE_MS)
    gaps = monitor.stop()
    assert gaps == (), f"load {os.getloadavg()[0]:.1f}\n{told(gaps)}"


@pytest.mark.slow
def test_a_job_killed_from_outside_is_told_and_the_app_goes_on(qtbot, open_window, context):
    import psutil

    window = open_window()
    window.open_sample()
    window.show_page("optimize")
    qtbot.waitUntil(lambda: not context.jobs.jobs, timeout=PATIENCE_MS)
    window.book["optimize.start"].shown.trigger()
    job = context.jobs.jobs[0]
    with qtbot.waitSignal(job.event_received, timeout=PATIENCE_MS):
        pass
    with qtbot.waitSignal(job.ended, timeout=PATIENCE_MS) as ended:
        psutil.Process(job.pid).kill()
    assert ended.args[0].how == "crashed"
    assert "killed from outside" in ended.args[0].what
    assert window.shown_page.state == "error" or window.isVisible()
    window.log.flush()
    assert any("killed from outside" in line.text for line in window.log.model.shown)
    assert not window.book["optimize.start"].why_not()
