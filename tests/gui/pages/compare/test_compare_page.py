"""The page with the real command line behind it."""

import hashlib
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from PySide6.QtCore import QMimeData, QPoint, Qt, QUrl
from PySide6.QtGui import QDropEvent

from edgeopt.data.demo import DATA, MODEL
from edgeopt_gui.agents.deploy_dialog import DeployDialog
from edgeopt_gui.context import ComparePair
from edgeopt_gui.pages.compare.page import ENTRY
from edgeopt_gui.pages.graph.page import ENTRY as GRAPH
from edgeopt_gui.pages.model.page import ENTRY as MODEL_ENTRY
from edgeopt_gui.subject import subject_at
from tests.bundle.runtime.decoder import long_weights, write_decoder

LONG_MS = 120_000


@pytest.fixture
def page(open_page, context):
    context.settings.keep("compare.time-limit-s", 1)
    return open_page(ENTRY)


@pytest.fixture
def ready(page, context, conv_model, conv_data, half_weights):
    context.open(subject_at(conv_model))
    context.use_data(conv_data)
    page.put(1, half_weights)
    return page


@pytest.fixture
def alike(page, conv_model, conv_bundle):
    """Two sides that are compared soon."""
    page.put(0, conv_model)
    page.put(1, conv_bundle)
    return page


def why_not(page, key):
    return next(action for action in ENTRY.actions if action.key == key).why_not(page)


def finish(qtbot, page):
    qtbot.waitUntil(lambda: page.state != "busy", timeout=LONG_MS)


def drop(window, *paths):
    mime = QMimeData()
    mime.setUrls([QUrl.fromLocalFile(str(path)) for path in paths])
    buttons, keys = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    window.dropEvent(QDropEvent(QPoint(300, 300), Qt.DropAction.CopyAction, mime, buttons, keys))


def test_without_a_model_it_offers_to_open_one(page):
    assert page.state == "empty"
    assert page.command() is None
    assert why_not(page, "compare.start").startswith("Side A is empty")


def test_the_open_model_is_side_a_and_the_latest_bundle_side_b(page, context, bundle):
    context.open(subject_at(MODEL))
    assert page.state == "content"
    assert page.head.fields[0].name.text() == MODEL.name
    assert "Side B is empty" in page.ready.sentence.text()
    context.use_bundle(bundle)
    assert (page.sides.first, page.sides.second) == (MODEL, bundle)
    assert why_not(page, "compare.start") == ""


def test_of_an_open_bundle_side_a_is_its_source_model(qtbot, page, context, bundle, conv_model, change_deployment):
    from edgeopt.bundle.deployment import SourceModel

    digest = hashlib.sha256(conv_model.read_bytes()).hexdigest()
    change_deployment(bundle, source=SourceModel("conv.onnx", digest, 1))
    source = shutil.copy(conv_model, bundle.parent / "conv.onnx")
    context.open(subject_at(bundle))
    qtbot.waitUntil(lambda: page.sides.first is not None)
    assert (page.sides.first, page.sides.second) == (source, bundle)
    assert "source model" in page.head.fields[0].what.text()


def test_a_source_model_that_is_not_found_is_asked_for(qtbot, page, context, bundle):
    context.open(subject_at(bundle))
    qtbot.waitUntil(lambda: "conv.onnx was not found: choose it" in page.head.fields[0].what.text())
    assert page.sides.second == bundle
    assert "Side A is empty" in why_not(page, "compare.start")


def test_sides_chosen_by_hand_stay_and_can_be_swapped(ready, context, conv_model, half_weights, bundle):
    context.use_bundle(bundle)
    assert ready.sides.second == half_weights
    ready.swap()
    assert (ready.sides.first, ready.sides.second) == (half_weights, conv_model)
    assert ready.head.fields[0].name.text() == half_weights.name


def test_what_is_dropped_on_the_page_becomes_a_side_but_data_does_not(page, context, half_weights, bundle):
    window = page.window()
    drop(window, MODEL, half_weights)
    assert (page.sides.first, page.sides.second) == (MODEL, half_weights)
    assert context.subject is None
    drop(window, bundle)
    assert (page.sides.first, page.sides.second) == (MODEL, bundle)
    context.open(subject_at(MODEL))
    drop(window, DATA)
    assert context.data == DATA


def test_a_comparison_from_start_to_end(qtbot, ready, bundle, conv_model):
    ready.start()
    assert ready.state == "busy"
    assert "running" in why_not(ready, "compare.start")
    assert why_not(ready, "compare.swap")
    view = ready.view
    places = {view.tabs.geometry().getRect()}
    ready.comparing.part_ended.connect(lambda _: places.add(view.tabs.geometry().getRect()))
    # What is known is shown while the measurement runs.
    qtbot.waitUntil(lambda: ready.comparing.part == "bench", timeout=LONG_MS)
    assert view.output_part.content.isVisibleTo(view.output_part)
    assert not view.latency_part.content.isVisibleTo(view.latency_part)
    assert "edgeopt bench" in view.latency_part.command_lines[0].text()
    finish(qtbot, ready)
    qtbot.wait(50)
    places.add(view.tabs.geometry().getRect())
    assert len(places) == 1, "the tabs move as results arrive"
    assert ready.state == "content"
    assert view.headline.text().startswith("half.onnx ")
    assert view.interval.isHidden() or view.interval.interval[1] > 0, "a busy machine leaves none to show"
    assert view.accuracy.text().startswith("Different: ")
    first = next(row for row in view.layers.records.rows if row.is_first)
    assert view.layers.current == first
    assert first.node in view.layers_line.text()
    assert {row.what for row in view.operators.records.rows} >= {"Conv", "Gemm"}
    assert any("float32" in row.what for row in view.precision.records.rows)
    assert [column.title for column in view.memory.records.columns][1:3] == [
        f"A: {conv_model.name}",
        "B: half.onnx",
    ]
    assert sum(view.histogram.counts) > 0
    assert sum(view.histogram.outline) > 0
    # Other sides leave no layers of this comparison.
    assert why_not(ready, "compare.show-layer") == ""
    ready.put(1, bundle)
    assert why_not(ready, "compare.show-layer") == "Nothing is compared yet."
    assert not ready.view.isVisible()


def test_layers_are_compared_on_request_although_the_outputs_pass(qtbot, page, conv_model, tmp_path):
    page.put(0, conv_model)
    page.put(1, Path(shutil.copy(conv_model, tmp_path / "same.onnx")))
    page.head.layers.setChecked(True)
    page.start()
    assert "--layers" in page.comparing.commands["compare"].arguments
    qtbot.waitUntil(lambda: "compare" in page.comparing.endings, timeout=LONG_MS)
    page.cancel()
    finish(qtbot, page)
    assert page.view.layers_line.text().startswith("None of the ")


def test_results_stay_when_the_measurement_fails_and_its_tab_says_what_next(qtbot, alike):
    alike.start()
    qtbot.waitUntil(lambda: alike.comparing.part == "bench", timeout=LONG_MS)
    alike.comparing.job.kill()
    finish(qtbot, alike)
    view = alike.view
    assert alike.state == "content"
    assert view.headline.text() == "Not measured"
    assert "killed from outside" in view.latency_part.message.text()
    assert "Start it again" in view.latency_part.message.text()
    assert view.output_part.content.isVisibleTo(view.output_part)


def test_a_cancelled_comparison_keeps_what_it_had(qtbot, alike, context):
    alike.start()
    qtbot.waitUntil(lambda: alike.comparing.part == "bench", timeout=LONG_MS)
    alike.cancel()
    assert "stopping" in why_not(alike, "compare.cancel")
    finish(qtbot, alike)
    assert context.jobs.jobs == ()
    assert alike.view.headline.text() == "Cancelled"
    assert alike.view.output_part.content.isVisibleTo(alike.view.output_part)
    assert why_not(alike, "compare.cancel") == "No comparison is running."


def test_cancelled_at_once_no_further_job_begins(qtbot, ready, context):
    ready.start()
    started = []
    context.jobs.started.connect(started.append)
    ready.cancel()
    finish(qtbot, ready)
    assert started == []
    assert "Cancelled" in ready.view.output_part.message.text()


def test_two_broken_models_are_an_error_with_a_way_to_try_again(qtbot, page, tmp_path):
    for place, name in enumerate(("a.onnx", "b.onnx")):
        (tmp_path / name).write_bytes(b"no model")
        page.put(place, tmp_path / name)
    page.start()
    finish(qtbot, page)
    assert page.state == "error"
    assert page.failure.button.key == "compare.start"


def test_a_side_that_cannot_be_read_is_named_in_every_tab(qtbot, page, tmp_path, half_weights):
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"no model")
    page.put(0, broken)
    page.put(1, half_weights)
    page.start()
    finish(qtbot, page)
    view = page.view
    assert page.comparing.endings["second"].good
    for section in (view.latency_part, view.memory_part, view.output_part, view.precision_part):
        assert "broken.onnx" in section.message.text()
        assert section.message.property("role") == "problem"


def test_a_pair_of_another_page_starts_at_once(qtbot, page, context, conv_model, conv_bundle, conv_data):
    context.compare(ComparePair(conv_model, conv_bundle, conv_data))
    assert page.state == "busy"
    qtbot.waitUntil(lambda: "compare" in page.comparing.endings, timeout=LONG_MS)
    page.cancel()
    finish(qtbot, page)
    assert page.view.accuracy.text().startswith("Equal in every value")
    line = page.view.layers_line
    assert "No layer was looked for" in line.text()
    page.view.tabs.setCurrentIndex(2)
    qtbot.waitUntil(line.isVisible)
    image = line.grab().toImage()
    drawn = next(
        y for y in range(image.height()) if any(image.pixel(x, y) != image.pixel(0, 0) for x in range(80))
    )
    assert drawn < line.fontMetrics().height(), "below the table, not in the middle of the page"
    assert page.sides.data == conv_data


def test_a_layer_is_shown_in_the_graph(qtbot, open_window, context, conv_model, half_weights):
    context.settings.keep("compare.time-limit-s", 1)
    window = open_window((MODEL_ENTRY, GRAPH, ENTRY))
    context.open(subject_at(conv_model))
    window.show_page("compare")
    page, graph = window.page("compare"), window.page("graph")
    page.put(1, half_weights)
    page.start()
    qtbot.waitUntil(lambda: "compare" in page.comparing.endings, timeout=LONG_MS)
    page.cancel()
    finish(qtbot, page)
    qtbot.waitUntil(lambda: graph.state == "content", timeout=LONG_MS)
    page.view.tabs.setCurrentIndex(2)
    table = page.view.layers
    row = table.current
    ways = (
        lambda: qtbot.mouseClick(
            table.viewport(), Qt.MouseButton.LeftButton, pos=table.visualRect(table.currentIndex()).center()
        ),
        lambda: qtbot.keyClick(table, Qt.Key.Key_Return),
        window.book["compare.show-layer"].shown.trigger,
    )
    for show in ways:
        window.show_page("compare")
        show()
        assert window.shown_page is graph
    bar = graph.view.revisions
    qtbot.waitUntil(lambda: graph.view.colouring.key == "change", timeout=LONG_MS)
    assert (bar.slider.value(), bar.slider.maximum()) == (0, 1)
    assert bar.label.text() == f"1 of 2: {conv_model.name}"
    assert graph.view.title.text() == row.node.partition(" ")[0]
    assert row.node == f"{graph.view.title.text()} '{graph.view.facts.groups[1].facts[1].value}'"
    assert [fact.name for fact in graph.view.facts.groups[0].facts][:2] == ["Model", "Change"]
    bar.slider.setValue(1)
    assert half_weights.name in bar.label.text()


def test_a_layer_of_models_that_are_not_open_says_what_to_open(page, half_weights, context):
    said = []
    context.status_message.connect(said.append)
    page.comparing = SimpleNamespace(sides=page.sides, running=False)
    page.show_layer(SimpleNamespace(node="Conv 'a'", other_node="Conv 'a'"))
    assert said == ["Open one of the two sides to see its layers in the graph."]


def test_a_side_that_is_a_bundle_can_be_deployed(page, half_weights, context, bundle):
    action = next(each for each in ENTRY.actions if each.key == "compare.deploy")
    page.put(0, half_weights)
    assert action.why_not(page) == "Neither side is a bundle."
    page.put(1, bundle)
    assert action.why_not(page) == ""
    action.run(page)
    assert page.findChild(DeployDialog).deployer.bundle == bundle


def test_language_models_show_their_answers(qtbot, page, tmp_path):
    for number in (0, 1):
        page.put(number, write_decoder(tmp_path / f"{number}.onnx", seed=number, held=long_weights(number)))
    page.start()
    finish(qtbot, page)
    rows = {row.what: row for row in page.view.latencies.records.rows}
    assert rows["tokens per second"].first > 0
    assert rows["first token"].second > 0
    assert page.view.headline.text().startswith("By tokens per second: ")
    assert page.view.histogram_title.text().startswith("Answers by mean time of a token")
    assert page.view.memory.records.rows
