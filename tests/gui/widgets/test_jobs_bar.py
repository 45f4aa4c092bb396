import os
import re
import signal
import time
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from PySide6.QtCore import QPoint, Qt, QTimer
from PySide6.QtTest import QAbstractItemModelTester
from PySide6.QtWidgets import QApplication, QDialogButtonBox, QFileDialog

from edgeopt.data.demo import DATA, MODEL
from edgeopt.events import Progress
from edgeopt_gui.actions.action import Action
from edgeopt_gui.jobs.command import Command
from edgeopt_gui.jobs.runner import JobRunner
from edgeopt_gui.pages import PAGES
from edgeopt_gui.pages.base import Entry, Page
from edgeopt_gui.pages.live.page import ENTRY as LIVE
from edgeopt_gui.pages.optimize.board import Board
from edgeopt_gui.pages.optimize.standing import Standing
from edgeopt_gui.subject import Subject
from edgeopt_gui.theme.scheme import is_dark
from edgeopt_gui.widgets import dialogs, jobs_bar
from edgeopt_gui.widgets.jobs_bar import JobsBar
from edgeopt_gui.widgets.palette import CHOICE_ROLE, Palette
from edgeopt_gui.widgets.recent_files import RecentFiles
from edgeopt_gui.widgets.settings_dialog import AGENT_URL, BUDGET, CONFIRM_QUIT, TIME_LIMIT_S, SettingsDialog

PATIENCE_MS = 60_000


@pytest.fixture
def runner(qapp):
    made = JobRunner()
    yield made
    made.close()


@pytest.fixture
def bar(qtbot, runner, monkeypatch):
    monkeypatch.setattr(jobs_bar, "_TICK_MS", 20)
    made = JobsBar(runner)
    qtbot.addWidget(made)
    return made


def search(tmp_path, name):
    out = str(tmp_path / f"{name}.edgeopt")
    return Command(f"Optimizing {name}", ("optimize", str(MODEL), "--data", str(DATA), "-o", out))


def test_it_tells_where_the_newest_job_stands_and_cancels_it(qtbot, bar, runner, tmp_path):
    assert not bar.isVisible()
    job = runner.run(search(tmp_path, "a"))
    qtbot.waitUntil(lambda: bar.isVisible() and "·" in bar.label.text(), timeout=PATIENCE_MS)
    assert bar.label.text().startswith("Optimizing a · ")
    assert "edgeopt optimize" in bar.label.toolTip()
    assert not bar.others.isVisible()
    with qtbot.waitSignal(job.ended, timeout=PATIENCE_MS) as ended:
        qtbot.keyClick(bar.cancel, Qt.Key.Key_Space)
        assert bar.label.text() == "Cancelling: Optimizing a"
        assert not bar.cancel.isEnabled()
    assert ended.args[0].how == "cancelled"
    assert not bar.isVisible()


@pytest.mark.slow
def test_others_are_cancelled_by_their_menu(qtbot, bar, runner, tmp_path):
    first = runner.run(search(tmp_path, "a"))
    runner.run(search(tmp_path, "b"))
    qtbot.waitUntil(bar.others.isVisible, timeout=PATIENCE_MS)
    assert bar.others.text() == "+1"
    action = bar.others.menu().actions()[0]
    assert action.text() == "Cancel: Optimizing a"
    with qtbot.waitSignal(first.ended, timeout=PATIENCE_MS):
        action.trigger()
    assert not bar.others.isVisible()
    assert bar.label.toolTip().startswith("Optimizing b")  # the label itself may be elided


@contextmanager
def silent(qtbot, job):
    """Stops a job before it tells anything, and cancels it afterwards."""
    os.kill(job.pid, signal.SIGSTOP)
    yield job
    os.kill(job.pid, signal.SIGCONT)
    job.cancel()
    qtbot.waitUntil(lambda: job.ending is not None, timeout=PATIENCE_MS)


@pytest.mark.cold
def test_a_search_with_a_time_limit_shows_how_much_of_it_has_passed(qtbot, bar, runner, tmp_path, monkeypatch):
    command = search(tmp_path, "a")
    limited = Command(command.title, (*command.arguments, "--time-limit", "100"))
    with silent(qtbot, runner.run(limited)):
        qtbot.waitUntil(bar.isVisible, timeout=PATIENCE_MS)
        began = time.monotonic()
        monkeypatch.setattr("edgeopt_gui.jobs.job.time", SimpleNamespace(monotonic=lambda: began + 50))
        qtbot.waitUntil(lambda: bar.bar.maximum() == 100 and bar.bar.value() in range(49, 54))
        assert bar.left.text() in {"about 49 s left", "about 50 s left"}
        monkeypatch.setattr("edgeopt_gui.jobs.job.time", SimpleNamespace(monotonic=lambda: began + 500))
        qtbot.waitUntil(lambda: bar.bar.maximum() == 0)  # how long it takes beyond the limit is not known


@pytest.mark.cold
def test_a_search_without_a_limit_of_its_own_takes_the_time_left_that_it_tells(qtbot, bar, runner, tmp_path):
    with silent(qtbot, runner.run(search(tmp_path, "a"))) as job:
        qtbot.waitUntil(bar.isVisible, timeout=PATIENCE_MS)
        assert bar.bar.maximum() == 0
        job.note(Progress("racing", time_left_s=1000.0))
        qtbot.waitUntil(lambda: bar.bar.maximum() == 100)
        job.note(Progress("racing", done=1, total=2, time_left_s=2000.0))
        assert job.left_s > 1900, "a search that takes longer says so in every phase"


@pytest.mark.cold
def test_time_left_with_a_total_is_that_of_a_phase_in_other_commands(qtbot, runner):
    command = Command("Quantizing", ("quantize", str(MODEL), "--time-limit", "3000", "-o", "none.onnx"))
    with silent(qtbot, runner.run(command)) as job:
        job.note(Progress("calibrating", done=1, total=2, time_left_s=50.0))
        assert job.left_s > 2000
        job._ends_s = None
        assert 0 < job.left_s <= 50
        job.note(Progress("writing"))
        assert job.left_s is None


@pytest.mark.cold
def test_the_status_bar_has_the_only_clock(qtbot, bar, runner, tmp_path):
    board, standing = Board(), Standing()
    qtbot.addWidget(standing)
    with silent(qtbot, runner.run(search(tmp_path, "a"))) as job:
        qtbot.waitUntil(bar.isVisible, timeout=PATIENCE_MS)
        for event in (Progress("racing", done=1, total=9, time_left_s=600.0), Progress("proving")):
            job.note(event)
            board.apply(event)
            standing.set(board, cancelling=False)
            qtbot.waitUntil(lambda: bar.left.text() == "about 10 min left", timeout=PATIENCE_MS)
            assert "left" not in standing.line.text()


@pytest.mark.cold
def test_job_without_news_for_ten_seconds_says_so(qtbot, bar, runner, tmp_path):
    with silent(qtbot, runner.run(search(tmp_path, "a"))) as job:
        job.note(Progress("screening"))
        bar.resize(1280, bar.height())
        job._received_s -= 12
        qtbot.waitUntil(lambda: re.fullmatch(r"No news for \d+ s: screening", bar.label.text()) is not None)
        assert "Optimizing a" in bar.label.toolTip()


BUSY = ("Other processes took 63 % of the cores.",)


@pytest.fixture
def window(open_window):
    return open_window()


def told(context, *looks):
    for bad in looks:
        context.quiet.take(bad)


def test_a_foreign_load_is_said_on_every_page_with_measured_figures(window, context, monkeypatch):
    for key in ("device", "graph", "optimize", "precision", "compare", "live"):
        window.show_page(key)
        page, banner = window.page(key), window.page(key).banner
        assert not banner.isVisible()
        told(context, BUSY, BUSY)
        assert not page.has_measured()
        assert not banner.isVisible(), f"nothing was measured on the page {key}"
        told(context, (), ())
        with monkeypatch.context() as patch:
            patch.setattr(banner, "_has_measured", lambda: True)
            told(context, BUSY, BUSY)
        assert banner.isVisible(), key
        assert banner.sentence.text() == "Not a good moment to measure: Other processes took 63 % of the cores."
        assert banner.button.text() == "Measure again when quiet"
        told(context, (), ())
        assert not banner.isVisible()


def test_the_page_model_measures_nothing(window):
    assert window.page("model").banner is None
    measuring = {entry.key for entry in PAGES if window.page(entry.key).banner is not None}
    assert measuring == {"device", "graph", "optimize", "precision", "compare", "live"}


def test_what_waits_measures_once_it_is_quiet(qtbot, window, context, monkeypatch):
    asked = []
    page = window.page("device")
    window.show_page("device")
    monkeypatch.setattr(page.banner, "_has_measured", lambda: True)
    monkeypatch.setattr(window.book, "_trigger", lambda bound: asked.append(bound.action.key))
    told(context, BUSY, BUSY)
    page.banner.button.click()
    assert page.banner.button.text() == "Do not wait"
    told(context, ())
    assert asked == []
    told(context, ())
    qtbot.waitUntil(lambda: asked == ["device.probe"])
    assert not page.banner.isVisible()
    told(context, BUSY, BUSY, (), ())
    assert asked == ["device.probe"], "it measures once"


def test_the_latest_files_are_a_button_each(qtbot, tmp_path):
    recent = RecentFiles()
    qtbot.addWidget(recent)
    recent.set([])
    assert not recent.isVisible()
    paths = [tmp_path / f"{k}.onnx" for k in range(9)]
    recent.set(paths)
    recent.show()
    assert [Path(button.toolTip()) for button in recent.buttons] == paths[:5]
    with qtbot.waitSignal(recent.chosen, timeout=1000) as chosen:
        qtbot.keyClick(recent.buttons[2], Qt.Key.Key_Space)
    assert chosen.args == [paths[2]]
    recent.set(paths[:1])
    assert len(recent.buttons) == 1


@pytest.fixture
def page(qtbot, context):
    made = Page(context)
    qtbot.addWidget(made)
    made.show()
    return made


def answer(with_it):
    """Deals with the dialog as soon as it is there."""

    def look():
        dialog = QApplication.activeModalWidget()
        if isinstance(dialog, QFileDialog):
            with_it(dialog)
        else:
            QTimer.singleShot(10, look)

    QTimer.singleShot(0, look)


def choose(path):
    def with_it(dialog):
        dialog.selectFile(str(path))
        dialog.done(QFileDialog.DialogCode.Accepted)

    answer(with_it)


def test_a_dialog_begins_in_the_folder_of_the_model_and_then_where_it_was_last(page, context, tmp_path):
    models, path, seen = tmp_path / "models", tmp_path / "a.npz", []
    models.mkdir()
    path.touch()
    context.open(Subject(models / "model.onnx", "model"))

    def look_and_leave(dialog):
        seen.append(Path(dialog.directory().absolutePath()))
        dialog.reject()

    answer(look_and_leave)
    assert dialogs.choose_file(page, "Choose data", dialogs.DATA, "data") is None
    choose(path)
    assert dialogs.choose_file(page, "Choose data", dialogs.DATA, "data") == path
    answer(look_and_leave)
    assert dialogs.choose_file(page, "Choose data", dialogs.DATA, "data") is None
    assert seen == [models, tmp_path]


def test_a_folder_and_a_place_to_save_are_chosen_too(page, tmp_path):
    choose(tmp_path)
    assert dialogs.choose_folder(page, "Open a bundle", "bundle") == tmp_path
    names = []

    def save(dialog):
        names.append(Path(dialog.selectedFiles()[0]).name)
        dialog.selectFile(str(tmp_path / "new.toml"))
        dialog.done(QFileDialog.DialogCode.Accepted)

    answer(save)
    chosen = dialogs.choose_save(page, "Export", "Profile (*.toml)", "toml", "deployment.toml")
    assert names == ["deployment.toml"]
    assert chosen == tmp_path / "new.toml"


@pytest.fixture
def settings_dialog_window(open_window):
    return open_window((LIVE,))


def opened(window):
    window.book["app.settings"].shown.trigger()
    return window.findChild(SettingsDialog)


def test_what_is_changed_is_kept_and_shown_again(settings_dialog_window, settings):
    dialog = opened(settings_dialog_window)
    dialog.theme.setCurrentText("Dark")
    assert is_dark()
    dialog.budget.setCurrentIndex(dialog.budget.findData("balanced"))
    dialog.limit.setValue(120)
    dialog.url.setText(" http://pi:8080 ")
    dialog.confirm.setChecked(False)
    dialog.close()
    assert settings.text("theme") == "dark"
    assert settings.text(BUDGET) == "balanced"
    assert settings.number(TIME_LIMIT_S, 0) == 120
    assert settings.text(AGENT_URL) == "http://pi:8080"
    assert not settings.flag(CONFIRM_QUIT, True)
    again = SettingsDialog(settings, settings_dialog_window)
    assert again.theme.currentText() == "Dark"
    assert again.budget.currentData() == "balanced"
    assert again.limit.value() == 120
    assert again.url.text() == "http://pi:8080"
    assert not again.confirm.isChecked()
    again.limit.setValue(again.limit.minimum())
    assert settings.number(TIME_LIMIT_S, -1) == 0, "edgeopt goes by the model's size"


def test_nonsense_in_the_file_becomes_the_default(settings_dialog_window, settings):
    for key in ("theme", BUDGET, TIME_LIMIT_S):
        settings.keep(key, "nonsense")
    dialog = SettingsDialog(settings, settings_dialog_window)
    assert dialog.theme.currentData() == "system"
    assert dialog.budget.currentData() == "transparent"
    assert dialog.limit.value() == dialog.limit.minimum()


def test_everything_can_be_reset(settings_dialog_window, settings):
    settings.keep("theme", "dark")
    settings.remember(MODEL)
    dialog = opened(settings_dialog_window)
    dialog.findChild(QDialogButtonBox).button(QDialogButtonBox.StandardButton.RestoreDefaults).click()
    assert settings.recent() == ()
    assert not is_dark()
    assert not dialog.isVisible()


def test_an_own_floor_is_not_passed_off_as_another_one(settings_dialog_window, settings):
    assert SettingsDialog(settings, settings_dialog_window).budget.findData("own") == -1
    settings.keep(BUDGET, "own")
    dialog = SettingsDialog(settings, settings_dialog_window)
    assert dialog.budget.currentText() == "Your own floor"


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
def palette_window(open_window):
    return open_window((PLAIN,))


def open_palette(qtbot, window):
    qtbot.keyClick(window, Qt.Key.Key_K, Qt.KeyboardModifier.ControlModifier)
    return window.findChild(Palette)


def type_in(qtbot, palette, text):
    qtbot.keyClicks(palette.line, text)


def test_it_opens_by_its_shortcut_finds_and_runs(qtbot, palette_window):
    palette = open_palette(qtbot, palette_window)
    QAbstractItemModelTester(palette.model, QAbstractItemModelTester.FailureReportingMode.Fatal)
    type_in(qtbot, palette, "bak")
    assert palette.current.title == "Bake a cake"
    assert palette.current.shortcut == "Ctrl+B"
    qtbot.keyClick(palette.line, Qt.Key.Key_Return)
    assert palette_window.page("plain").done == ["bake"]
    assert not palette.isVisible()


def test_what_cannot_be_done_says_why_and_stays(qtbot, palette_window):
    palette = open_palette(qtbot, palette_window)
    type_in(qtbot, palette, "fly")
    choice = palette.current
    assert choice.aside == "It has no wings."
    assert "It has no wings." in palette.view.currentIndex().data(Qt.ItemDataRole.AccessibleTextRole)
    qtbot.keyClick(palette.line, Qt.Key.Key_Return)
    assert palette_window.page("plain").done == []
    assert palette.isVisible()
    palette.close()


def test_a_reason_is_whole_where_the_window_has_room(qtbot, palette_window):
    palette_window.resize(2400, 800)
    palette = open_palette(qtbot, palette_window)
    type_in(qtbot, palette, "swim")
    metrics = palette.fontMetrics()
    texts = metrics.horizontalAdvance(f"Swim across{palette.current.reason}")
    assert palette.view.viewport().width() >= texts + 4 * metrics.height()
    palette.close()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_has_an_edge_and_a_shadow(qtbot, context, palette_window, theme):
    context.settings.keep("theme", theme)
    palette = open_palette(qtbot, palette_window)
    image = palette.grab().toImage()
    middle, frame = image.height() // 2, palette.frame.geometry()
    inside, edge = image.pixelColor(frame.left() + 4, middle), image.pixelColor(frame.left(), middle)
    assert abs(inside.lightness() - edge.lightness()) > 60
    near, far = image.pixelColor(frame.left() - 2, middle).alpha(), image.pixelColor(0, middle).alpha()
    assert near > 40 > far
    palette.close()


CALLED = (
    ("quantize", "app.go-precision"),
    ("sensitivity", "app.go-precision"),
    ("netron", "app.go-graph"),
    ("deploy", "optimize.deploy"),
    ("profile", "graph.measure"),
    ("benchmark", "app.measure-device"),
)


def test_it_finds_what_people_call_things(window):
    window.show_palette()
    palette = window.findChild(Palette)
    for typed, key in CALLED:
        palette.line.setText(typed)
        rows = [palette.model.index(row).data(CHOICE_ROLE) for row in range(palette.model.rowCount())]
        assert key in [row.bound.action.key for row in rows[:3]], typed
    palette.close()


def test_arrows_walk_and_escape_closes(qtbot, palette_window):
    palette = open_palette(qtbot, palette_window)
    first = palette.current
    qtbot.keyClick(palette.line, Qt.Key.Key_Down)
    assert palette.current is not first
    qtbot.keyClick(palette.line, Qt.Key.Key_Up)
    qtbot.keyClick(palette.line, Qt.Key.Key_Up)
    assert palette.current is first, "the ends hold"
    qtbot.keyClick(palette.line, Qt.Key.Key_Escape)
    assert not palette.isVisible()


def test_what_can_be_done_comes_first_and_nonsense_is_told(qtbot, palette_window):
    palette = open_palette(qtbot, palette_window)
    rows = [palette.model.index(row) for row in range(palette.model.rowCount())]
    reasons = [bool(row.data(CHOICE_ROLE).reason) for row in rows]
    assert reasons == sorted(reasons)
    type_in(qtbot, palette, "qqqq")
    assert palette.current is None
    assert not palette.view.isVisible()
    gap = (
        palette.nothing.mapTo(palette, QPoint()).y()
        - palette.line.mapTo(palette, palette.line.rect().bottomLeft()).y()
    )
    assert 0 < gap < 20, "the line stands below what was typed"
    assert palette.nothing.height() < 3 * palette.fontMetrics().height()
    qtbot.keyClick(palette.line, Qt.Key.Key_Return)
    assert palette.isVisible()
    palette.close()
