import io

import pytest
from rich.console import Console

from edgeopt.graph.analysis import OpTimeRow, OpTimes
from edgeopt.views.op_times import op_times, spread, why_unreliable
from edgeopt.views.terminal import write

CONV = OpTimeRow(
    "conv_1", "FusedConv", 0.5, 0.5, ("conv_1", "relu_1", "norm_1"), ("convolution", "activation"),
    operations=50_000_000, moved_bytes=1 << 20, least_ms=0.25, bound="compute",
)  # fmt: skip
REORDER = OpTimeRow("r", "ReorderInput", 0.3, 0.3, ("conv_1",), ("convolution",), added=True)
LOST = OpTimeRow("mystery", "Mystery", 0.2, 0.2)


def times(*rows, **more):
    known = sum(row.share for row in rows if row.members)
    given = {"run_ms": 1.1, "kernels_ms": 1.0, "plain_ms": 1.0, "threads": 2, "runs": 7} | more
    return OpTimes("onnxruntime-cpu", "1.31.1", rows=rows, attributed_share=known, **given)


@pytest.fixture
def shown():
    def show(found, width=120):
        text = io.StringIO()
        write([op_times(found)], Console(file=text, width=width))
        return text.getvalue()

    return show


def line(text, begin):
    return next(each.split() for each in text.splitlines() if each.startswith(begin))


def test_a_kernel_with_its_nodes_and_how_near_it_comes_to_the_peak(shown):
    text = shown(times(CONV, REORDER, LOST))
    assert "onnxruntime-cpu 1.31.1, 2 threads" in text
    assert "1.10 ms a run while profiling (median of 7 runs), 1.00 ms of it in kernels" in text
    assert "1.00 ms a run without: profiling adds 10 %." in text
    told = line(text, "FusedConv")
    assert " ".join(told[:6]) == "FusedConv conv_1, relu_1 and 1 more"
    assert told[6:9] == ["500", "µs", "50.0"]
    assert told[-4:] == ["100.0", "50", "%", "compute"]


def test_what_the_runtime_added_and_what_is_not_attributed_are_called_so(shown):
    text = shown(times(CONV, REORDER, LOST))
    assert " ".join(line(text, "ReorderInput")[:3]) == "ReorderInput for conv_1"
    assert "mystery (not attributed)" in text
    assert "20.0 % of the time is not attributed to nodes of the model." in text
    sums = text[text.index("by category") :]
    assert line(sums, "convolution")[1:4] == ["1", "500", "µs"]
    assert line(sums, "conversions that the runtime added")[-4] == "µs"
    assert line(sums, "not attributed")[2] == "1"


def test_many_kernels_end_in_one_line_and_the_sums_have_them_all(shown):
    rows = [OpTimeRow(f"k{k}", "Relu", 0.04, 0.04, (f"n{k}",), ("activation",)) for k in range(25)]
    text = shown(times(*rows))
    assert " ".join(line(text, "10 more")) == "10 more 400 µs 40.0 %"
    assert "n14" in text
    assert "n15" not in text
    assert "by kernel" not in text  # one kind only says nothing
    assert "edgeopt probe --deep" in text


def test_small_times_are_read_in_microseconds_and_much_between_kernels_is_explained(shown):
    text = shown(times(OpTimeRow("k", "Relu", 0.0123, 1.0, ("n",)), run_ms=0.4, kernels_ms=0.0123, plain_ms=0.1))
    assert "12.3 µs" in text
    assert "100 µs a run without: profiling makes it 4.0 times as long." in text
    assert "is outside the kernels" in text


def test_it_fits_a_narrow_terminal(shown):
    assert max(map(len, shown(times(CONV, REORDER, LOST), width=80).splitlines())) <= 80


def test_nothing_measured_is_a_sentence(shown):
    text = shown(OpTimes("openvino-cpu", "", None, 0, 0.0, 0.0, 0.0, (), reason="its process crashed: SIGSEGV"))
    assert "Nothing was measured: its process crashed: SIGSEGV." in text


@pytest.mark.parametrize(
    ("time_ms", "range_ms", "runs", "reason"),
    [
        (0.16, (0.15, 0.17), 20, ""),
        (24.4, (0.1, 48.8), 20, "Its runs differ by more than the time itself"),
        (0.004, (0.002, 0.01), 20, ""),  # within the steps of the clock
        (24.4, (24.0, 24.6), 2, "Measured in only 2 runs"),
    ],
)
def test_a_time_that_may_be_another_one_next_time_says_why(shown, time_ms, range_ms, runs, reason):
    row = OpTimeRow("r", "Reshape", time_ms, 1.0, ("reshape_1",), range_ms=range_ms)
    found = times(row, runs=runs)
    assert why_unreliable(row, found) == reason
    assert ("Unreliable times: reshape_1." in shown(found)) == bool(reason)


def test_the_spread_is_the_middle_half_of_the_runs():
    assert spread(OpTimeRow("r", "Reshape", 1.2, 1.0, range_ms=(1.1, 1.3))) == "1.10 to 1.30 ms"
    assert spread(OpTimeRow("r", "Reshape", 0.5, 1.0, range_ms=(0.05, 1.3))) == "50.0 µs to 1.30 ms"
    assert spread(REORDER) == ""
