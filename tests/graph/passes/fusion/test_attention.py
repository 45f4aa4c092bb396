import numpy as np
import pytest

from edgeopt.graph.passes.base import PassContext
from edgeopt.graph.passes.fusion.attention import PASS

RANDOM = np.random.default_rng(8)
QUERY = RANDOM.standard_normal((2, 3, 8)).astype(np.float32)
KEY = RANDOM.standard_normal((2, 5, 8)).astype(np.float32)
PACKED = {"heads": np.array([0, -1, 2, 4]), "whole": np.array([0, 0, 8]), "root": np.float32(2)}
CONTEXT = "w = Softmax <axis = -1> (a) c = MatMul(w, v)"
SPLIT = """qs = Reshape(q, heads) qt = Transpose <perm = [0,2,1,3]> (qs)
    ks = Reshape(k, heads) kt = Transpose <perm = [0,2,3,1]> (ks)
    vs = Reshape(k, heads) v = Transpose <perm = [0,2,1,3]> (vs)"""
MERGE = "t = Transpose <perm = [0,2,1,3]> (c) y = Reshape(t, whole)"
HEADS = f"{SPLIT} s = MatMul(qt, kt) a = Div(s, root) {CONTEXT} {MERGE}"
GRAPH = "g (float[2,3,8] q, float[2,5,8] k) => (float[2,3,8] y) {{ {} }}"
FOUR = "g (float[2,2,3,4] q, float[2,2,5,4] k, float[2,2,5,4] v) => (float[2,2,3,4] c) {{ {} }}"
TURN = "kt = Transpose <perm = [0,1,3,2]> (k)"
FEEDS = {
    name: RANDOM.standard_normal((2, 2, rows, 4)).astype(np.float32)
    for name, rows in (("q", 3), ("k", 5), ("v", 5))
}


def attributes(result):
    fused = next(node for node in result.model.graph if node.op_type == "Attention")
    return {name: getattr(value, "value", value) for name, value in fused.attributes.items()}


def test_packed_heads_go_in_as_they_are(make_model, shaped, apply_pass, kinds):
    model = shaped(make_model(GRAPH.format(HEADS), opset=23, **PACKED))
    result = apply_pass(PASS, model, 1e-5, q=QUERY, k=KEY)
    assert kinds(result.model) == ["Attention"]
    assert attributes(result) == {"q_num_heads": 2, "kv_num_heads": 2, "scale": pytest.approx(0.5)}


SCALED = (
    f"{TURN} s = MatMul(q, kt) a = Mul(s, f) {CONTEXT}",
    f"{TURN} p = Mul(f, q) a = MatMul(p, kt) {CONTEXT}",
    f"{TURN} u = Mul(kt, f) a = MatMul(q, u) {CONTEXT}",
    f"l = Mul(k, f) kt = Transpose <perm = [0,1,3,2]> (l) a = MatMul(q, kt) {CONTEXT}",
)


@pytest.mark.parametrize("body", SCALED)
def test_wherever_the_scale_stands(make_model, apply_pass, kinds, body):
    result = apply_pass(PASS, make_model(FOUR.format(body), opset=23, f=np.float32(0.3)), 1e-5, **FEEDS)
    assert kinds(result.model) == ["Attention"]
    assert attributes(result) == {"scale": pytest.approx(0.3)}


@pytest.mark.parametrize("shape", [(3, 5), (2, 1, 1, 5), (2, 2, 3, 5), (5,), (1, 5), (1, 1, 5), (2, 3, 5)])
def test_a_mask_is_added(make_model, apply_pass, kinds, shape):
    dims = ",".join(map(str, shape))
    text = FOUR.format(f"{TURN} s = MatMul(q, kt) a = Add(m, s) {CONTEXT}").replace(
        "v) =>", f"v, float[{dims}] m) =>"
    )
    mask = RANDOM.standard_normal(shape).astype(np.float32)
    result = apply_pass(PASS, make_model(text, opset=23), 1e-5, **FEEDS, m=mask)
    assert "Softmax" not in kinds(result.model)


def test_two_masks_become_one(make_model, apply_pass, kinds):
    text = FOUR.format(f"{TURN} s = MatMul(q, kt) r = Add(s, m) a = Add(r, n) {CONTEXT}")
    text = text.replace("v) =>", "v, float[2,3,5] m, float[2,1,1,5] n) =>")
    masks = {"m": (2, 3, 5), "n": (2, 1, 1, 5)}
    masks = {name: RANDOM.standard_normal(shape).astype(np.float32) for name, shape in masks.items()}
    result = apply_pass(PASS, make_model(text, opset=23), 1e-5, **FEEDS, **masks)
    assert kinds(result.model) == ["Add", "Attention"]


@pytest.mark.parametrize(("masked", "where"), [(-3.4e38, "Where(seen, s, low)"), (-np.inf, "Where(seen, low, s)")])
def test_replaced_scores_become_a_mask(make_model, apply_pass, kinds, masked, where):
    text = FOUR.format(f"{TURN} s = MatMul(q, kt) a = {where} {CONTEXT}").replace("v) =>", "v, bool[3,5] seen) =>")
    seen = RANDOM.random((3, 5)) < 0.5
    seen[:, 0], seen[:, 1] = True, False
    model = make_model(text, opset=23, low=np.float32(masked))
    result = apply_pass(PASS, model, 1e-5, **FEEDS, seen=seen)
    assert "Softmax" not in kinds(result.model)


def test_inside_a_branch(make_model, apply_pass, kinds):
    text = f"""g (bool b, float[2,2,3,4] q, float[2,2,5,4] k, float[2,2,5,4] v) => (float[2,2,3,4] o) {{
        o = If (b) <then_branch = t () => (float[2,2,3,4] c) {{ {TURN} a = MatMul(q, kt) {CONTEXT} }},
                    else_branch = e () => (float[2,2,3,4] n) {{ n = Neg(q) }}> }}"""
    result = apply_pass(PASS, make_model(text, opset=23), 1e-5, **FEEDS, b=np.array(True))
    assert "Softmax" not in kinds(result.model)


def test_heads_that_mix_rows_are_not_taken_as_packed(make_model, shaped, apply_pass, kinds):
    # (3, 2) for (2, 3) rows: the numbers are the same, and stand elsewhere.
    weights = dict(PACKED, heads=np.array([3, 2, 2, 4]), whole=np.array([2, 3, 8]))
    text = GRAPH.format(HEADS).replace("float[2,5,8] k", "float[2,3,8] k")
    result = apply_pass(PASS, shaped(make_model(text, opset=23, **weights)), 1e-5, q=QUERY, k=QUERY)
    assert "q_num_heads" not in attributes(result)


REFUSED = (
    (f"{TURN} s = MatMul(q, kt) a = Where(seen, s, low) {CONTEXT}", "masked scores become -10000"),
    (f"{TURN} s = MatMul(q, kt) a = Add(s, column) {CONTEXT}", "a column for every key"),
    (f"{TURN} a = MatMul(q, kt) {CONTEXT} extra = Neg(w)", "the result of Softmax 'w' is used elsewhere too"),
)


@pytest.mark.parametrize(("body", "reason"), REFUSED)
def test_says_why_it_does_not_fuse(make_model, kinds, reasons, body, reason):
    weights = {"low": np.float32(-10000), "seen": np.ones((3, 5), bool), "column": np.ones((3, 1), np.float32)}
    weights = {name: array for name, array in weights.items() if name in body}
    text = FOUR.format(body)
    if "extra" in body:
        text = text.replace("float[2,2,3,4] c)", "float[2,2,3,4] c, float[2,2,3,5] extra)")
    result = PASS.apply(make_model(text, opset=23, **weights).ir, PassContext())
    assert reason in reasons(result)
    assert result.refused[0].nodes == ("MatMul 'c'",)
    assert "Softmax" in kinds(result.model)


def test_below_opset_23_it_says_what_raises_it(make_model, reasons):
    text = FOUR.format(f"{TURN} a = MatMul(q, kt) {CONTEXT}")
    assert "Attention needs opset 23" in reasons(PASS.apply(make_model(text).ir, PassContext()))


GUARD = "n = IsNaN(p) w = Where(n, zero, p)"


def test_a_guard_against_no_numbers_goes_where_nothing_is_masked(make_model, apply_pass, kinds):
    body = f"{TURN} a = MatMul(q, kt) p = Softmax <axis = -1> (a) {GUARD} c = MatMul(w, v)"
    result = apply_pass(PASS, make_model(FOUR.format(body), opset=23, zero=np.float32(0)), 1e-5, **FEEDS)
    assert kinds(result.model) == ["Attention"]
    masked = body.replace("a = MatMul(q, kt)", "s = MatMul(q, kt) a = Add(s, m)")
    weights = {"zero": np.float32(0), "m": np.zeros((3, 5), np.float32)}
    result = PASS.apply(make_model(FOUR.format(masked), opset=23, **weights).ir, PassContext())
    assert "fully masked rows are set to zero" in result.refused[0].reason


@pytest.mark.parametrize("shape", ["2,2,3,4", "N,2,3,4", "2,2,T,4"])
def test_operands_that_may_be_empty_stay_where_they_must_give_the_same(make_model, kinds, reasons, shape):
    body = f"{TURN} a = MatMul(q, kt) {CONTEXT}"
    model = make_model(FOUR.format(body).replace("2,2,3,4", shape), opset=23).ir
    usual, strict = (PASS.apply(model, PassContext(empty_inputs=one)) for one in (False, True))
    fixed = shape == "2,2,3,4"
    assert kinds(usual.model) == ["Attention"]
    assert usual.nonempty_only is not fixed
    assert ("Attention" in kinds(strict.model)) is fixed
    assert ("may be empty" in reasons(strict)) is not fixed


def test_heads_within_the_batch_are_news(make_model, reasons):
    text = """g (float[4,3,4] q, float[4,5,4] k, float[4,5,4] v) => (float[4,3,4] c) {
        kt = Transpose <perm = [0,2,1]> (k) a = MatMul(q, kt) w = Softmax <axis = -1> (a) c = MatMul(w, v) }"""
    result = PASS.apply(make_model(text, opset=23).ir, PassContext())
    assert "mix heads and batch" in reasons(result)


GROUPED = """k5 = Unsqueeze(k, two) kx = Expand(k5, wide) kr = Reshape(kx, merged)
    v5 = Unsqueeze(v, two) vx = Expand(v5, wide) vr = Reshape(vx, merged)
    kt = Transpose <perm = [0,1,3,2]> (kr) a = MatMul(q, kt) w = Softmax <axis = -1> (a) c = MatMul(w, vr)"""
REPEATS = {"two": np.array([2]), "wide": np.array([1, 1, 3, 1, 1]), "merged": np.array([2, 6, -1, 4])}


def test_heads_repeated_for_grouped_queries_are_repeated_no_more(make_model, shaped, apply_pass, kinds):
    text = FOUR.format(GROUPED).replace("[2,2,3,4]", "[2,6,3,4]")
    feeds = dict(FEEDS, q=RANDOM.standard_normal((2, 6, 3, 4)).astype(np.float32))
    result = apply_pass(PASS, shaped(make_model(text, opset=23, **REPEATS)), 1e-5, **feeds)
    assert kinds(result.model) == ["Attention"]
    # The whole list of heads over and over is another order, which Attention does not mean.
    tiled = text.replace("k5 = Unsqueeze(k, two)", "k5 = Unsqueeze(k, one)").replace(
        "kx = Expand(k5, wide)", "kx = Expand(k5, list)"
    )
    weights = dict(REPEATS, one=np.array([1]), list=np.array([1, 3, 1, 1, 1]))
    result = apply_pass(PASS, shaped(make_model(tiled, opset=23, **weights)), 1e-5, **feeds)
    assert sorted(kinds(result.model)) == sorted(["Unsqueeze", "Expand", "Reshape"] * 2 + ["Attention"])
