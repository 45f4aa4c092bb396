"""The page with the real command line behind it: watched, paused, exported, broken off, started again."""

import csv
import subprocess
import sys
import time

import pytest
from PySide6.QtCore import QCoreApplication, QEvent, Qt
from PySide6.QtGui import QImage
from PySide6.QtTest import QAbstractItemModelTester
from PySide6.QtWidgets import QAbstractSpinBox, QComboBox, QMessageBox

from edgeopt.events import Metric
from edgeopt_gui.agents.deploy_dialog import DeployDialog
from edgeopt_gui.jobs.command import Command
from edgeopt_gui.pages.live import page as live
from edgeopt_gui.pages.live.agent import Step
from edgeopt_gui.pages.live.situation import Situation, why_not_start
from edgeopt_gui.subject import Subject
from edgeopt_gui.widgets.ask_text import AskText

LONG_MS = 60_000


def why_not(page, key):
    action = next(each for each in live.ACTIONS if each.key == key)
    return action.why_not(page)


def test_without_anything_it_says_what_to_do(page):
    assert page.state == "empty"
    assert why_not(page, "live.start") == "Open a model or a bundle first, or connect to an agent."
    assert why_not(page, "live.csv") == "There are no samples yet: start watching first."
    assert why_not(page, "live.stop") == "Nothing is being watched."
    assert why_not(page, "live.deploy") == "There is no bundle yet: optimize a model, or open a bundle."
    assert why_not(page, "live.rollback") == "Connect to an agent first."
    assert page.command() is None


def test_the_charts_are_not_imported_before_they_are_needed():
    slow = ("pyqtgraph", "edgeopt_gui.plots.ring", "edgeopt_gui.pages.live.view")
    check = f"import sys, edgeopt_gui.pages; print([m for m in {slow} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


FIRST_ENTRY = """
import sys
from PySide6.QtCore import QSettings
from PySide6.QtWidgets import QApplication
from edgeopt_gui.context import Context
from edgeopt_gui.gaps import GapMonitor
from edgeopt_gui.pages.live.page import ENTRY
from edgeopt_gui.pages.live.readouts import NOTHING
from edgeopt_gui.settings import Settings
from edgeopt_gui.theme.apply import Theme
from edgeopt_gui.window import Window

app = QApplication([])
settings = Settings(QSettings(sys.argv[1], QSettings.Format.IniFormat))
theme, context = Theme(app, settings), Context(settings)
window = Window(context, (ENTRY,))
monitor = GapMonitor(150)
monitor.start()
window.show()
page = window.page("live")
print(page.state)
context.changed.connect(lambda: page.view is not None and app.quit())
app.exec()
print(page.state, [gap.stack for gap in monitor.stop()])
"""


@pytest.mark.timing
def test_the_window_answers_while_the_charts_are_imported(tmp_path):
    command = [sys.executable, "-c", FIRST_ENTRY, str(tmp_path / "settings.ini")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout.splitlines() == ["busy", "empty []"], done.stderr


def test_it_pauses_for_a_measurement_and_offers_to_resume(qtbot, watched, context, tmp_path):
    page = watched
    model = tmp_path / "no-such-model.onnx"
    job = context.jobs.run(Command("Optimizing m.onnx", ("optimize", str(model), "-o", str(tmp_path / "o"))))
    qtbot.waitUntil(lambda: not page._watcher.running)
    assert page.view.message.sentence.text().startswith("Paused ")
    assert "Optimizing m.onnx" in page.view.message.sentence.text()
    qtbot.waitUntil(lambda: job not in context.jobs.jobs)
    assert page.view.message.sentence.text() == "Paused for a measurement, which has ended: Optimizing m.onnx."
    assert "Paused" in page.view.state.text()
    assert page.view.message.again.isVisible()
    qtbot.waitUntil(lambda: page.view.message.again.text() == "Resume watching")
    page.view.message.again.click()
    assert page._watcher.running
    assert not page.view.message.isVisible()
    page.stop()


def test_a_mere_look_at_an_agent_gives_way_only_to_what_runs_alone(page, monkeypatch):
    page.url = "http://device:8080"
    stops = []
    monkeypatch.setattr(type(page._watcher), "running", True)
    monkeypatch.setattr(page._watcher, "stop", lambda: stops.append(True))
    assert not page._give_way(Command("Optimizing m.onnx", ("optimize", "m.onnx")))
    assert page._give_way(Command("Analyzing m.onnx", ("analyze", "m.onnx"), alone=True))
    assert stops == [True]


def test_nothing_is_watched_beside_a_measurement():
    now = Situation(start=Command("Watching", ("watch", "m.onnx")), measuring="Optimizing m.onnx")
    assert why_not_start(now) == "Watching would disturb a measurement: Optimizing m.onnx."


@pytest.mark.parametrize(
    ("line", "measures"),
    [
        ("optimize m.onnx -o o.edgeopt", True),
        ("bench m.onnx", True),
        ("optimize m.onnx -o o.edgeopt --device pi5.json", False),
        ("report o.edgeopt", False),
        ("watch m.onnx", False),
    ],
)
def test_only_what_takes_times_here_makes_the_watch_give_way(line, measures):
    assert Command("", tuple(line.split())).measures == measures


def test_curves_and_figures_move_until_it_is_paused_and_stopped(qtbot, watched):
    page = watched
    assert page.state == "content"
    assert page.command().arguments[0] == "watch"
    latency = page.session.history.rings["latency_ms"]
    chart = page.view.chart
    before, drawn = latency.count, len(chart.panels[0].plot.curve("latency_p50_ms"))
    qtbot.waitUntil(lambda: latency.count >= before + 10, timeout=LONG_MS)
    qtbot.waitUntil(lambda: len(chart.panels[0].plot.curve("latency_p50_ms")) >= drawn + 8, timeout=LONG_MS)
    names = {"latency_p50_ms", "latency_p99_ms", "process_memory_bytes", "device_memory_bytes", "load_percent"}
    assert names <= set(page.session.history.rings)
    shown = {panel.spec.title for panel in chart.panels if not panel.isHidden()}
    assert {"Latency", "Process memory"} <= shown
    assert not {"Tokens per second", "First token"} & shown
    shown = page.view.figures.text_of("p50")
    assert float(shown) > 0
    qtbot.waitUntil(lambda: page.view.figures.text_of("p50") != shown, timeout=LONG_MS)
    assert "Running" in page.view.state.text()
    # Paused it draws nothing and loses nothing.
    page.pause()
    page.view.chart.redraw()
    plot, before = page.view.chart.panels[0].plot, page.session.history.moments
    drawn = len(plot.curve("latency_p50_ms"))
    qtbot.waitUntil(lambda: page.session.history.moments > before + 5, timeout=LONG_MS)
    page.view.chart.redraw()
    assert len(plot.curve("latency_p50_ms")) == drawn
    qtbot.waitUntil(lambda: "Paused, " in page.view.state.text(), timeout=LONG_MS)
    page.pause()
    page.view.chart.redraw()
    assert len(plot.curve("latency_p50_ms")) > drawn
    # Stopped it keeps the curves and can be cleared.
    page.stop()
    qtbot.waitUntil(lambda: "Stopped" in page.view.state.text(), timeout=LONG_MS)
    assert page.state == "content"
    assert page.session.history.markers[-1].label == "stopped"
    page.clear()
    assert page.state == "empty"
    assert why_not(page, "live.start") == ""


def test_samples_and_charts_are_exported(qtbot, context, filled, tmp_path):
    page = filled
    moments = page.session.history.moments
    with qtbot.waitSignal(context.status_message, timeout=LONG_MS) as said:
        page.save_csv(tmp_path / "live.csv")
        assert why_not(page, "live.png") == "Another file is being written."
    assert "rows" in said.args[0]
    with (tmp_path / "live.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert len([row for row in rows if row["latency_ms"]]) == moments
    with qtbot.waitSignal(context.status_message, timeout=LONG_MS):
        page.save_png(tmp_path / "live.png")
    picture = QImage(str(tmp_path / "live.png"))
    assert picture.width() >= page.view.chart.width()
    assert picture.height() > page.view.chart.height()


def test_what_cannot_be_written_is_said(qtbot, context, filled, tmp_path):
    with qtbot.waitSignal(context.failed, timeout=LONG_MS) as failed:
        filled.save_csv(tmp_path / "nowhere" / "live.csv")
    assert "could not be written: No such file or directory" in failed.args[0].what
    assert why_not(filled, "live.csv") == ""


@pytest.mark.slow
def test_a_job_that_is_killed_is_stated_and_can_be_started_again(qtbot, context, watched):
    page = watched
    context.jobs.jobs[0].kill()
    qtbot.waitUntil(page.view.message.isVisible, timeout=LONG_MS)
    assert "killed from outside" in page.view.message.sentence.text()
    assert page.state == "content"
    moments = page.session.history.moments
    with qtbot.waitSignal(context.failed):
        qtbot.mouseClick(page.view.message.details, Qt.MouseButton.LeftButton)
    qtbot.keyClick(page.view.message.again, Qt.Key.Key_Space)
    qtbot.waitUntil(lambda: page.session.history.moments > moments + 3, timeout=LONG_MS)
    assert not page.view.message.isVisible()


@pytest.mark.slow
def test_another_rate_is_followed_at_once(qtbot, watched):
    page = watched
    page.view.rate.setValue(20.0)
    assert page.command().arguments[-2:] == ("--rate", "20")
    rate = "throughput_per_s"
    qtbot.waitUntil(lambda: 10 < page.session.history.latest.get(rate, 0) < 40, timeout=LONG_MS)
    assert [marker.label for marker in page.session.history.markers] == ["started digits_cnn.onnx"]


def test_what_is_no_model_is_an_error_with_a_way_on(qtbot, context, page, tmp_path):
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"no model")
    context.open(Subject(broken, "model"))
    page.start()
    qtbot.waitUntil(lambda: page.state == "error", timeout=LONG_MS)
    assert why_not(page, "live.start") == ""


def test_an_agent_that_is_not_there_is_an_error_with_a_way_on(qtbot, context, page):
    page.connect_to("127.0.0.1:9")
    qtbot.waitUntil(lambda: page.state == "error", timeout=LONG_MS)
    assert context.settings.text("agent.url") == "127.0.0.1:9"
    page.leave_agent()
    assert why_not(page, "live.disconnect") == "No agent is connected."


def test_the_address_of_an_agent_is_asked_for(qtbot, context, page):
    next(each for each in live.ACTIONS if each.key == "live.connect").run(page)
    dialog = page.findChild(AskText)
    assert dialog.field.text() == "http://127.0.0.1:8080"
    dialog.field.clear()
    qtbot.keyClicks(dialog.field, "127.0.0.1:9")
    qtbot.keyClick(dialog.field, Qt.Key.Key_Return)
    assert page.url == "127.0.0.1:9"


def test_the_model_and_the_bundle_can_be_chosen(qtbot, context, page, sample, conv_bundle):
    context.open(Subject(sample, "model"))
    context.use_bundle(conv_bundle)
    assert page.view.choice.count() == 2
    assert page.command_of_start().arguments == ("watch", str(conv_bundle))
    page.view.choice_changed.emit("model")
    assert page.command_of_start().arguments == ("watch", str(sample))


def test_the_table_of_deployments_is_a_sound_model(page):
    model = page.view.agent.steps
    QAbstractItemModelTester(model, QAbstractItemModelTester.FailureReportingMode.Fatal)
    model.set_rows([Step(1, "soaking", 1e9, "why"), Step(1, "committed", 1e9 + 1, "")])
    assert model.data(model.index(0, 1), Qt.ItemDataRole.DisplayRole) == "1  soaking"
    assert model.data(model.index(0, 1), Qt.ItemDataRole.ToolTipRole) == "1  soaking\nwhy"


def test_the_length_of_time_is_chosen(qtbot, filled):
    view = filled.view
    view.spans.setFocus()
    qtbot.keyClick(view.spans, Qt.Key.Key_Down)
    view.chart.redraw()
    begin, end = view.chart.shown
    assert view.chart.span.length_s == 300
    assert end - begin == pytest.approx(59.9), "it grows with what there is"
    qtbot.keyClick(view.chart, Qt.Key.Key_Plus)
    assert view.spans.currentIndex() == -1
    assert view.spans.placeholderText() == "42 s"
    assert why_not(filled, "live.follow") == "The charts already follow the newest sample."
    qtbot.keyClick(view.chart, Qt.Key.Key_Left)
    assert why_not(filled, "live.follow") == ""
    filled.view.chart.follow()
    assert view.chart.span.follows


def test_every_widget_has_a_name_for_screen_readers(page):
    for kind in (QComboBox, QAbstractSpinBox):
        assert all(each.accessibleName() for each in page.view.findChildren(kind))


def test_what_was_opened_last_is_what_is_watched(context, page, sample, conv_bundle, tmp_path):
    context.open(Subject(conv_bundle, "bundle"))
    context.open(Subject(sample, "model"))
    assert page.command_of_start().arguments == ("watch", str(sample))
    context.use_bundle(conv_bundle)
    assert page.command_of_start().arguments == ("watch", str(conv_bundle))


@pytest.mark.slow
def test_asked_for_from_another_page_it_begins_at_once(qtbot, context, page, sample):
    page.url = "http://127.0.0.1:9"
    context.open(Subject(sample, "model"))
    context.watch(sample)
    assert page.command().arguments == ("watch", str(sample))
    qtbot.waitUntil(lambda: page.session.history.moments > 2, timeout=LONG_MS)
    context.watch(sample)
    assert len(context.jobs.jobs) == 1


def test_a_failure_goes_with_what_failed(qtbot, context, page, sample, tmp_path):
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"no model")
    context.open(Subject(broken, "model"))
    page.start()
    qtbot.waitUntil(lambda: page.state == "error", timeout=LONG_MS)
    context.open(Subject(sample, "model"))
    assert page.state == "empty"


def test_paused_the_action_is_called_resume(filled):
    action = next(each for each in live.ACTIONS if each.key == "live.pause")
    assert action.face(filled) is None
    filled.pause()
    assert action.face(filled).title == "Resume"
    filled.pause()
    assert action.face(filled) is None


def test_paused_figures_and_histogram_stay_as_they_are(qtbot, page):
    def run(latency_ms, time_s):
        page.session.history.take(Metric("latency_p50_ms", latency_ms, samples=(latency_ms,)), time_s)
        page.view.touch()

    begin = time.time()
    for moment in range(20):
        run(1.0, begin + moment / 100)
    page.view.chart.redraw()
    page._show_figures()
    page.view.runs.show()
    page.pause()
    shown = page.view.figures.text_of("p50"), page.view.strip.title.text(), page.view.strip.percentiles.text()
    assert shown[:2] == ("1.00", "20 runs by latency, ms")
    assert "p99 of 20 runs 1.00 ms" in shown[2]
    run(5.0, begin + 1)
    page._show_figures()
    page.view.runs.show()
    now = page.view.figures.text_of("p50"), page.view.strip.title.text(), page.view.strip.percentiles.text()
    assert now == shown
    page.pause()
    page.view.chart.redraw()
    page.view.runs.show()
    assert (page.view.figures.text_of("p50"), page.view.strip.title.text()) == ("5.00", "21 runs by latency, ms")


def test_header_names_what_is_watched(qtbot, watched, context, sample):
    subject = watched.window().header._subject
    assert subject.accessibleName() == sample.name
    watched.session.name = "the agent at http://device:8080"
    context.changed.emit()
    qtbot.waitUntil(lambda: subject.accessibleName() == "the agent at http://device:8080", timeout=LONG_MS)
    watched.stop()
    qtbot.waitUntil(lambda: subject.accessibleName() == sample.name, timeout=LONG_MS)


def test_stopped_while_paused_it_draws_to_the_end_and_cannot_be_paused(qtbot, watched):
    page = watched
    assert why_not(page, "live.start") == "A watch is running; stop it first."
    assert why_not(page, "live.stop") == ""
    assert why_not(page, "live.pause") == ""
    page.pause()
    page.stop()
    qtbot.waitUntil(lambda: not page._watcher.running, timeout=LONG_MS)
    assert page.paused_at is None
    assert not page.view.chart.frozen
    assert why_not(page, "live.pause") == "Nothing is being watched."
    assert why_not(page, "live.stop") == "Nothing is being watched."
    assert why_not(page, "live.start") == ""


@pytest.fixture
def with_agent(context, page, tmp_path):
    page.url = "device:8080"
    page.session.begin("the agent", page.url, time.time())
    now = {"state": "serving", "serving": {"release": "b1c2d3e4f5", "name": "old"}}
    page.session.agent.take_status({**now, "previous": {"release": "a0363d9f17"}})
    page._connected = True
    context.use_bundle(tmp_path / "digits.edgeopt")
    return page


def test_deploying_and_rolling_back_name_what_they_do_and_ask(qtbot, monkeypatch, context, with_agent):
    page, done = with_agent, []
    monkeypatch.setattr(live.LivePage, "roll_back", lambda _: done.append("roll back"))
    actions = {each.key: each for each in live.ACTIONS}
    assert actions["live.deploy"].face(page).title == "Deploy digits.edgeopt"
    assert actions["live.rollback"].face(page).title == "Roll back to a0363d"
    for button in ("Keep this release", "Roll back to a0363d"):
        actions["live.rollback"].run(page)
        box = page.findChild(QMessageBox)
        assert box.text() == "Roll back to a0363d at device:8080?"
        assert box.defaultButton().text() == "Keep this release"
        assert done == []
        qtbot.mouseClick(
            next(each for each in box.buttons() if each.text().replace("&", "") == button),
            Qt.MouseButton.LeftButton,
        )
        QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    assert done == ["roll back"]
    actions["live.deploy"].run(page)
    dialog = page.findChild(DeployDialog)
    assert dialog.windowTitle() == "Deploy digits.edgeopt"
    assert (dialog.url, dialog.agent.isEnabled()) == ("device:8080", False)
