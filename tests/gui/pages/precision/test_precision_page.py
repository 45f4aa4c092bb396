"""The page with the real command line behind it."""

import msgspec
import pytest
from PySide6.QtCore import Qt

from edgeopt.data.demo import DATA, MODEL
from edgeopt.graph.analysis import TensorFacts
from edgeopt.measure.stats import Interval
from edgeopt.quant.measured.records import AccuracyProof, File, Quantized
from edgeopt.quant.records import FrontierPoint, LayerVerdict, PrecisionPlan
from edgeopt_gui.jobs.ending import Ending
from edgeopt_gui.pages.graph.page import ENTRY as GRAPH
from edgeopt_gui.pages.model.page import ENTRY as MODEL_ENTRY
from edgeopt_gui.pages.precision.page import ENTRY
from edgeopt_gui.pages.precision.rows import LayerFacts, PlanReport
from edgeopt_gui.subject import Subject, subject_at

PLAN_MS = 120_000


@pytest.fixture
def page(open_page, context):
    context.settings.keep("precision.time-limit-s", 5)
    return open_page(ENTRY)


@pytest.fixture
def ready(page, context, qtbot):
    context.open(subject_at(MODEL))
    context.use_data(DATA)
    qtbot.waitUntil(lambda: page.settings.method.count() > 1 and not context.jobs.jobs)
    return page


def why_not(page, key):
    return next(action for action in ENTRY.actions if action.key == key).why_not(page)


def finish(qtbot, page):
    qtbot.waitUntil(lambda: page.state != "busy", timeout=PLAN_MS)


def test_without_a_model_there_is_a_sentence_and_a_button(page):
    assert page.state == "empty"
    assert page.command() is None
    assert why_not(page, "precision.start") == "Open a model first."


def test_a_bundle_is_not_planned_again(page, context, bundle):
    context.open(subject_at(bundle))
    assert page.state == "empty"
    assert page._empty.button.key == "app.open-source"
    assert "has its precision already" in why_not(page, "precision.start")


def test_the_layers_of_a_bundle_in_eight_bits_are_a_click_away(qtbot, open_window, context, bundle):
    window = open_window()
    context.open(subject_at(bundle))
    graph = window.page("graph")
    qtbot.waitUntil(lambda: graph.view.colouring is not None)
    window.show_page("precision")
    button = window.page("precision")._empty.other
    assert button.key == "app.see-precision"
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    assert window.shown_page is graph
    assert graph.view.colouring.key == "precision"


def test_the_command_line_follows_the_settings(ready, context, tmp_path):
    accuracy, method, backend = ready.settings.accuracy, ready.settings.method, ready.settings.backend
    report = ("quantize", str(MODEL), "--data", str(DATA), "--floor", "transparent", "--sensitivity")
    assert ready.command().arguments == (*report, "--time-limit", "5")
    accuracy.budgets["balanced"].setChecked(True)
    method.setCurrentIndex(method.findData("int8"))
    backend.setCurrentIndex(backend.findData("onnxruntime-cpu"))
    ready.settings.set_out(tmp_path / "digits.edgeopt")
    context.use_data(None)
    line = ready.command_line.text()
    for part in ("--method int8", "--floor balanced", "--backend onnxruntime-cpu", "digits.edgeopt"):
        assert part in line
    assert "--sensitivity" not in line
    assert "--data" not in line


def test_a_metric_with_its_limits_is_planned_for(ready):
    accuracy = ready.settings.accuracy
    accuracy.budgets["metric"].setChecked(True)
    accuracy.which.setCurrentIndex(accuracy.which.findData("max-error"))
    assert "needs a floor" in accuracy.problem.text()
    assert why_not(ready, "precision.start") == accuracy.problem.text()
    accuracy.which.setCurrentIndex(accuracy.which.findData("top1-labels"))
    accuracy.drop.setText("0.4%")
    accuracy.labels.setText("digit")
    accuracy.accept.setChecked(True)
    assert why_not(ready, "precision.start") == ""
    line = ready.command_line.text()
    assert "--metric top1-labels --max-drop 0.4% --accept-unproven-drop --labels digit" in line
    assert "--floor" not in line


def test_open_sizes_have_a_field_and_belong_to_one_model(ready, context, tmp_path):
    sizes = ready.settings.sizes
    assert not sizes.isHidden(), "the batch of the example is open"
    context.use_inputs((TensorFacts("ids", "int64", (1, 8)),))
    assert sizes.isHidden()
    context.use_inputs((TensorFacts("ids", "int64", (1, "length")),))
    assert not sizes.isHidden()
    sizes.line.setText("ids=1:8")
    assert "is not a shape" in why_not(ready, "precision.start")
    sizes.line.setText("ids=1x8; mask=1x8")
    assert "--shape ids=1x8 --shape mask=1x8" in ready.command_line.text()
    assert "is not a shape" not in why_not(ready, "precision.start")
    context.open(Subject(tmp_path / "other.onnx", "model"))
    assert "--shape" not in ready.command_line.text()


def test_methods_and_available_backends_are_offered(ready):
    methods = [ready.settings.method.itemData(i) for i in range(ready.settings.method.count())]
    backends = [ready.settings.backend.itemData(i) for i in range(ready.settings.backend.count())]
    assert methods[0] == "plan"
    assert "int8-dynamic" in methods
    assert backends[0] == ""
    assert "onnxruntime-cpu" in backends


def test_choices_are_remembered_and_reset(ready, context):
    ready.settings.set_floor(33.5)
    assert ready.settings.choices.floor == "33.5dB"
    assert context.settings.text("precision.budget") == "own"
    context.settings.reset()
    assert ready.settings.choices.floor == "transparent"
    assert ready.settings.choices.time_limit_s is None


@pytest.mark.slow
def test_a_plan_of_the_command_line_shows_each_layer_with_a_reason(qtbot, ready):
    ready.start()
    assert ready.state == "busy"
    assert why_not(ready, "precision.start") == "A plan is being made; cancel it first."
    finish(qtbot, ready)
    assert ready.state == "content"
    view = ready.view
    assert view.headline.text()
    assert any(line.startswith("Samples: ") for line in view.lines.text().splitlines())
    assert all(row.reason for row in view.layers.records.rows)
    assert view.index == view.report.chosen


def plan():
    """A plan with a point that was measured, and its proof."""
    measured = FrontierPoint({"a": "int8"}, 1.0, 44.0, 43.5, 42.07, 1.5)
    return Quantized(
        *("reported", "Faster.", str(MODEL), "plan", "onnxruntime-cpu", {}, None),
        plan=PrecisionPlan(
            *("onnxruntime-cpu", {}, 30.0, measured),
            frontier=(FrontierPoint({}, 1.5, 200.0), measured, FrontierPoint({"a": "w8", "b": "w8"}, 0.9, 31.0)),
            verdicts=(
                LayerVerdict("a", "int8", "int8: saves 500 µs, 44.0 dB alone", 0.5, 44.0),
                LayerVerdict("b", "float", "kept float: it is not a product with a weight matrix"),
            ),
        ),
        proof=AccuracyProof(132, True, 43.1, 41.9),
        speedup=Interval(1.5, 1.4, 1.6, 20),
    )


def test_the_slider_goes_over_the_plans_and_the_chosen_one_has_its_proof(ready):
    ready._ended(MODEL, Ending("done", msgspec.to_builtins(plan())))
    view, rows = ready.view, ready.view.layers.records
    assert (view.index, view.slider.maximum()) == (1, 2)
    assert (
        "Accuracy: 43.1 dB, lower bound for others 41.9 dB; on 132 samples not used before." in view.lines.text()
    )
    assert view.interval.isVisibleTo(view)
    assert [(row.name, row.scheme) for row in rows.rows] == [("a", "int8"), ("b", "float")]
    view.slider.setValue(0)
    assert view.point.text().startswith("Plan 1 of 3 · all layers float")
    assert all(row.stays_float for row in rows.rows)
    assert why_not(ready, "precision.floor-of-point").startswith("All layers are float")
    view.chart.clicked.emit(1)
    assert view.point.text().startswith("Plan 2 of 3, the chosen one · 1 int8")
    ready.use_floor_of_point()
    assert ready.settings.choices.floor == "42dB"


def test_a_cancelled_plan_leaves_nothing(qtbot, ready, context, tmp_path):
    ready.settings.set_out(tmp_path / "digits.edgeopt")
    ready.start()
    (job,) = context.jobs.jobs
    qtbot.waitUntil(lambda: job.progress is not None)
    ready.cancel()
    assert why_not(ready, "precision.cancel") == "The plan is stopping already."
    finish(qtbot, ready)
    assert ready.failure.sentence.text() == "Cancelled; nothing was changed."
    assert not (tmp_path / "digits.edgeopt").exists()


def quantized(outcome, *files):
    record = Quantized(
        outcome,
        "3 of 10 layers.",
        str(MODEL),
        "plan",
        "",
        {},
        None,
        files=tuple(File(str(file), 1) for file in files),
    )
    return Ending("done", msgspec.to_builtins(record))


def test_a_written_bundle_becomes_the_latest_one(ready, context, tmp_path):
    ready.settings.set_out(tmp_path / "digits.onnx")
    ready._ended(MODEL, quantized("written", tmp_path / "digits.onnx"))
    assert context.bundle is None
    ready.settings.set_out(tmp_path / "digits.edgeopt")
    ready._ended(MODEL, quantized("keep float"))
    assert context.bundle is None
    ready._ended(MODEL, quantized("written", tmp_path / "digits.edgeopt"))
    assert context.bundle == tmp_path / "digits.edgeopt"
    assert ready.view.headline.text() == "3 of 10 layers."


def test_a_click_on_a_layer_shows_it_in_the_graph(qtbot, open_window, context):
    window = open_window((ENTRY, MODEL_ENTRY, GRAPH))
    context.open(subject_at(MODEL))
    qtbot.waitUntil(lambda: bool(context.nodes))
    window.show_page("precision")
    page = window.page("precision")
    qtbot.waitUntil(lambda: not context.jobs.jobs)
    node = next(each for each in context.nodes if each.operator == "Conv")
    page._reports[MODEL] = PlanReport("Faster.", layers=(LayerFacts(node.name, "int8", "why", 40.0, 0.1),))
    page._show()
    table = page.view.layers
    with qtbot.waitSignal(context.node_picked) as picked:
        qtbot.mouseClick(
            table.viewport(),
            Qt.MouseButton.LeftButton,
            pos=table.visualRect(table.model().index(0, 0)).center(),
        )
    assert picked.args == [node.position]
    assert window.shown_page is window.page("graph")
