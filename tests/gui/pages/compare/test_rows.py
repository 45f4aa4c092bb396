"""The figures of both sides as rows and words."""

import msgspec
import pytest

from edgeopt.commands.compare.records import Comparison, Layers, Probe, Side
from edgeopt.graph.analysis import NodeRow, Tensor
from edgeopt.measure.messages import Memory
from edgeopt.measure.report import Comparison as Contest
from edgeopt.measure.report import ContestReport, Figures, SideReport, Slice
from edgeopt.measure.stats import Interval
from edgeopt_gui.pages.compare import found, rows


def side(name, p50_ms, runs=200, memory=None):
    figures = Figures(runs, p50_ms, p50_ms, p50_ms, 2 * p50_ms, p50_ms, 0.0, p50_ms, p50_ms, 1.0)
    slices = (Slice(0, 0.0, 1.0, (p50_ms, p50_ms, 2 * p50_ms)),)
    return SideReport(name, name, "model", figures=figures, memory=memory, slices=slices)


def compared(**changes):
    first = Side("a.onnx", "a.onnx", "ONNX model", 4096, 5, {"Conv": 3, "Relu": 2})
    second = Side("b.onnx", "b.onnx", "ONNX model", 1024, 4, {"Conv": 3, "Clip": 1})
    return msgspec.structs.replace(Comparison(first, second, True, 80.0, 90.0, 8, "made up"), **changes)


def shown(found_rows):
    return {row.what: (row.first_text, row.second_text, row.change) for row in found_rows}


def test_latencies_stand_side_by_side_with_their_difference():
    told = shown(rows.latency_rows(side("a", 2.0), side("b", 1.0)))
    assert told["median (p50)"] == ("2.00 ms", "1.00 ms", "−50 %")  # noqa: RUF001 - a true minus
    assert told["p99"] == ("4.00 ms", "2.00 ms", "−50 %")  # noqa: RUF001 - a true minus
    assert told["runs"] == ("200", "200", "")


def test_a_p99_of_few_runs_is_left_out():
    assert "p99" not in shown(rows.latency_rows(side("a", 2.0, runs=20), side("b", 1.0, runs=20)))


def test_a_side_that_did_not_finish_has_dashes():
    broken = SideReport("b", "b", "model", failure="It crashed.")
    told = shown(rows.latency_rows(side("a", 2.0), broken))
    assert told["median (p50)"] == ("2.00 ms", "–", "")  # noqa: RUF001 - the dash of an empty cell
    assert found.distributions(side("a", 2.0), broken) is None


def test_memory_is_told_by_phase_and_what_is_unknown_is_left_out():
    told = shown(rows.memory_rows(side("a", 1, memory=Memory(peak_bytes=4 << 20)), side("b", 1)))
    assert list(told) == ["peak"]
    assert told["peak"][0] == "4 MiB"


def test_operators_that_differ_come_first():
    told = rows.operator_rows(compared())
    assert [row.what for row in told] == ["Relu", "Clip", "Conv"]
    assert [row.change for row in told] == ["−2", "+1", ""]  # noqa: RUF001 - a true minus


def test_file_sizes_and_nodes_are_told():
    assert shown(rows.size_rows(compared()))["file size"] == ("4 KiB", "1 KiB", "−75 %")  # noqa: RUF001


def test_the_first_layer_that_differs_is_marked():
    probed = (("x", 120.0), ("y", 30.0))
    good, bad = (Probe(name, name, f"Conv '{name}'", f"Conv '{name}'", db, 0.1) for name, db in probed)
    differing = compared(layers=Layers("out", 2, bad, (good, bad)))
    assert [row.is_first for row in rows.layer_rows(differing)] == [False, True]
    assert rows.layers_line(differing) == "The first layer that differs: Conv 'y', value 'y' (30.0 dB)."
    assert "above the floor of 80 dB" in rows.layers_line(compared())


@pytest.mark.parametrize(("label", "position"), [("Conv 'named'", 0), ("Relu 'made'", 1), ("Relu 'named'", None)])
def test_a_node_is_found_by_its_name_or_its_first_output(label, position):
    output = Tensor("made", "float32", (1,))
    nodes = [NodeRow(0, "named", "Conv", "", (), (output,), 0, 0), NodeRow(1, "", "Relu", "", (), (output,), 0, 0)]
    assert rows.position_of(label, nodes) == position


def test_the_verdict_has_the_words_of_the_command_line_and_an_open_interval_is_read():
    contest = Contest("b", "a", Interval(2.0, 1.5, float("inf"), 9), "too noisy to tell")
    report = ContestReport((side("b", 1.0), side("a", 2.0)), (contest,))
    data = msgspec.json.decode(msgspec.json.encode(report))
    assert data["comparisons"][0]["speedup"]["high"] is None
    verdict = found.verdict_of(found.read_contest(data))
    assert verdict.sentence == "b and a: too noisy to tell; no usable interval so far, 9 rounds."
    assert [each.name for each in found.sides_of(report)] == ["a", "b"]


def test_both_distributions_share_their_bins_and_count_every_run():
    told = found.distributions(side("a", 2.0), side("b", 1.0))
    assert (told.low_ms, told.high_ms) == (1.0, 4.0)
    assert sum(told.first) == sum(told.second) == 3
    assert told.second[0] == 2
    assert told.first[-1] == 1
