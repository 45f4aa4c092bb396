import pytest

from edgeopt import samples
from edgeopt.graph.analysis import NodeRow, Tensor
from edgeopt.graph.onnx_analysis import analyze_onnx
from edgeopt.ops.compatibility import compatibility, kinds_of, precision_of

ONE, TWO = "onnxruntime-cpu", "openvino-cpu"


@pytest.fixture(scope="module")
def analysis():
    return analyze_onnx(samples.MODEL)


def test_only_what_the_model_is_made_of_is_tried(analysis):
    operators, precisions = kinds_of(analysis)
    assert "Conv" in operators
    assert "LSTM" not in operators
    assert precisions == ("fp32",)


def test_each_operator_has_its_status_by_backend(analysis, report, case_row):
    found = compatibility(
        analysis,
        report(
            case_row("Conv 3x3", "large", one=100.0, two=200.0),
            case_row("Conv 1x1", "large", one=1.0, two="deviates"),
        ),
    )
    conv = found.operators[0]
    assert (conv.operator, conv.precision, conv.cases) == ("Conv", "fp32", 2)
    assert conv.count == sum(node.operator == "Conv" for node in analysis.nodes)
    assert conv.share > 0.8
    assert conv.status == {ONE: "conforms", TWO: "deviates"}
    assert (conv.flawed, conv.message) == ({TWO: 1}, {TWO: "It is off."})
    others = [row for row in found.operators if row.operator != "Conv"]
    assert others
    assert all(row.status == {ONE: "no case", TWO: "no case"} for row in others)


def test_the_quickest_at_what_dominates_is_named(analysis, report, case_row):
    cases = [case_row("Conv 3x3", "large", one=100.0, two=200.0), case_row("Conv 1x1", "medium", one=1.0, two=8.0)]
    found = compatibility(analysis, report(*cases)).quickest
    assert found.operators == ("Conv fp32",)
    assert found.relative_time == {ONE: 1.0, TWO: pytest.approx(4.0)}
    assert found.cases == 2


def test_where_nothing_can_be_compared_there_is_a_reason(analysis, report, case_row):
    found = compatibility(analysis, report(case_row("Conv 3x3", "large", one=100.0, two="failed")))
    assert found.quickest is None
    assert "Conv" in found.quickest_reason


def test_what_the_backends_say_of_the_model_is_there(analysis, report, case_row):
    found = compatibility(analysis, report(case_row("Conv 3x3", "large", one=1.0, two=1.0)))
    assert found.coverage[ONE].supported == found.coverage[ONE].total > 0
    assert found.coverage[TWO].supported == found.coverage[TWO].total > 0


def node(operator, *dtypes, given="a"):
    inputs = tuple(Tensor(f"{given}{k}", dtype, (1,)) for k, dtype in enumerate(dtypes))
    return NodeRow(0, "", operator, "", inputs, (Tensor("y", dtypes[-1], (1,)),), 0, 0)


@pytest.mark.parametrize(
    ("row", "precision"),
    [
        (node("Add", "float32", "float32"), "fp32"),
        (node("Where", "bool", "float16", "float16"), "fp16"),
        (node("MatMulInteger", "uint8", "int8"), "int8"),
        (node("Concat", "int64", "int64"), "other"),
        (node("Conv", "float32", "float32", given="dequantized"), "int8"),
        (node("DequantizeLinear", "uint8", "float32"), "int8"),
        (node("Cast", "int64"), "fp32"),
    ],
)
def test_the_precision_of_a_node(row, precision):
    assert precision_of(row, {"dequantized0"}) == precision
