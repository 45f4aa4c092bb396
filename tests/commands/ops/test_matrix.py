import msgspec
import pytest

from edgeopt.commands.ops.case import BackendRow
from edgeopt.commands.ops.matrix import duration, flaws, matrix, roofline_note, summary, tried


@pytest.fixture
def mixed(report, case_row):
    return report(
        case_row("Conv 3x3", "small", one=1.0, two=2.0),
        case_row("Conv 3x3", "large", one=100.0, two=50.0),
        case_row("Conv 3x3", "large", precision="int8", one=10.0, two="failed"),
        case_row("Pad wrap", "small", one=1.0, two="not supported"),
        case_row("Pad wrap", "large", one="deviates", two="not supported"),
    )


def test_backends_stand_side_by_side_in_each_precision(mixed):
    assert [(c.precision, c.backend) for c in tried(mixed)] == [
        ("fp32", "onnxruntime-cpu"),
        ("fp32", "openvino-cpu"),
        ("int8", "onnxruntime-cpu"),
        ("int8", "openvino-cpu"),
    ]


def test_a_cell_says_the_worst_and_the_time_of_the_largest(mixed):
    conv, pad = (row.cells[1:] for row in matrix(mixed).rows)
    assert [cell.text for cell in conv] == ["✓ 100 µs 50%", "✓ 50 µs 50%", "✓ 10 µs 50%", "✗ 1 of 1"]
    assert [cell.text for cell in pad] == ["≠ 1 of 2", "○ 2 of 2", "", ""]
    assert [cell.strong for cell in conv] == [False, True, False, False]


def test_every_case_that_does_not_conform_is_named_with_its_error(mixed):
    told = [(flaw.backend, flaw.case, flaw.status, flaw.count) for flaw in flaws(mixed)]
    assert told == [
        ("onnxruntime-cpu", "Pad wrap fp32 (large)", "deviates", 1),
        ("openvino-cpu", "Conv 3x3 int8 (large)", "failed", 1),
        ("openvino-cpu", "Pad wrap fp32 (small, large)", "not supported", 2),
    ]
    assert {flaw.message for flaw in flaws(mixed)} == {"It is off."}


def test_the_summary_counts(mixed):
    one, two, last = summary(mixed)
    assert one == "onnxruntime-cpu 1.0: 4 of 5 cases conform (80.0 %); 1 deviate."
    assert two == "openvino-cpu 2.0: 2 of 5 cases conform (40.0 %); 2 not supported, 1 failed."
    assert "2 threads" in last


def test_results_of_a_device_in_no_state_for_it_are_said(mixed):
    assert not any("--again" in line for line in summary(mixed))
    last = list(summary(msgspec.structs.replace(mixed, doubtful=3)))[-1]
    assert last.startswith("3 cached results were measured while the device was busy")
    assert "--again" in last


def test_a_backend_that_is_not_here_is_told_with_its_reason(mixed):
    gone = BackendRow("x", "X", None, "there is no GPU")
    told = list(summary(msgspec.structs.replace(mixed, backends=(*mixed.backends, gone))))
    assert "x: not available: there is no GPU." in told
    assert len(tried(msgspec.structs.replace(mixed, backends=(*mixed.backends, gone)))) == 4


def test_missing_shares_of_the_roofline_have_a_reason(report, case_row):
    case = case_row("Add", "small", one=1.0, two=1.0)
    assert roofline_note(report(case)) == ""
    blank = {
        name: msgspec.structs.replace(f, roofline_share=None, roofline_reason="no peaks")
        for name, f in case.results.items()
    }
    assert (
        roofline_note(report(msgspec.structs.replace(case, results=blank)))
        == "No share of the roofline: no peaks."
    )


@pytest.mark.parametrize(
    ("time_us", "text"),
    [
        (0.5, "0.5 µs"),
        (12.34, "12.3 µs"),
        (457.2, "457 µs"),
        (999.7, "1.00 ms"),
        (21400, "21.4 ms"),
        (2.5e6, "2.50 s"),
    ],
)
def test_times_are_short(time_us, text):
    assert duration(time_us) == text
