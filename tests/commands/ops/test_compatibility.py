import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgeopt.commands.ops.compatibility import cases_of_model, compatibility, describe_form, kinds_of, precision_of
from edgeopt.data import demo as samples
from edgeopt.graph.analysis import NodeRow, TensorFacts
from edgeopt.graph.analysis.onnx import analyze_onnx

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
    own = [row for row in found.operators if row.operator == "Conv"]
    assert sum(row.count for row in own) == sum(node.operator == "Conv" for node in analysis.nodes)
    assert sum(row.share for row in own) > 0.8
    assert conv.status == {ONE: "conforms", TWO: "deviates"}
    assert (conv.flawed, conv.message) == ({TWO: 1}, {TWO: "It is off."})
    others = [row for row in found.operators if row.operator != "Conv"]
    assert others
    assert all(row.status == {ONE: "no case", TWO: "no case"} for row in others)
    assert {row.form: row.status[ONE] for row in own} == {"": "conforms", "depth-wise": "no such case"}


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


def saved(path, nodes, weights, shape):
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("y",)]
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    held = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "g", [given], value, held)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9), path)
    return analyze_onnx(path)


def convolutions(path, *shapes_and_attributes):
    """One after the other, each with its own attributes."""
    names = ["x", *(f"t{k}" for k in range(len(shapes_and_attributes) - 1)), "y"]
    weights = {f"w{k}": np.ones(shape, np.float32) for k, (shape, _) in enumerate(shapes_and_attributes)}
    nodes = [
        helper.make_node("Conv", [names[k], f"w{k}"], [names[k + 1]], **more)
        for k, (_, more) in enumerate(shapes_and_attributes)
    ]
    rank = len(shapes_and_attributes[0][0])
    return saved(path, nodes, weights, [1, 4, *[9] * (rank - 2)])


def forms(found):
    return {row.form: row.status[ONE] for row in found.operators}


def test_a_convolution_over_volumes_is_not_judged_by_those_over_images(tmp_path, report, case_row):
    analysis = convolutions(tmp_path / "m.onnx", ((4, 4, 3, 3, 3), {}))
    found = compatibility(analysis, report(case_row("Conv 3x3", "large", one=1.0, two=1.0)))
    assert forms(found) == {"3-D": "no such case"}
    assert found.operators[0].cases == 0
    assert found.quickest is None


def test_groups_and_dilations_are_judged_by_their_own_cases(tmp_path, report, case_row):
    analysis = convolutions(
        tmp_path / "m.onnx",
        ((4, 4, 3, 3), {}),
        ((4, 1, 3, 3), {"group": 4}),
        ((4, 2, 3, 3), {"group": 2}),
        ((4, 4, 3, 3), {"dilations": [2, 2]}),
    )
    found = compatibility(
        analysis,
        report(
            case_row("Conv 3x3", "large", one=1.0, two=1.0),
            case_row("Conv depth-wise", "large", attributes={"group": 8}, one="deviates", two=1.0),
            case_row("Conv dilated", "large", attributes={"dilations": (2, 2)}, one="not supported", two=1.0),
        ),
    )
    assert forms(found) == {
        "": "conforms",
        "depth-wise": "deviates",
        "in groups": "no such case",
        "dilated": "not supported",
    }


def test_a_pad_with_constants_is_not_marked_by_one_that_wraps(tmp_path, report, case_row):
    node = helper.make_node("Pad", ["x", "pads"], ["y"])
    analysis = saved(tmp_path / "m.onnx", [node], {"pads": np.array([0, 0, 1, 1, 0, 0, 1, 1])}, [1, 4, 9, 9])
    wrap = case_row("Pad wrap", "large", attributes={"mode": "wrap"}, one="not supported", two=1.0)
    constant = case_row("Pad constant", "large", attributes={"mode": "constant"}, one=1.0, two=1.0)
    both = report(wrap, constant)
    found = compatibility(analysis, both)
    assert forms(found) == {"constant": "conforms"}
    assert cases_of_model(both, found) == (constant,)
    assert forms(compatibility(analysis, report(wrap))) == {"constant": "no such case"}


@pytest.mark.parametrize(
    ("operator", "attributes", "said"),
    [
        ("LSTM", {"direction": "reverse"}, "reverse"),
        ("GRU", {"linear_before_reset": 1}, "forward reset last"),
        ("Resize", {}, "nearest half_pixel round_prefer_floor"),
        ("Resize", {"mode": "linear", "coordinate_transformation_mode": "asymmetric"}, "linear asymmetric"),
        ("Cast", {"to": 7}, "from float32 to 7"),
        ("Relu", {}, ""),
    ],
)
def test_a_form_is_a_few_words(operator, attributes, said):
    assert describe_form(operator, [("float32", (1, 4, 9, 9))], attributes) == said


def node(operator, *dtypes, given="a"):
    inputs = tuple(TensorFacts(f"{given}{k}", dtype, (1,)) for k, dtype in enumerate(dtypes))
    return NodeRow(0, "", operator, "", inputs, (TensorFacts("y", dtypes[-1], (1,)),), 0, 0)


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
