import json

import onnx
import onnx.parser
import pytest

import edgeopt
from edgeopt.errors import UsageError
from edgeopt.options import read_shapes

pytest.importorskip("onnxruntime", reason="results are proved in ONNX Runtime")
TEXT = """<ir_version: 8, opset_import: ["" : 17]> g (float[1,4] x) => (float[1,4] y) {
    a = Identity(x)  b = Abs(a)  dead = Exp(b)  y = Relu(b) }"""


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(onnx.parser.parse_model(TEXT), path)
    return path


def kinds(path):
    return [node.op_type for node in onnx.load(path).graph.node]


def test_a_script_optimizes_a_model_in_one_call(source, tmp_path):
    result = edgeopt.optimize_operators(source, tmp_path / "out.onnx", target="cpu_avx2")
    assert kinds(tmp_path / "out.onnx") == ["Abs", "Relu"]
    assert result.snr_db == 200.0


def test_the_three_calls_analyze_apply_and_tell(source, tmp_path):
    optimizer = edgeopt.OperatorOptimizer(source, config={"only": ["identities"]})
    assert {row.operator for row in optimizer.analyze_model().operators} == {"Identity", "Abs", "Exp", "Relu"}
    optimizer.apply_optimizations(tmp_path / "out.onnx")
    assert kinds(tmp_path / "out.onnx") == ["Abs", "Exp", "Relu"]
    optimizer.save_optimization_metadata(tmp_path / "out.json")
    told = json.loads((tmp_path / "out.json").read_text())
    assert told["target"] is None
    assert [entry["pass_name"] for entry in told["result"]["ledger"]] == ["identities"]


WRONG = (
    ({"target": "cpu_avx3"}, "There is no target 'cpu-avx3'; did you mean 'cpu-avx'"),
    ({"config": {"skipped": []}}, "There is no setting 'skipped'; did you mean 'skip'"),
)


@pytest.mark.parametrize(("arguments", "said"), WRONG)
def test_what_is_not_known_is_said_at_once(source, arguments, said):
    with pytest.raises(UsageError, match=said):
        edgeopt.OperatorOptimizer(source, **arguments)


def test_a_setting_of_the_wrong_type_is_said(source, tmp_path):
    with pytest.raises(UsageError, match="opset must be a whole number"):
        edgeopt.OperatorOptimizer(source, config={"opset": "new"}).apply_optimizations(tmp_path / "out.onnx")


def test_shapes_and_the_proof_are_set_in_words_of_python(source, tmp_path):
    config = {"shapes": {"x": (1, 4)}, "verify": False, "data": None}
    result = edgeopt.OperatorOptimizer(source, config=config).apply_optimizations(tmp_path / "out.onnx")
    assert result.not_verified == "--no-verify was given."
    wrong = edgeopt.OperatorOptimizer(source, config={"shapes": {"x": (1, 2)}})
    with pytest.raises(UsageError, match="cannot be 1x2"):
        wrong.apply_optimizations(tmp_path / "out.onnx")


def test_nothing_applied_means_nothing_to_tell(source, tmp_path):
    with pytest.raises(UsageError, match="Nothing has been optimized yet"):
        edgeopt.OperatorOptimizer(source).save_optimization_metadata(tmp_path / "out.json")


def test_operator_types_are_public():
    assert edgeopt.OperatorType.CONVOLUTION in set(edgeopt.OperatorType)


def test_shapes_as_they_are_written():
    assert read_shapes(("image=1x3x224x224", "a=b=2", "scalar=")) == {
        "image": (1, 3, 224, 224),
        "a=b": (2,),
        "scalar": (),
    }


@pytest.mark.parametrize("wrong", ["x", "x=1,2", "x=ax3", "=1x2", "x=1x"])
def test_what_is_no_shape(wrong):
    with pytest.raises(UsageError, match="is not a shape"):
        read_shapes((wrong,))
