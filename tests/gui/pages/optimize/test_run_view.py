"""The tables of a search: what belongs to one tab is seen on that one alone."""

from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QFont, QFontMetrics
from PySide6.QtWidgets import QApplication, QLabel

from edgeopt import events
from edgeopt.commands.export.export import FORMATS
from edgeopt.data.demo import DATA, MODEL
from edgeopt.data.judging.metrics import METRICS
from edgeopt.measure.messages import Memory
from edgeopt.pipeline.objectives import OBJECTIVES
from edgeopt_gui.pages.optimize import phases, situation
from edgeopt_gui.pages.optimize.board import Row
from edgeopt_gui.pages.optimize.candidates import COLUMNS
from edgeopt_gui.pages.optimize.choices import METRIC, OWN_FUNCTION, Choices
from edgeopt_gui.pages.optimize.core import Problems, problems, vocabulary
from edgeopt_gui.pages.optimize.page import ENTRY
from edgeopt_gui.pages.optimize.phases import PHASES
from edgeopt_gui.pages.optimize.planner import Planner
from edgeopt_gui.pages.optimize.run import Order, Run
from edgeopt_gui.pages.optimize.run_view import RunView
from edgeopt_gui.pages.optimize.situation import Situation
from edgeopt_gui.pages.optimize.stepper import Stepper
from edgeopt_gui.pages.optimize.welcome import Welcome
from edgeopt_gui.pages.optimize.words import short_name
from edgeopt_gui.subject import Subject

MEMORY = Memory(peak_bytes=70 << 20, added_bytes=20 << 20)


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
    for button in view.verdict.buttons.values():
        button.setText("Compare with the source")
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


def test_every_phase_of_a_real_search_has_its_step(recorded):
    told = [event.phase for event in recorded if isinstance(event, events.Progress)]
    assert {phases.place_of(phase) for phase in told} >= {0, 1, 2, 3, 6}
    assert None not in map(phases.place_of, told)


def test_a_newer_phase_is_shown_by_its_own_name():
    assert phases.place_of("polishing") is None
    assert phases.progress_text(events.Progress("polishing")) == "Polishing"


def test_the_line_says_the_round_and_how_many_candidates_are_screened():
    line = phases.progress_text(events.Progress("racing", done=2, total=9, time_left_s=21.4))
    assert line == "Racing against your model · round 2 of 9", "the status bar has the only clock"
    screening = events.Progress("screening", "cleaned · onnxruntime-cpu")
    assert phases.progress_text(screening, 6) == "Screening 7 candidates · cleaned · onnxruntime-cpu"
    assert phases.progress_text(None) == "Starting"


def test_the_share_of_a_phase():
    assert phases.share_done(events.Progress("racing", done=3, total=9)) == 1 / 3
    assert phases.share_done(events.Progress("racing")) == 0
    assert phases.share_done(None) == 0


def test_each_phase_says_beforehand_what_will_happen_in_it(qtbot, context):
    welcome = Welcome()
    qtbot.addWidget(welcome)
    texts = [label.text() for label in welcome.findChildren(QLabel)]
    assert all(phase.plan.endswith(".") and phase.plan in texts and phase.short in texts for phase in PHASES)


def test_each_step_looks_different_and_is_described(qtbot, context):
    stepper = Stepper()
    qtbot.addWidget(stepper)
    stepper.resize(stepper.sizeHint())
    seen = set()
    for place in range(-1, len(PHASES)):
        stepper.set(place, 0.0)
        image = stepper.grab().toImage()
        seen.add(bytes(image.constBits()))
    assert len(seen) == len(PHASES) + 1
    assert stepper.accessibleDescription() == f"Step 7 of 7: {PHASES[-1].sentence}"


def test_how_much_of_a_phase_is_done_is_seen(qtbot, context):
    stepper = Stepper()
    qtbot.addWidget(stepper)
    stepper.resize(stepper.sizeHint())
    stepper.set(3, 0.25)
    quarter = bytes(stepper.grab().toImage().constBits())
    stepper.set(3, 0.75)
    assert bytes(stepper.grab().toImage().constBits()) != quarter


BOARD = Path(__file__).parents[3] / "fakeroots" / "raspberry-pi-5"
PATIENCE_MS = 60_000


@pytest.fixture
def planner(qtbot, context):
    made = Planner(context, None)
    qtbot.addWidget(made.view)
    return made


def order(model, **choices):
    return Order(model, None, None, Choices(**choices))


@pytest.mark.slow
def test_a_plan_says_that_nothing_was_measured_and_how_it_is_finished(
    qtbot, planner, context, conv_model, tmp_path
):
    wanted = order(conv_model, budget="balanced", max_memory_mib="64")
    with qtbot.waitSignal(planner.begun) as begun:
        planner.start(wanted, BOARD, tmp_path / "planned.edgeopt")
    assert begun.args[0].arguments[-4:] == ("--floor", "balanced", "--device", str(BOARD))
    assert planner.view.headline.text() == "Planning for another device"
    assert "being made" in planner.why_not(wanted)
    qtbot.waitUntil(lambda: not context.jobs.jobs, timeout=PATIENCE_MS)
    assert planner.view.headline.text() == "Planned for Cortex-A76, 4 cores"
    assert planner.view.summary.text().startswith("Predicted, not measured")
    assert "edgeopt replay planned.edgeopt" in planner.view.story.text()
    assert {row.status for row in planner.view.records.shown} >= {"chosen", "baseline"}
    assert (tmp_path / "planned.edgeopt" / "deployment.toml").is_file()
    assert planner.why_not(wanted) == ""


def test_what_is_no_record_is_a_sentence(qtbot, planner, conv_model, tmp_path):
    (tmp_path / "pi5.json").write_text("{}")
    with qtbot.waitSignal(planner.failed, timeout=PATIENCE_MS) as failed:
        planner.start(order(conv_model), tmp_path / "pi5.json", tmp_path / "planned.edgeopt")
    assert "pi5.json" in failed.args[0].what


def test_a_plan_holds_to_decibels_alone(planner, conv_model):
    assert "floors in dB" in planner.why_not(order(conv_model, budget=METRIC, value="99%"))


def test_intervals_are_readable_beside_open_settings(open_page, context, won, tmp_path):
    page = open_page(ENTRY)
    order = Order(MODEL, DATA, None, Choices("balanced"))
    run = Run(MODEL, tmp_path / "before.edgeopt", order.shown(), job=None, result=won, order=order)
    run.board.finish(won)
    for name in ("planned · openvino-cpu · threads=1", "source · openvino-cpu · precision=bf16 · threads=1"):
        run.board.rows[name] = Row(name, "lost", speedup=1.5, memory=MEMORY, size_bytes=90 << 10)
    page._runs[MODEL] = run
    context.open(Subject(MODEL, "model"))
    page.window().resize(1280, 800)
    page.settings.head.setChecked(True)
    QApplication.processEvents()
    table = page.view.candidates.table
    assert page.panel.isVisible()
    assert table.isVisible()
    titles = [column.title for column in COLUMNS]
    assert table.columnWidth(titles.index("Interval")) >= 150
    assert not any(table.isColumnHidden(titles.index(each)) for each in ("Memory added", "Size"))
    assert not table.horizontalScrollBar().isVisible()
    name = short_name("planned · openvino-cpu · threads=1")
    assert table.columnWidth(titles.index("Candidate")) >= table.fontMetrics().horizontalAdvance(name)


def test_folded_settings_leave_the_result_the_whole_width(open_page, context, won, tmp_path):
    page = open_page(ENTRY)
    order = Order(MODEL, DATA, None, Choices("balanced"))
    run = Run(MODEL, tmp_path / "before.edgeopt", order.shown(), job=None, result=won, order=order)
    run.board.finish(won)
    page._runs[MODEL] = run
    context.open(Subject(MODEL, "model"))
    page.window().resize(1024, 640)
    QApplication.processEvents()
    assert page.settings.geometry().bottom() <= page._right.geometry().top()
    titles = [column.title for column in COLUMNS]
    table = page.view.candidates.table
    bold = QFont(table.font())
    bold.setBold(True)
    texts = [row.short for row in table.records.rows if row.leads]
    assert len(texts) == 1
    assert table.columnWidth(titles.index("Outcome")) >= QFontMetrics(bold).horizontalAdvance(texts[0]) + 8
    page.settings.head.setChecked(True)
    QApplication.processEvents()
    assert page.settings.geometry().right() <= page._right.geometry().left()


NOTHING = Situation()
READY = Situation(opened="model")
RUNNING = replace(READY, search="running")
FOUND = replace(READY, found=True)
WON = Row("int8", "winner", "", trade="0.5x the speed")
FAILED = Row("int8", "failed", "it crashed")


@pytest.mark.parametrize(
    ("what", "now", "words"),
    [
        ("start", NOTHING, "Open a model first"),
        ("start", Situation(opened="bundle"), "optimized already"),
        ("start", READY, ""),
        ("start", replace(READY, problem="no floor"), "no floor"),
        ("start", RUNNING, "A search is running"),
        ("cancel", READY, "No search is running"),
        ("cancel", RUNNING, ""),
        ("cancel", replace(READY, search="stopping"), ""),
        ("cancel", replace(READY, search="cancelling"), "stopping already"),
        ("stop", READY, "No search is running"),
        ("stop", RUNNING, ""),
        ("stop", replace(RUNNING, can_stop=False), "can only be cancelled"),
        ("stop", replace(RUNNING, picking=True), "No search is running"),
        ("stop", replace(READY, search="stopping"), "being proved"),
        ("use", READY, "no bundle yet"),
        ("use", FOUND, ""),
        ("save", READY, "no bundle yet"),
        ("save", replace(FOUND, saving=True), "being saved"),
        ("save", FOUND, ""),
        ("hand", replace(FOUND, handing=True), "being made"),
        ("hand", FOUND, ""),
        ("measure_again", replace(FOUND, search="running"), "A search is running"),
        ("measure_again", READY, "no bundle yet"),
        ("measure_again", FOUND, ""),
        ("pick", FOUND, "Choose a candidate"),
        ("pick", replace(FOUND, row=FAILED), "cannot be delivered instead"),
        ("pick", replace(FOUND, row=WON), ""),
        ("pick", replace(READY, row=WON), "no bundle yet"),
        ("plan", replace(READY, plan_problem="A plan is being made"), "A plan is being made"),
        ("plan", NOTHING, "Open a model first"),
        ("plan", READY, ""),
        ("set", RUNNING, "with these settings"),
        ("set", READY, ""),
        ("clear_data", READY, "No data is chosen"),
        ("clear_data", replace(READY, has_data=True), ""),
        ("clear_data", replace(RUNNING, has_data=True), "with these settings"),
        ("clear_today", READY, "Nothing is chosen that runs today"),
        ("clear_today", replace(READY, has_today=True), ""),
    ],
)
def test_what_cannot_be_done_says_why(what, now, words):
    said = getattr(situation, f"why_not_{what}")(now)
    assert words in said
    assert bool(said) == bool(words)


def test_everything_that_the_core_knows_is_offered():
    words = vocabulary()
    assert [each.name for each in words.objectives] == [each.name for each in OBJECTIVES]
    assert [each.name for each in words.formats] == [each.name for each in FORMATS]
    assert {each.name for each in words.metrics} == {each.name for each in METRICS} - {"snr"}


def test_the_usual_choices_have_no_problem():
    assert problems(Choices()) == Problems()
    assert problems(Choices()).first == ""


@pytest.mark.parametrize(
    ("choices", "group", "said"),
    [
        (Choices(max_memory_mib="-3"), "limits", "'Memory at most' -3 is not a possible limit."),
        (Choices(max_size_mib="many"), "limits", "'many' is not a number."),
        (Choices(max_latency_ms="nan"), "limits", "'nan' is not a number."),
        (Choices(target_speedup="1"), "speedup", "A target of 1x is not a speed-up."),
        (Choices(METRIC, metric="top1"), "accuracy", "The metric 'top1' needs a floor or a maximum drop."),
        (Choices(METRIC, metric="top1-labels", max_drop="1"), "accuracy", "'Drop at most' 1 would be 100 points."),
        (Choices(METRIC, metric=OWN_FUNCTION, value="0.9"), "accuracy", "No function is given."),
        (Choices(METRIC, metric=OWN_FUNCTION, function="m.py:f"), "accuracy", "The metric needs a value"),
    ],
)
def test_what_is_wrong_is_said_of_its_field(choices, group, said):
    found = problems(choices)
    assert getattr(found, group).startswith(said)
    assert found.first == getattr(found, group)


def test_what_is_chosen_of_a_metric_counts_only_with_the_metric():
    assert problems(Choices("exact", metric="top1", max_drop="much")) == Problems()


def test_a_function_of_the_users_is_not_run_to_see_whether_it_is_there(tmp_path):
    (tmp_path / "own.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    own = Choices(METRIC, metric=OWN_FUNCTION, function=f"{tmp_path / 'own.py'}:judge", value="0.9")
    assert problems(own) == Problems()
    assert not (tmp_path / "ran").exists()


def test_the_actions_have_shortcuts_of_their_own():
    shortcuts = [action.shortcut for action in ENTRY.actions if action.shortcut]
    assert len(shortcuts) == len(set(shortcuts))
    assert {"Ctrl+Return", "Ctrl+D", "Ctrl+S", "Ctrl+E"} <= set(shortcuts)
    assert [action.key for action in ENTRY.actions if action.primary] == ["optimize.start"]
