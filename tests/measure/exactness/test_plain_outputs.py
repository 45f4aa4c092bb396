import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper

from edgeopt.commands.simplify.request import Request
from edgeopt.commands.simplify.simplify import simplify

pytest.importorskip("onnxruntime", reason="models are run in ONNX Runtime")
PARTS = """<ir_version: 8, opset_import: ["" : 17]> g (float[4,3] x) => (seq(float[2,3]) y) {
    a = Identity(x)  s = SplitToSequence <axis = 0> (a, n)  y = Identity(s) }"""


def proved(tmp_path, proto):
    onnx.save(proto, tmp_path / "model.onnx")
    return simplify(Request(tmp_path / "model.onnx", tmp_path / "out.onnx"))


def test_a_sequence_is_proved_by_its_elements_and_stays_a_sequence(tmp_path):
    proto = onnx.parser.parse_model(PARTS)
    proto.graph.initializer.append(helper.make_tensor("n", TensorProto.INT64, [], [2]))
    found = proved(tmp_path, proto)
    assert (found.not_verified, found.snr_db) == (None, 200.0)
    assert {output.name for output in found.outputs} == {"y.length", "y.elements"}
    (written,) = onnx.load(tmp_path / "out.onnx").graph.output
    assert written.type.WhichOneof("value") == "sequence_type"


def test_a_rewrite_that_changes_a_sequence_is_rolled_back(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from onnxscript.rewriter import pattern\n"
        "RULES = [pattern.RewriteRule(lambda op, x: op.Abs(x), lambda op, x: op.Neg(x))]\n"
    )
    proto = onnx.parser.parse_model(PARTS.replace("Identity(x)", "Abs(x)"))
    proto.graph.initializer.append(helper.make_tensor("n", TensorProto.INT64, [], [2]))
    onnx.save(proto, tmp_path / "model.onnx")
    order = Request(tmp_path / "model.onnx", tmp_path / "out.onnx", rules=(tmp_path / "mine.py",))
    assert any(entry.rolled_back for entry in simplify(order).ledger)


def test_the_maps_of_a_classifier_are_proved_by_their_values(tmp_path):
    maps = onnx.TypeProto()
    maps.sequence_type.elem_type.map_type.key_type = TensorProto.INT64
    maps.sequence_type.elem_type.map_type.value_type.tensor_type.elem_type = TensorProto.FLOAT
    nodes = [
        helper.make_node("Softmax", ["x"], ["p"]),
        helper.make_node("ZipMap", ["p"], ["z"], domain="ai.onnx.ml", classlabels_int64s=[0, 1]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 2])],
        [helper.make_value_info("z", maps)],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 1)]
    found = proved(tmp_path, helper.make_model(graph, opset_imports=opsets, ir_version=8))
    assert (found.not_verified, [output.name for output in found.outputs]) == (None, ["z.values"])
