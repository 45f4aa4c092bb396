"""The page with the real command line behind it."""

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import numpy as np
import psutil
import pytest
from PySide6.QtCore import QModelIndex

from edgeopt.bundle.read import read_bundle
from edgeopt.commands.export.export import FORMATS
from edgeopt.data.demo import DATA, MODEL
from edgeopt.errors import signal_name
from edgeopt.views.outcome import headline
from edgeopt_gui.agents.deploy_dialog import DeployDialog
from edgeopt_gui.context import ComparePair
from edgeopt_gui.jobs.ending import Ending
from edgeopt_gui.pages.optimize.board import Row
from edgeopt_gui.pages.optimize.choices import Choices
from edgeopt_gui.pages.optimize.optimize_page import NEXT_STEPS, SAVE_NEXT, UNSAVED
from edgeopt_gui.pages.optimize.page import ENTRY
from edgeopt_gui.pages.optimize.places import shown_path
from edgeopt_gui.pages.optimize.run import Order, Run
from edgeopt_gui.subject import Subject

SEARCH_MS = 60_000


@pytest.fixture
def page(open_page, context):
    context.settings.keep("optimize.time-limit-s", 5)
    return open_page(ENTRY)


@pytest.fixture
def ready(page, context):
    context.open(Subject(MODEL, "model"))
    context.use_data(DATA)
    return page


def why_not(page, key):
    return next(action for action in ENTRY.actions if action.key == key).why_not(page)


def children(job):
    """The job and all that it started."""
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(job.pid)
        return [process, *process.children(recursive=True)]
    return []


def start(page, context, qtbot):
    with qtbot.waitSignal(context.jobs.started) as started:
        page.start()
    (job,) = started.args
    return job


def test_without_a_model_there_is_a_sentence_and_a_button(page):
    assert page.state == "empty"
    assert why_not(page, "optimize.start") == "Open a model first."
    assert page.command() is None


def test_a_bundle_is_not_optimized_again(page, context, bundle):
    context.open(Subject(bundle, "bundle"))
    assert page.state == "empty"
    assert "Open the model" in page._empty.sentence.text()
    assert page._empty.button.key == "app.open-source"
    assert "optimized already" in why_not(page, "optimize.start")


def test_the_command_line_follows_the_settings(ready, context):
    assert f"--data {shlex.quote(str(DATA))}" in ready.command_line.text()
    ready.panel.accuracy.budgets["balanced"].click()
    assert "--floor balanced" in ready.command_line.text()
    assert ready.command().line == ready.command_line.text()
    ready.clear_data()
    assert "--data" not in ready.command_line.text()


def test_data_beside_the_model_is_offered(page, context, tmp_path):
    assert "no other .npz" in why_not(page, "optimize.use-beside")
    model = tmp_path / "model.onnx"
    shutil.copy(MODEL, model)
    context.open(Subject(model, "model"))
    assert not page.panel.data._offer.isVisible()
    shutil.copy(DATA, tmp_path / "model.npz")
    context.open(Subject(model, "model"))
    assert "model.npz is in the folder of the model" in page.panel.data.use.text()
    assert page.panel.data._offer.isVisible()
    page.panel.data._offer.click()
    assert context.data == tmp_path / "model.npz"
    assert not page.panel.data._offer.isVisible()
    assert why_not(page, "optimize.use-beside")


def test_the_targets_of_this_device_come_by_themselves(qtbot, page):
    qtbot.waitUntil(lambda: page.panel.target.count() > 3, timeout=60_000)
    assert page.panel.target.itemText(0).startswith("Automatic (")


@pytest.mark.slow
def test_a_search_from_start_to_the_saved_bundle(qtbot, ready, context, tmp_path):
    start(ready, context, qtbot)
    assert ready.state == "busy"
    assert "running" in why_not(ready, "optimize.start")
    assert not ready.panel.fields.isEnabled()
    assert why_not(ready, "optimize.save") == "There is no bundle yet."
    qtbot.waitUntil(lambda: ready.view.candidates.records.rowCount() > 2, timeout=SEARCH_MS)
    assert ready.view.standing.line.text() != "Starting"
    # Another page and another model in between: nothing is lost, and the page says what it shows.
    ready.left()
    context.open(Subject(tmp_path / "other.onnx", "model"))
    assert "This search is about digits_cnn.onnx; other.onnx is open now." in ready.view.about.text()
    with qtbot.waitSignal(context.bundle_changed, timeout=SEARCH_MS):
        pass
    context.open(Subject(MODEL, "model"))
    assert not ready.view.about.isVisible()
    assert ready.state == "content"
    result = ready._run.result
    assert ready.view.verdict.headline.text() == headline(result)
    kept = result.winner == result.baseline
    assert ("runs your model unchanged" if kept else "interleaved rounds") in ready.view.verdict.proof.text()
    names = {row.name for row in ready.view.candidates.records.shown}
    assert {report.candidate.name for report in result.candidates} <= names
    # Saved, exported, watched.
    with qtbot.waitSignal(context.bundle_changed):
        ready.delivery.save_to(tmp_path / "mine.edgeopt")
    assert context.bundle == tmp_path / "mine.edgeopt"
    assert read_bundle(context.bundle).deployment.source.name == MODEL.name
    qtbot.waitUntil(lambda: "Saved as" in ready.view.verdict.note.text())
    ready.delivery.export_to(tmp_path / "deployment.toml")
    qtbot.waitUntil(lambda: "Exported" in ready.view.verdict.note.text())
    assert (tmp_path / "deployment.toml").read_bytes() == (context.bundle / "deployment.toml").read_bytes()
    with qtbot.waitSignal(context.page_requested) as wanted:
        ready.delivery.watch_live()
    assert wanted.args == ["live"]
    # A save that cannot be is said beside the buttons, and the bundle stays.
    (tmp_path / "papers").mkdir()
    (tmp_path / "papers" / "thesis.txt").write_text("precious")
    ready.delivery.save_to(tmp_path / "papers")
    qtbot.waitUntil(lambda: "is not a bundle" in ready.view.verdict.note.text())
    assert context.bundle == tmp_path / "mine.edgeopt"


@pytest.mark.slow
def test_a_cancelled_search_leaves_no_process_and_no_file(qtbot, ready, context, cache):
    job = start(ready, context, qtbot)
    qtbot.waitUntil(lambda: ready.view.candidates.records.rowCount() > 0, timeout=SEARCH_MS)
    family = children(job)
    assert len(family) > 1
    with qtbot.waitSignal(job.ended, timeout=60_000):
        ready.cancel()
        assert "stopping already" in why_not(ready, "optimize.cancel")
    assert psutil.wait_procs(family, timeout=60)[1] == []
    assert ready.state == "content"
    assert ready.view.standing.line.text() == "Cancelled; nothing was changed."
    assert ready.view.candidates.records.rowCount() > 0
    assert why_not(ready, "optimize.start") == ""
    assert ready.panel.fields.isEnabled()
    ready._background.wait()
    assert list((cache / "edgeopt" / "searches").iterdir()) == []


def test_a_search_killed_from_outside_is_said_and_can_be_started_again(qtbot, ready, context):
    job = start(ready, context, qtbot)
    qtbot.waitUntil(lambda: ready.view.standing.line.text() != "Starting", timeout=SEARCH_MS)
    with qtbot.waitSignal(job.ended, timeout=60_000):
        os.kill(job.pid, signal.SIGKILL)
    assert ready.state == "error"
    assert signal_name(signal.SIGKILL) in ready.failure.sentence.text()
    assert why_not(ready, "optimize.start") == ""


def test_data_that_does_not_fit_is_said_beside_the_settings(qtbot, ready, context, tmp_path):
    np.savez(tmp_path / "flat.npz", image=np.zeros((32, 1024), np.float32))
    context.use_data(tmp_path / "flat.npz")
    job = start(ready, context, qtbot)
    with qtbot.waitSignal(job.ended, timeout=SEARCH_MS):
        pass
    assert ready.state == "error"
    assert "2 dimensions [32, 1024]" in ready.failure.sentence.text()
    assert "exit code 3" in ready.failure._details.toPlainText()
    # Other data, and the way is free again.
    ready.use_data(DATA)
    assert why_not(ready, "optimize.start") == ""


def test_data_that_is_none_cannot_be_started_with(qtbot, ready, context, tmp_path):
    (tmp_path / "d.npz").write_text("no archive")
    with qtbot.waitSignal(ready.panel.data.counted):
        context.use_data(tmp_path / "d.npz")
    assert "not a .npz archive" in why_not(ready, "optimize.start")


@pytest.mark.slow
def test_a_broken_model_is_one_sentence(qtbot, ready, context, tmp_path):
    (tmp_path / "broken.onnx").write_bytes(b"\x08\x08 no model")
    context.open(Subject(tmp_path / "broken.onnx", "model"))
    job = start(ready, context, qtbot)
    with qtbot.waitSignal(job.ended, timeout=SEARCH_MS):
        pass
    assert ready.state == "error"
    assert "broken.onnx" in ready.failure.sentence.text()


def test_no_place_for_the_bundle_is_said_before_anything_runs(ready, context, cache):
    shutil.rmtree(cache, ignore_errors=True)
    cache.write_text("a file in the way")
    before = context.jobs.jobs
    ready.start()
    assert ready.state == "error"
    assert "cannot be written to" in ready.failure.sentence.text()
    assert context.jobs.jobs == before


def test_a_missing_extra_says_how_to_install_it(ready, qtbot, context):
    job = start(ready, context, qtbot)
    what = "Optimizing a model needs the 'optimize' extra, which is not installed."
    hint = "Install it with: pip install onnx onnx-ir onnxscript nncf scipy"
    ready._ended(ready._run, Ending("failed", {}, what, hint))
    assert ready.failure.sentence.text() == what
    assert ready.failure.next_step.text() == hint
    job.cancel()


def test_a_search_that_is_cancelled_does_not_take_the_result_before_away(qtbot, ready, context, result, tmp_path):
    before = Run(MODEL, tmp_path / "before.edgeopt", ready.command(), job=None, result=result)
    ready._runs[MODEL] = before
    context.open(Subject(MODEL, "model"))
    assert ready.view.verdict.headline.text() == headline(result)
    face = next(action for action in ENTRY.actions if action.key == "optimize.start").face
    assert face(ready).title == "Search again"
    job = start(ready, context, qtbot)
    assert ready.state == "busy"
    assert face(ready) is None
    with qtbot.waitSignal(job.ended, timeout=60_000):
        ready.cancel()
    assert ready.state == "content"
    assert ready.view.verdict.isVisible()
    assert "cancelled" in ready.view.verdict.note.text()
    assert face(ready).title == "Resume the search"


@pytest.mark.parametrize("verdict", ["faster", "undecided", "keep what you have"])
def test_a_result_names_the_next_step_and_where_its_bundle_lies_until_it_is_saved(ready, found, tmp_path, verdict):
    run = Run(MODEL, tmp_path / "digits.edgeopt", ready.command(), job=None)
    ready._run = ready._runs[MODEL] = run
    ready._ended(run, Ending("done", {**found, "verdict": verdict}))
    step = SAVE_NEXT if verdict == "faster" else NEXT_STEPS[verdict]
    assert ready.view.verdict.note.text() == f"{step} {UNSAVED} {tmp_path / 'digits.edgeopt'}"
    assert shown_path(Path.home() / ".cache" / "digits.edgeopt") == "~/.cache/digits.edgeopt"


@pytest.fixture
def searched(ready, context, result, tmp_path):
    """The page with the result of an earlier search of this session, in which one candidate did not win."""
    order = Order(MODEL, DATA, None, Choices("balanced", time_limit_s=5))
    run = Run(MODEL, tmp_path / "before.edgeopt", order.shown(), job=None, result=result, order=order)
    run.board.finish(result)
    run.board.rows["other"] = Row("other", "lost", trade="Instead of the winner: 0.90x the speed.")
    ready._runs[MODEL] = run
    context.open(Subject(MODEL, "model"))
    return ready


def test_another_candidate_is_delivered_with_the_settings_of_its_search(qtbot, searched, context):
    # Where another one looked faster in the race, the winner's row is chosen, which tells why it won.
    searched.view.candidates.table.setCurrentIndex(QModelIndex())
    assert why_not(searched, "optimize.pick") == "Choose a candidate in the table first."
    winner = next(row.name for row in searched.view.candidates.records.shown if row.leads)
    searched.view.candidates.table.pick(winner)
    assert "cannot be delivered instead" in why_not(searched, "optimize.pick")
    searched.view.candidates.table.pick("other")
    assert why_not(searched, "optimize.pick") == ""
    with qtbot.waitSignal(context.jobs.started) as started:
        searched.pick()
    (job,) = started.args
    assert "--pick other" in job.command.line
    assert "--floor balanced" in job.command.line
    assert "other" in searched.view.standing.detail.text()
    # No such search is kept: that is said beside what was found, which stays.
    with qtbot.waitSignal(job.ended, timeout=SEARCH_MS):
        pass
    assert searched.view.verdict.isVisible()
    assert "The other candidate was not delivered. There is no search cache" in searched.view.verdict.note.text()
    assert "Search first" in searched.view.verdict.note.text()


def test_to_measure_again_takes_nothing_from_the_cache(qtbot, searched, context):
    with qtbot.waitSignal(context.jobs.started) as started:
        searched.measure_again()
    (job,) = started.args
    assert job.command.line.endswith("--fresh")
    assert "--floor balanced" in job.command.line
    with qtbot.waitSignal(job.ended, timeout=60_000):
        searched.cancel()


def test_an_undecided_search_with_warnings_fits_into_the_smallest_window(searched):
    long = "All samples are alike: what is proved on them is not proved for inputs that are much quieter. " * 2
    run = searched._run
    run.result = msgspec.structs.replace(
        run.result, verdict="undecided", undecided=("too noisy to tell",), warnings=(long,) * 5
    )
    searched._show_run()
    window = searched.window()
    window.resize(1000, 640)
    assert window.minimumSizeHint().height() <= 640


def test_to_search_longer_takes_twice_the_time(qtbot, searched, context):
    with qtbot.waitSignal(context.jobs.started) as started:
        searched.search_longer()
    (job,) = started.args
    assert "--time-limit 10" in job.command.line
    with qtbot.waitSignal(job.ended, timeout=60_000):
        searched.cancel()


@pytest.mark.slow
def test_a_search_stopped_before_it_has_anything_ends_as_if_cancelled(qtbot, ready, context):
    assert why_not(ready, "optimize.stop") == "No search is running."
    job = start(ready, context, qtbot)
    assert why_not(ready, "optimize.stop") == ""
    with qtbot.waitSignal(job.event_received, timeout=SEARCH_MS):
        pass
    with qtbot.waitSignal(job.ended, timeout=SEARCH_MS) as ended:
        ready.stop()
        assert "being proved" in why_not(ready, "optimize.stop")
    assert ended.args[0].how == "cancelled"
    assert ready.state == "content"


def test_a_wrong_field_is_said_before_anything_runs(qtbot, ready):
    qtbot.waitUntil(lambda: bool(ready.delivery.formats), timeout=SEARCH_MS)
    ready.panel.limits.fields["max_memory_mib"].setText("-1")
    assert "not a possible limit" in why_not(ready, "optimize.start")
    ready.panel.limits.fields["max_memory_mib"].clear()
    assert why_not(ready, "optimize.start") == ""


def test_what_runs_today_and_the_sizes_are_of_one_model(ready, context, tmp_path, conv_bundle):
    ready.panel.today.set(conv_bundle)
    assert f"--baseline {conv_bundle}" in ready.command_line.text()
    assert why_not(ready, "optimize.clear-today") == ""
    ready.panel.sizes.line.setText("seq=16:32:128; batch=1,4")
    assert "--shape seq=16:32:128 --shape batch=1,4" in ready.command_line.text()
    context.open(Subject(tmp_path / "other.onnx", "model"))
    assert ready.panel.today.path is None
    assert "--baseline" not in ready.command_line.text()
    assert "--shape" not in ready.command_line.text()


@pytest.mark.slow
def test_a_plan_for_another_device_stands_beside_the_search(qtbot, ready, context, tmp_path):
    assert why_not(ready, "optimize.plan") == ""
    ready.planner.start(ready._order, tmp_path / "no-record.json", tmp_path / "out.edgeopt")
    assert ready.planner.view.isVisible()
    assert "--device" in ready.command_line.text()
    ready.planner.view.left.emit()
    assert ready.welcome.isVisible()
    # That it failed disturbs nobody who looks at something else.
    qtbot.waitUntil(lambda: why_not(ready, "optimize.plan") == "", timeout=SEARCH_MS)
    assert ready.welcome.isVisible()


def test_the_forms_of_an_export_are_offered_by_their_titles(qtbot, searched):
    qtbot.waitUntil(lambda: bool(searched.delivery.formats), timeout=SEARCH_MS)
    menu = searched.delivery.menu(searched)
    texts = [action.text() for action in menu.actions() if action.text()]
    assert texts[0] == "The model alone as ONNX…"
    assert len(texts) == len(FORMATS) + 1


def test_neither_numpy_nor_the_search_is_imported_before_the_first_window():
    slow = ("numpy", "edgeopt.backends", "edgeopt.bundle.read", "edgeopt_gui.pages.optimize.result")
    check = f"import sys, edgeopt_gui.application; print([m for m in {slow} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_winner_is_compared_with_the_source_and_the_data_of_the_search(ready, context, tmp_path, won):
    assert why_not(ready, "optimize.compare") == "There is no bundle yet."
    order = Order(MODEL, DATA, None, Choices())
    ready._run = Run(MODEL, tmp_path, order.shown(), None, result=won, order=order)
    assert why_not(ready, "optimize.compare") == ""
    asked = []
    context.page_requested.connect(asked.append)
    context.compare_requested.connect(asked.append)
    next(action for action in ENTRY.actions if action.key == "optimize.compare").run(ready)
    assert asked == ["compare", ComparePair(MODEL, tmp_path, DATA)]


def test_the_winner_is_deployed_with_its_figures(ready, context, tmp_path, won):
    assert why_not(ready, "optimize.deploy") == "There is no bundle yet."
    order = Order(context.subject.path, None, None, Choices())
    ready._run = Run(order.model, tmp_path / "conv.edgeopt", order.shown(), None, result=won, order=order)
    next(action for action in ENTRY.actions if action.key == "optimize.deploy").run(ready)
    dialog = ready.findChild(DeployDialog)
    assert dialog.deployer.bundle == tmp_path / "conv.edgeopt"
    assert dialog._figures == (("Memory added", "20 MiB; source model 22 MiB"),)


def test_another_place_is_offered_where_the_bundle_cannot_be_saved(qtbot, ready, context, tmp_path, won, bundle):
    order = Order(context.subject.path, None, None, Choices())
    ready._run = Run(order.model, bundle, order.shown(), None, result=won, order=order)
    ready._show_run()
    verdict = ready.view.verdict
    assert verdict.retry.isHidden()
    ready.delivery.save_to(tmp_path / "missing" / "conv.edgeopt")
    qtbot.waitUntil(lambda: not verdict.retry.isHidden())
    assert "does not exist" in verdict.note.text()
    assert "disk" not in verdict.note.text()
    assert verdict.retry.key == "optimize.save"
    ready.delivery.save_to(tmp_path / "conv.edgeopt")
    qtbot.waitUntil(lambda: verdict.note.text().startswith("Saved as"))
    assert verdict.retry.isHidden()
