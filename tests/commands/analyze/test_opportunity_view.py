import msgspec
import pytest

from edgeopt.commands.analyze.messages import Node
from edgeopt.commands.analyze.opportunity_view import View
from edgeopt.graph.analysis import Cost, OpenDimension, OpTimeRow, OpTimes, TensorFacts


@pytest.fixture
def rows(node):
    return (
        node("Conv", ["x 4 8"], ["c 4 8"], "convolution", operations=8_000_000, moved=1000, macs=4_000_000),
        node("Relu", ["c 4 8"], ["r 4 8"], "activation", operations=32, moved=3_000_000),
    )


def test_without_peaks_operations_and_bytes_share_the_time(view, rows):
    seen = view(*rows)
    assert "not measured" in seen.basis
    # 8 million operations count as one million bytes.
    assert seen.share_of(rows[:1]) == pytest.approx(0.25, abs=0.01)
    assert seen.is_compute_bound(rows[0])
    assert not seen.is_compute_bound(rows[1])


def test_peaks_come_before_operations(view, rows):
    timed = [
        msgspec.structs.replace(row, least_ms=ms, bound="memory") for row, ms in zip(rows, (9.0, 1.0), strict=True)
    ]
    seen = view(*timed)
    assert seen.share_of(timed[:1]) == pytest.approx(0.9, abs=0.01)
    assert "peaks" in seen.basis


def test_measured_times_come_before_peaks_and_a_kernel_shares_its_time_among_its_members(view, rows):
    timed = [msgspec.structs.replace(row, least_ms=ms) for row, ms in zip(rows, (3.0, 1.0), strict=True)]
    kernel = OpTimeRow("fused", "FusedConv", 8.0, 1.0, ("n_c", "n_r"))
    seen = view(*timed, op_times=(OpTimes("onnxruntime-cpu", "1", 1, 5, 9.0, 8.0, 1.0, (kernel,)),))
    assert seen.time_ms(timed[0]) == pytest.approx(6.0)
    assert seen.time_ms(timed[1]) == pytest.approx(2.0)
    assert "measured node by node on onnxruntime-cpu" in seen.basis


def test_a_node_of_unknown_cost_takes_no_part_and_nothing_known_is_no_share(view, node):
    row = node("Odd", ["x 4"], ["y 4"], "unknown")
    unknown = msgspec.structs.replace(row, cost=Cost(unknown="what Odd computes is not known here"))
    seen = view(unknown)
    assert seen.time_ms(unknown) is None
    assert seen.share_of([unknown]) is None
    assert "unknown" in seen.basis


def test_what_a_light_node_takes_is_saved_when_it_goes_and_a_heavy_one_comes_back(view, rows):
    seen = view(*rows)
    conv, relu = Node("n_c", "Conv", ("x",), ("c",)), Node("n_r", "Relu", ("c",), ("r",))
    fused = Node("n_c", "Conv", ("x",), ("r",))
    assert seen.share(seen.saved_ms([conv, relu], [fused])) == pytest.approx(0.75, abs=0.01)
    # Gone for good, a heavy one counts.
    assert seen.share(seen.saved_ms([conv], [])) == pytest.approx(0.25, abs=0.01)


def test_nodes_of_subgraphs_count_as_often_as_they_run_and_what_holds_them_does_not(view, node):
    inner = node("Relu", ["a 4"], ["b 4"], "activation", operations=4, moved=3200, inside="loop/body", runs=5)
    other = node("Relu", ["a 4"], ["c 4"], "activation", operations=4, moved=3200, inside="if/else_branch", runs=0)
    outer = node("Loop", ["x 4"], ["y 4"], "control flow", operations=20, moved=16000)
    seen = view(outer, inner, other)
    assert [row.name for row in seen.rows] == ["n_b"]
    assert seen.time_ms(inner) == pytest.approx(seen.total_ms)
    assert seen.time_ms(inner) == pytest.approx(5 * seen.time_ms(msgspec.structs.replace(inner, runs=1)))


def test_open_dimensions_have_the_sizes_that_the_figures_are_for(view):
    seen = view(dimensions=(OpenDimension("batch", 3, ("input 'x', axis 0",)),))
    assert seen.size_bytes(TensorFacts("t", "float32", ("batch", 5))) == 60
    assert seen.size_bytes(TensorFacts("t", "float64", ("batch", 5))) == 120
    assert seen.size_bytes(TensorFacts("t", "float32", ("other", 5))) is None
    assert seen.size_bytes(TensorFacts("t", "float32")) is None


def test_commands_quote_the_name_of_the_file(analysis):
    seen = View(msgspec.structs.replace(analysis(), path="a b.onnx"))
    assert seen.simplify == "edgeopt simplify 'a b.onnx' -o 'a b.simplified.onnx'"
