"""The figures of both sides as rows and words."""

from pathlib import Path

import msgspec
import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QKeySequence
from PySide6.QtWidgets import QApplication

from edgeopt.commands.compare.records import ComparedModel, LayerComparison, ModelComparison, Probe
from edgeopt.graph.analysis import NodeRow, TensorFacts
from edgeopt.measure.messages import Memory
from edgeopt.measure.report import Comparison as Contest
from edgeopt.measure.report import ContestReport, Figures, SideReport, Slice
from edgeopt.measure.stats import Interval
from edgeopt.measure.workloads.records import GenerateReport, GenerateSide
from edgeopt_gui.pages.compare import found, rows
from edgeopt_gui.pages.compare.rows import LayerRow
from edgeopt_gui.pages.compare.sides import Sides
from edgeopt_gui.pages.compare.view import CompareView
from edgeopt_gui.widgets.palette import Palette


def side(name, p50_ms, runs=200, memory=None):
    figures = Figures(runs, p50_ms, p50_ms, p50_ms, 2 * p50_ms, p50_ms, 0.0, p50_ms, p50_ms, 1.0)
    slices = (Slice(0, 0.0, 1.0, (p50_ms, p50_ms, 2 * p50_ms)),)
    return SideReport(name, name, "model", figures=figures, memory=memory, slices=slices)


def compared(**changes):
    first = ComparedModel("a.onnx", "a.onnx", "ONNX model", 4096, 5, {"Conv": 3, "Relu": 2})
    second = ComparedModel("b.onnx", "b.onnx", "ONNX model", 1024, 4, {"Conv": 3, "Clip": 1})
    return msgspec.structs.replace(ModelComparison(first, second, True, 80.0, 90.0, 8, "made up"), **changes)


def shown(found_rows):
    return {row.what: (row.first_text, row.second_text, row.change) for row in found_rows}


def test_latencies_stand_side_by_side_with_their_difference():
    told = shown(rows.latency_rows(side("a", 2.0), side("b", 1.0)))
    assert told["median (p50)"] == ("2.00 ms", "1.00 ms", "-50.0 %")
    assert told["p99"] == ("4.00 ms", "2.00 ms", "-50.0 %")
    assert told["runs"] == ("200", "200", "")


def test_a_p99_of_few_runs_is_left_out():
    assert "p99" not in shown(rows.latency_rows(side("a", 2.0, runs=20), side("b", 1.0, runs=20)))


def test_a_side_that_did_not_finish_has_dashes():
    broken = SideReport("b", "b", "model", failure="It crashed.")
    told = shown(rows.latency_rows(side("a", 2.0), broken))
    assert told["median (p50)"] == ("2.00 ms", "-", "-")
    assert found.distributions(side("a", 2.0), broken) is None


def test_memory_is_told_by_phase_and_what_is_unknown_is_left_out():
    told = shown(rows.memory_rows(side("a", 1, memory=Memory(peak_bytes=4 << 20)), side("b", 1)))
    assert list(told) == ["peak of the process"]
    assert told["peak of the process"][0] == "4 MiB"


def test_operators_that_differ_come_first():
    told = rows.operator_rows(compared())
    assert [row.what for row in told] == ["Relu", "Clip", "Conv"]
    assert [row.change for row in told] == ["−2", "+1", ""]  # noqa: RUF001 - a true minus


def test_file_sizes_and_nodes_are_told():
    assert shown(rows.size_rows(compared()))["file size"] == ("4 KiB", "1 KiB", "-75.0 %")


def test_the_first_layer_that_differs_is_marked():
    probed = (("x", 120.0), ("y", 30.0))
    good, bad = (Probe(name, name, f"Conv '{name}'", f"Conv '{name}'", db, 0.1) for name, db in probed)
    differing = compared(layers=LayerComparison("out", 2, bad, (good, bad)))
    assert [row.is_first for row in rows.layer_rows(differing)] == [False, True]
    assert rows.layers_line(differing) == "The first layer that differs: Conv 'y', value 'y' (30.0 dB)."
    assert "above the floor of 80 dB" in rows.layers_line(compared())


@pytest.mark.parametrize(("label", "position"), [("Conv 'named'", 0), ("Relu 'made'", 1), ("Relu 'named'", None)])
def test_a_node_is_found_by_its_name_or_its_first_output(label, position):
    output = TensorFacts("made", "float32", (1,))
    nodes = [NodeRow(0, "named", "Conv", "", (), (output,), 0, 0), NodeRow(1, "", "Relu", "", (), (output,), 0, 0)]
    assert rows.position_of(label, nodes) == position


def test_the_verdict_has_the_words_of_the_command_line_and_an_open_interval_is_read():
    contest = Contest("b", "a", Interval(2.0, 1.5, float("inf"), 9), "too noisy to tell")
    report = ContestReport((side("b", 1.0), side("a", 2.0)), (contest,))
    data = msgspec.json.decode(msgspec.json.encode(report))
    assert data["comparisons"][0]["speedup"]["high"] is None
    verdict = found.verdict_of(found.read_measurement(data))
    assert verdict.sentence == "b and a: too noisy to tell."
    assert verdict.interval is None
    assert [each.name for each in found.in_order(report.sides)] == ["a", "b"]


def test_answers_of_language_models_stand_side_by_side():
    a = GenerateSide("a", 30, 40.0, 10.0, 100.0, 5.0, Memory(peak_bytes=4 << 20), tokens_ms=(9.0, 10.0, 11.0))
    b = GenerateSide("b", 60, 30.0, 5.0, 200.0, 5.0, tokens_ms=(4.0, 5.0, 6.0))
    faster = Contest("b", "a", Interval(2.0, 1.9, 2.1, 15), "faster")
    report = GenerateReport(
        sides=(b, a),
        prompt_tokens=64,
        new_tokens=32,
        comparisons=(faster,),
        first_comparisons=(msgspec.structs.replace(faster, speedup=Interval(1.3, 1.2, 1.4, 15)),),
        rounds=15,
        data="8 prompts",
    )
    read = found.read_measurement(msgspec.to_builtins(report))
    assert read == report
    verdict = found.verdict_of(read)
    assert verdict.sentence.startswith("By tokens per second: b is faster than a: 2.00x")
    assert verdict.notes[0].startswith("To the first token: b is faster than a: 1.30x")
    assert "An answer has 32 tokens after a prompt of 64 tokens" in verdict.notes[1]
    assert verdict.interval == faster.speedup
    told = shown(rows.answer_rows(*found.in_order(read.sides)))
    assert told["first token"] == ("40.0 ms", "30.0 ms", "-25.0 %")
    assert told["tokens per second"] == ("100", "200", "+100.0 %")
    assert told["answers"] == ("30", "60", "+100.0 %")
    assert sum(found.distributions(a, b).first) == 3
    assert list(shown(rows.memory_rows(a, b))) == ["peak of the process"]


def test_both_distributions_share_their_bins_and_count_every_run():
    told = found.distributions(side("a", 2.0), side("b", 1.0))
    assert (told.low_ms, told.high_ms) == (1.0, 4.0)
    assert sum(told.first) == sum(told.second) == 3
    assert told.second[0] == 2
    assert told.first[-1] == 1


A, B = Path("a.onnx"), Path("b.edgeopt")


@pytest.mark.parametrize(("sides", "letter"), [(Sides(), "A"), (Sides(None, B), "A"), (Sides(A), "B")])
def test_an_empty_side_is_named(sides, letter):
    assert sides.why_not().startswith(f"Side {letter} is empty: choose")
    assert sides.commands() == {}


def test_audio_is_refused_as_data(tmp_path):
    (tmp_path / "a.wav").touch()
    for data in (tmp_path, tmp_path / "a.wav"):
        assert f"{data.name} is audio, which a comparison does not take" in Sides(A, B, data).why_not()


def test_one_file_twice_is_refused():
    assert "same file" in Sides(A, A).why_not()


def test_models_are_compared_analyzed_and_measured_in_turns():
    commands = Sides(A, B, Path("data.npz"), 5).commands()
    assert [command.line for command in commands.values()] == [
        "edgeopt compare a.onnx b.edgeopt --data data.npz",
        "edgeopt analyze a.onnx --quick",
        "edgeopt analyze b.edgeopt --quick",
        "edgeopt bench b.edgeopt --against a.onnx --data data.npz --time-limit 5",
    ]
    assert commands["bench"].measures
    assert commands["compare"].alone


def test_sides_of_one_name_are_told_apart_by_their_folders():
    assert Sides(Path("x/a.onnx"), Path("y/a.onnx")).names == ("A: x/a.onnx", "B: y/a.onnx")
    assert Sides(A, B).names == ("A: a.onnx", "B: b.edgeopt")


def test_long_names_of_layers_are_whole_where_there_is_room(qtbot):
    view = CompareView()
    qtbot.addWidget(view)
    table = view.layers
    table.setParent(None)
    qtbot.addWidget(table)
    table.resize(1400, 300)
    table.show()
    name = "BatchNormalization 'node__native_batch_norm_legit_no_training__0'"
    table.records.set_rows([LayerRow("value", name, name, 40.0, "40.0 dB", 0.1, False)])
    table.fit()
    wide = table.fontMetrics().horizontalAdvance(name)
    assert min(table.columnWidth(place) for place in (2, 3)) > wide


LONG_MS = 180_000


@pytest.fixture
def window(open_window, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    window = open_window()
    window.activateWindow()
    window.setFocus()
    return window


def shortcut(qtbot, window, key):
    combination = QKeySequence(window.book[key].action.shortcut)[0]
    qtbot.keyClick(window, combination.key(), combination.keyboardModifiers())


def by_name(qtbot, window, key):
    """Finds the action in the palette, as one does who knows no shortcut."""
    shortcut(qtbot, window, "app.palette")
    (palette,) = (each for each in window.findChildren(Palette) if each.isVisible())
    qtbot.keyClicks(palette.line, window.book[key].title)
    qtbot.keyClick(palette.line, Qt.Key.Key_Return)
    # As a desktop does once a popup is closed.
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow)


def page_shown(window):
    return window.shown_page.objectName().removeprefix("page-")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_graph_leads_from_a_model_to_its_comparison_and_back(qtbot, window, context, half_sample):
    context.settings.keep("optimize.time-limit-s", 5)
    context.settings.keep("compare.time-limit-s", 1)
    by_name(qtbot, window, "app.open-sample")
    shortcut(qtbot, window, "app.go-graph")
    graph = window.page("graph")
    qtbot.waitUntil(lambda: graph.state == "content", timeout=LONG_MS)
    assert graph.view.colouring.key == "category"

    by_name(qtbot, window, "graph.measure")
    qtbot.waitUntil(lambda: graph.view.colouring.key.startswith("ms:"), timeout=LONG_MS)

    shortcut(qtbot, window, "app.go-optimize")
    shortcut(qtbot, window, "optimize.start")
    optimize = window.page("optimize")
    qtbot.waitUntil(lambda: not context.jobs.jobs and optimize.state == "content", timeout=LONG_MS)
    by_name(qtbot, window, "optimize.compare")
    assert page_shown(window) == "compare"
    compare = window.page("compare")
    qtbot.waitUntil(lambda: not context.jobs.jobs and compare.state == "content", timeout=LONG_MS)
    assert compare.view.accuracy.text().startswith(("Equal", "Different"))

    compare.put(1, half_sample)
    shortcut(qtbot, window, "compare.start")
    qtbot.waitUntil(lambda: not context.jobs.jobs and compare.state == "content", timeout=LONG_MS)
    layer = compare.view.layers.current
    by_name(qtbot, window, "compare.show-layer")
    assert page_shown(window) == "graph"
    qtbot.waitUntil(lambda: graph.view.title.text() == layer.node.partition(" ")[0], timeout=LONG_MS)

    graph.view.canvas.setFocus()
    qtbot.keyClick(QApplication.focusWidget(), Qt.Key.Key_Down)
    name = graph.view.facts.groups[0].facts[1].value
    shortcut(qtbot, window, "graph.in-table")
    assert page_shown(window) == "model"
    assert window.page("model").view.nodes.table.current.name == name
