import gc
import os
import shlex
import signal
import time
from itertools import pairwise

import msgspec
import pytest
from onnx import TensorProto, helper, save
from PySide6.QtCore import QTimer
from PySide6.QtGui import QGuiApplication

from edgeopt.data.demo import MODEL
from edgeopt.graph.analysis import Opportunity
from edgeopt_gui.jobs.command import Command
from edgeopt_gui.pages.model.page import ENTRY
from edgeopt_gui.subject import subject_at
from edgeopt_gui.widgets.action_button import ActionButton

LONGEST_GAP_S = 0.15
"""More than the 50 ms that the app allows itself: the tests run on slow and busy machines too."""

PATIENCE_MS = 60_000


@pytest.fixture
def page(qtbot, open_page):
    return open_page(ENTRY)


@pytest.fixture
def read(qtbot, context, page):
    """Opens a model and waits until it has been read, but not until passes and runtimes were asked."""

    def open_it(path):
        context.open(subject_at(path))
        qtbot.waitUntil(lambda: page.state != "busy", timeout=PATIENCE_MS)
        if page.state == "content":
            qtbot.waitUntil(lambda: len(page.view.nodes.records.rows) == page.analysis.nodes_count)
        return page

    return open_it


def test_without_a_model_it_offers_to_open_one(page):
    assert page.state == "empty"
    assert page.command() is None
    assert page.why_not_analyze()
    assert page.why_not_optimize()


def test_shows_what_the_sample_is_made_of_and_then_another_model(qtbot, context, read, conv_model):
    page = read(MODEL)
    assert page.view.headline.text() == "ONNX, opset 18 · 57.4 KiB · 11,645 parameters · 95 nodes"
    assert len(page.view.operators.bars) == 16
    assert len(page.view.nodes.records.rows) == 95
    assert len(page.view.weights.rows) == 49
    assert [port.tensor.name for port in page.view.ports.rows] == ["image", "logits"]
    assert page.command().line == f"edgeopt analyze {shlex.quote(str(MODEL))}"
    assert page.why_not_optimize() == ""
    page.search()
    qtbot.waitUntil(page.view.nodes.bar.line.hasFocus)
    page.copy_digest()
    assert QGuiApplication.clipboard().text() == page.analysis.digest
    for way, to in ((page.optimize, "optimize"), (page.watch, "live")):
        with qtbot.waitSignal(context.page_requested) as wanted:
            way()
        assert wanted.args == [to]
    # A bar filters the nodes until another model is read.
    page.view.operators.choose("Conv")
    assert {node.operator for node in page.view.nodes.records.shown} == {"Conv"}
    page.view.nodes.all.click()
    assert page.view.operators.choice == ""
    assert page.view.nodes.records.rowCount() == 79
    page.view.operators.choose("Conv")
    page.view.nodes.bar.line.setText("conv2d_3")
    read(conv_model)
    assert [node.operator for node in page.view.nodes.records.shown][:2] == ["Conv", "Relu"]


def test_a_bundle_shows_its_deployment(read, conv_bundle):
    page = read(conv_bundle)
    assert page.view.facts.groups[0].title == "Deployment"
    assert "optimized already" in page.why_not_optimize()


@pytest.mark.slow
def test_a_broken_model_says_why_and_is_read_again_when_it_was_mended(qtbot, context, read, tmp_path):
    model = tmp_path / "model.onnx"
    for content in (b"", b"\x08\x07\x12\x04torn"):
        model.write_bytes(content)
        page = read(model)
        assert page.state == "error", content
        assert page.analysis is None
        assert page.why_not_known()
        offered = {button.key for button in page.findChildren(ActionButton) if button.isVisible()}
        assert offered == {"model.analyze", "app.open-model"}
    model.write_bytes(MODEL.read_bytes())
    page.analyze()
    assert page.state == "busy"
    qtbot.waitUntil(lambda: page.state == "content", timeout=PATIENCE_MS)


@pytest.mark.slow
@pytest.mark.cold
def test_a_killed_reader_is_told_and_can_be_started_again(qtbot, context, page):
    context.open(subject_at(MODEL))
    os.kill(context.jobs.jobs[0].pid, signal.SIGKILL)
    qtbot.waitUntil(lambda: page.state == "error", timeout=PATIENCE_MS)
    page.analyze()
    qtbot.waitUntil(lambda: page.state == "content", timeout=PATIENCE_MS)
    # The search for opportunities goes on by then; what is known stays without it.
    os.kill(context.jobs.jobs[-1].pid, signal.SIGKILL)
    qtbot.waitUntil(lambda: "killed" in says(page), timeout=PATIENCE_MS)
    assert "F5" in says(page)
    assert page.state == "content"
    assert page.why_not_analyze() == ""


def test_the_last_one_opened_is_shown(qtbot, context, page, conv_model):
    context.open(subject_at(MODEL))
    context.open(subject_at(conv_model))
    qtbot.waitUntil(lambda: page.state == "content", timeout=PATIENCE_MS)
    assert page.analysis.name == conv_model.name
    context.open(None)
    assert page.state == "empty"


def found(page):
    return len(page.view.opportunities.records.rows), len(page.view.runtimes.records.rows)


def says(page):
    return page.view.opportunities.sentence.text()


def test_what_could_be_done_and_what_would_run_it_come_later(qtbot, context, read):
    page = read(MODEL)
    assert found(page) == (0, 0)
    assert [job.command.arguments for job in context.jobs.jobs] == [page.command().arguments]
    assert "runtimes" in says(page)
    assert page.why_not_analyze()
    page.view.operators.choose("Conv")
    qtbot.waitUntil(lambda: not context.jobs.jobs, timeout=PATIENCE_MS)
    assert min(found(page)) > 0
    assert page.view.operators.choice == "Conv"
    assert page.why_not_analyze() == ""


def test_it_gives_way_to_what_others_start_and_comes_back(qtbot, context, read):
    page = read(MODEL)
    looking = context.jobs.jobs[-1]
    other = context.jobs.run(Command("Reading the device", ("probe",)))
    assert looking.cancelled
    assert "nothing else runs" in says(page)
    with qtbot.waitSignal(other.ended, timeout=PATIENCE_MS):
        pass
    qtbot.waitUntil(lambda: "Checking passes" in says(page), timeout=PATIENCE_MS)
    assert looking not in context.jobs.jobs


def test_it_waits_for_a_watch_only_until_it_is_to_be_done_now(qtbot, context, open_window, conv_model):
    from edgeopt_gui.pages import PAGES

    window = open_window(tuple(entry for entry in PAGES if entry.key in {"live", "model"}))
    page, live = window.page("model"), window.page("live")
    window.show_page("live")
    context.open(subject_at(conv_model))
    qtbot.waitUntil(lambda: page.state == "content" and live.view is not None, timeout=PATIENCE_MS)
    live.view.rate.setValue(20.0)
    live.start()
    assert page.why_not_look_now() == ""
    window.show_page("model")
    tab = page.view.opportunities
    assert "a watch that runs until it is stopped: Watching conv.onnx." in says(page)
    page.view._tabs.setCurrentWidget(tab)
    assert tab.now.isVisible()
    assert tab.now.text() == "Do it now"
    qtbot.waitUntil(lambda: live.session.sampled, timeout=PATIENCE_MS)
    tab.now.click()
    assert "Checking passes" in says(page)
    assert not tab.now.isVisible()
    assert live.giving_way.sentence == "Paused while the app analyzes: Analyzing conv.onnx."
    assert live.giving_way.measuring == ""
    qtbot.waitUntil(lambda: min(found(page)) > 0, timeout=PATIENCE_MS)
    assert context.jobs.jobs == ()
    assert live.giving_way.sentence == "Paused for an analysis, which has ended: Analyzing conv.onnx."
    assert window.book["live.start"].title == "Resume watching"
    assert page.why_not_look_now()
    window.book["live.start"].shown.trigger()
    assert live._watcher.running


def test_for_what_comes_to_an_end_it_waits(context, read):
    page = read(MODEL)
    context.jobs.run(Command("Reading the device", ("probe",)))
    assert "nothing else runs" in says(page)
    assert page.view.opportunities.now.key == ""
    assert page.why_not_look_now()


@pytest.mark.slow
def test_nobody_is_asked_before_the_page_is_seen(qtbot, context, open_window):
    from edgeopt_gui.pages import PAGES

    window = open_window(tuple(entry for entry in PAGES if entry.key in {"live", "model"}))
    window.show_page("live")
    context.open(subject_at(MODEL))
    page = window.page("model")
    qtbot.waitUntil(lambda: page.state == "content", timeout=PATIENCE_MS)
    assert context.jobs.jobs == ()
    window.show_page("model")
    assert [job.command.arguments for job in context.jobs.jobs] == [page.command().arguments]


@pytest.fixture
def long_model(tmp_path):
    nodes = [helper.make_node("Relu", [f"t{k}"], [f"t{k + 1}"], f"relu_{k}") for k in range(10_000)]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 8]) for name in ("t0", "t10000")]
    graph = helper.make_graph(nodes, "long", [ports[0]], [ports[1]])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), tmp_path / "long.onnx")
    return tmp_path / "long.onnx"


@pytest.mark.slow
def test_ten_thousand_nodes_do_not_stop_the_app(read, long_model, request):
    # The time of this thread's own work: what other programs take does not count; nor does what Python's collector
    # takes to look through all that tests before have left.
    gc.collect()
    gc.freeze()
    request.addfinalizer(gc.unfreeze)
    moments = [time.thread_time()]
    ticks = QTimer(interval=1)
    ticks.timeout.connect(lambda: moments.append(time.thread_time()))
    ticks.start()
    page = read(long_model)
    moments.append(time.thread_time())
    page.view.nodes.bar.line.setText("relu_99")
    moments.append(time.thread_time())
    assert page.view.nodes.records.rowCount() == 111
    # As when passes and runtimes have answered: the same nodes come once more, and all of them are marked.
    nodes = page.view.nodes.records.rows
    named = Opportunity("layout", "t", "r", tuple(f"Relu '{node.name}'" for node in nodes))
    moments.append(time.thread_time())
    page.view.show_findings(msgspec.structs.replace(page.analysis, opportunities=(named,)))
    moments.append(time.thread_time())
    page.view.show_nodes(list(nodes))
    moments.append(time.thread_time())
    page.view.opportunities.nodes.click()
    moments.append(time.thread_time())
    assert page.view.nodes.records.rowCount() == 10_000
    assert max(after - before for before, after in pairwise(moments)) < LONGEST_GAP_S


def test_the_inputs_of_the_model_are_told_to_the_other_pages(context, read, conv_model):
    page = read(MODEL)
    assert [(each.name, each.dtype) for each in context.inputs] == [("image", "float32")]
    context.open(subject_at(conv_model))
    assert context.inputs is None
    context.open(None)
    assert page.state == "empty"


def test_a_measured_device_has_the_model_read_again(context, read):
    page = read(MODEL)
    context.device_measured.emit(None)
    assert any(job.command.arguments[0] == "analyze" for job in context.jobs.jobs)
    assert page.state == "busy"
