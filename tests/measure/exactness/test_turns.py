"""Proofs of models whose loops may not run at all, and whose masks may hide whole rows."""

import numpy as np
import onnx
import onnx.parser
import pytest

from edgeopt.commands.simplify.request import SimplifyRequest
from edgeopt.commands.simplify.simplify import simplify

onnxruntime = pytest.importorskip("onnxruntime", reason="models are run in ONNX Runtime")

COLLECTING = """<ir_version: 8, opset_import: ["" : 17]>
    g (int64 n, float[4] x) => (float[4] last, float[M,3] y)
    <float[4,3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}> {
    last, rows = Loop (n, , x) <body = b (int64 i, bool c, float[4] s) => (bool d, float[4] t, float[4] e) {
        d = Identity(c)  t = Mul(s, s)  e = Relu(t) }>
    same = Identity(rows)  y = MatMul(same, w) }"""
DECLARED_WITHIN = """<ir_version: 8, opset_import: ["" : 17]>
    g (int64 n, float[4] x) => (float[4] last, float[M,3] y)
    <float[4,3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}> {
    last, rows = Loop (n, , x) <body = b (int64 i, bool c, float[4] s) => (bool d, float[4] t, float[] e)
        <float[4] t2> {
        d = Identity(c)  t2 = Mul(s, s)  t = Identity(t2)  e = Relu(t2) }>
    same = Identity(rows)  y = MatMul(same, w) }"""


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("text", [COLLECTING, DECLARED_WITHIN])
def test_what_a_loop_collects_in_no_turn_keeps_its_declared_width(tmp_path, text, given):
    proto = onnx.parser.parse_model(text)
    if text == DECLARED_WITHIN:
        body = next(a.g for a in proto.graph.node[0].attribute if a.name == "body")
        body.output[2].type.tensor_type.ClearField("shape")
    onnx.save(proto, tmp_path / "model.onnx")
    feeds = {"n": np.zeros(1, np.int64), "x": np.ones((1, 4), np.float32)}
    np.savez(tmp_path / "none.npz", **feeds)
    data = tmp_path / "none.npz" if given else None
    found = simplify(SimplifyRequest(tmp_path / "model.onnx", tmp_path / "out.onnx", data=data, strict=True))
    assert found.runtime == "ONNX Runtime, CPU"
    assert given or {"counts of 0", "counts of 1"} <= set(found.regimes)
    assert "fails" not in {left.kind for left in found.regimes_left_out}
    for turns in (0, 1, 2, 5):
        asked = {"n": np.array(turns, np.int64), "x": np.ones(4, np.float32)}
        sessions = [onnxruntime.InferenceSession(tmp_path / name) for name in ("model.onnx", "out.onnx")]
        wanted, got = (session.run(None, asked) for session in sessions)
        assert [one.tolist() for one in got] == [one.tolist() for one in wanted]
        assert got[1].shape == (turns, 3)


def test_strict_fuses_no_attention_whose_float_mask_may_hide_a_whole_row(tmp_path):
    text = """<ir_version: 11, opset_import: ["" : 23]> g (float[1,2,3,4] q, float[1,2,5,4] k, float[1,2,5,4] v,
        float[1,1,3,5] m) => (float[1,2,3,4] y) {
        t = Transpose <perm = [0, 1, 3, 2]> (k)  s = MatMul(q, t)  a = Add(s, m)  w = Softmax <axis = -1> (a)
        y = MatMul(w, v) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "model.onnx")
    found = simplify(SimplifyRequest(tmp_path / "model.onnx", tmp_path / "out.onnx", strict=True))
    undone = {one.pass_name: one.rolled_back for one in found.ledger if one.rolled_back}
    assert "masked rows of minus infinity" in undone["attention"]
    assert "Attention" not in {node.op_type for node in onnx.load(tmp_path / "out.onnx").graph.node}
