import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper

from edgeopt.commands.simplify.request import SimplifyRequest
from edgeopt.commands.simplify.simplify import simplify
from edgeopt.graph.model import load
from edgeopt.measure.exactness.inputs import padded_cases
from tests.masked import HEARD, feeds

pytest.importorskip("onnxruntime", reason="models are run in ONNX Runtime")

# It adds up all rows: what fills a sentence up changes the answer.
UNHEARD = HEARD.replace("seen = Mul (rows, wide)", "none = Sub (wide, wide)  seen = Add (rows, none)")
# It divides by the length, padded or not.
COUNTED = HEARD.replace("y = ReduceSum <keepdims = 0> (seen, one)", "y = ReduceMean <keepdims = 0> (seen, one)")


@pytest.fixture
def write_onnx(tmp_path):
    def write(body):
        onnx.save(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 18]> {body}'), tmp_path / "m.onnx")
        return tmp_path / "m.onnx"

    return write


def test_they_have_lengths_fillings_gaps_and_rows_of_all_kinds(write_onnx):
    model = load(write_onnx(HEARD))
    cases = padded_cases(model.ir, feeds(12))
    alone = [case for case in cases if len(case["ids"]) == 1]
    kept = {int(case["attention_mask"].sum()) for case in alone}
    assert {1, 16, 17, 20, 39, 40} <= kept
    assert any(np.diff(case["attention_mask"][0]).max() > 0 for case in alone), "no gap"
    fillings = {case["ids"].tobytes() for case in alone if case["attention_mask"].sum() == 16}
    assert len(fillings) == 2
    beside = [case for case in cases if len(case["ids"]) == 3]
    assert beside
    assert not beside[0]["attention_mask"][2].any()


def test_a_model_of_one_row_gets_one_row(write_onnx):
    fixed = HEARD.replace("[b,n]", "[1,n]").replace("[b,2]", "[1,2]")
    assert all(len(case["ids"]) == 1 for case in padded_cases(load(write_onnx(fixed)).ir, feeds(12)))


def test_without_a_mask_there_are_none(write_onnx):
    assert padded_cases(load(write_onnx(HEARD)).ir, {"x": np.ones((1, 4), np.float32)}) == []


@pytest.mark.parametrize("body", [HEARD, UNHEARD, COUNTED], ids=["heard", "unheard", "counted"])
def test_padding_is_skipped_only_where_it_is_proved_not_to_matter(write_onnx, tmp_path, body):
    # As data of this kind shows nothing: every sample fills all places.
    np.savez(tmp_path / "full.npz", **{k: np.concatenate([v] * 3)[:, None] for k, v in feeds(40).items()})
    order = SimplifyRequest(
        write_onnx(body), tmp_path / "out.onnx", only=("skip-padding",), data=tmp_path / "full.npz"
    )
    (entry,) = [e for e in simplify(order).ledger if e.applied or e.rolled_back]
    assert bool(entry.rolled_back) == (body is not HEARD)
    if entry.rolled_back:
        assert "it changes the results" in entry.rolled_back


pytest.importorskip("onnxruntime", reason="models are run in ONNX Runtime")
PARTS = """<ir_version: 8, opset_import: ["" : 17]> g (float[4,3] x) => (seq(float[2,3]) y) {
    a = Identity(x)  s = SplitToSequence <axis = 0> (a, n)  y = Identity(s) }"""


def proved(tmp_path, proto):
    onnx.save(proto, tmp_path / "model.onnx")
    return simplify(SimplifyRequest(tmp_path / "model.onnx", tmp_path / "out.onnx"))


def test_a_sequence_is_proved_by_its_elements_and_stays_a_sequence(tmp_path):
    proto = onnx.parser.parse_model(PARTS)
    proto.graph.initializer.append(helper.make_tensor("n", TensorProto.INT64, [], [2]))
    found = proved(tmp_path, proto)
    assert (found.not_verified, found.snr_db) == (None, 200.0)
    assert {output.name for output in found.outputs} == {"y.length", "y.elements", "y.sizes"}
    (written,) = onnx.load(tmp_path / "out.onnx").graph.output
    assert written.type.WhichOneof("value") == "sequence_type"


COLLECTED = """<ir_version: 8, opset_import: ["" : 17]> g (int64 n, float[2,4] x) => (seq(float) y) {
    e = SequenceEmpty()
    y = Loop (n, , e) <body = b (int64 i, bool c, seq(float) s) => (bool d, seq(float) t) {
        d = Identity(c)  r = Relu(x)  t = SequenceInsert(s, r) }> }"""
CUT = """<ir_version: 8, opset_import: ["" : 17]> g (float[N,4] x) => (seq(float) y) {
    a = Identity(x)  y = SplitToSequence <axis = 0> (a) }"""
UNLIKE = """<ir_version: 8, opset_import: ["" : 17]> g (float[2,4] x) => (seq(float) y) {
    a = Identity(x)  r = ReduceSum(a)  y = SequenceConstruct(a, r) }"""


@pytest.mark.parametrize(("text", "regime"), [(COLLECTED, "counts of 0"), (CUT, "no rows"), (UNLIKE, "silence")])
def test_an_empty_sequence_and_one_of_unlike_elements_are_proved_too(tmp_path, text, regime):
    onnx.save(onnx.parser.parse_model(text), tmp_path / "model.onnx")
    found = simplify(SimplifyRequest(tmp_path / "model.onnx", tmp_path / "out.onnx", strict=True))
    assert found.not_verified is None
    assert found.regimes_left_out == ()
    assert regime in found.regimes


def test_a_rewrite_that_changes_a_sequence_is_rolled_back(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from onnxscript.rewriter import pattern\n"
        "RULES = [pattern.RewriteRule(lambda op, x: op.Abs(x), lambda op, x: op.Neg(x))]\n"
    )
    proto = onnx.parser.parse_model(PARTS.replace("Identity(x)", "Abs(x)"))
    proto.graph.initializer.append(helper.make_tensor("n", TensorProto.INT64, [], [2]))
    onnx.save(proto, tmp_path / "model.onnx")
    order = SimplifyRequest(tmp_path / "model.onnx", tmp_path / "out.onnx", rules=(tmp_path / "mine.py",))
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
