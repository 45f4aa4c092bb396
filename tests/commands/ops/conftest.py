import pytest

from edgeopt.commands.ops.case import BackendRow, CaseRow, MeasuredOperator, OperatorFigures, Report

ONE, TWO = "onnxruntime-cpu", "openvino-cpu"


IMAGE = ("float32 [1, 8, 14, 14]", "float32 [16, 8, 3, 3]")


def row(title, size, precision="fp32", attributes=None, inputs=IMAGE, **results):
    """A case by its operator and variant; each result is a status, or a time in microseconds."""
    operator, _, variant = title.partition(" ")
    figures = {}
    for name, result in zip((ONE, TWO), results.values(), strict=True):
        bad = isinstance(result, str)
        measured = (
            MeasuredOperator(result, 1, 1, "It is off.")
            if bad
            else MeasuredOperator("conforms", 1, 1, time_us=result)
        )
        figures[name] = OperatorFigures(measured, None if bad else 0.5)
    return CaseRow("family", operator, variant, size, precision, 19, inputs, attributes or {}, figures)


@pytest.fixture
def report():
    def make(*cases):
        backends = (BackendRow(ONE, "One", "1.0"), BackendRow(TWO, "Two", "2.0"))
        counts = {}
        for name in (ONE, TWO):
            statuses = [case.results[name].measured.status for case in cases]
            counts[name] = {s: statuses.count(s) for s in ("conforms", "deviates", "not supported", "failed")}
        return Report(backends, cases, 2, 1.5, 3, counts)

    return make


@pytest.fixture
def case_row():
    return row
