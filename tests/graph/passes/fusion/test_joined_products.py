import numpy as np
import pytest

from edgeopt.graph.passes.base import PassContext
from edgeopt.graph.passes.fusion.joined_products import PASS

RANDOM = np.random.default_rng(9)
X = RANDOM.standard_normal((2, 3, 6)).astype(np.float32)
WEIGHTS = {name: RANDOM.standard_normal((6, n)).astype(np.float32) for name, n in (("q", 6), ("k", 6), ("v", 4))}
BIASES = {name: RANDOM.standard_normal(n).astype(np.float32) for name, n in (("bq", 6), ("bk", 6), ("bv", 4))}
GRAPH = "g (float[2,3,6] x) => (float[2,3,6] a, float[2,3,6] b, float[2,3,4] c) {{ {} }}"
PLAIN = "a = MatMul(x, q) b = MatMul(x, k) c = MatMul(x, v)"
BIASED = "d = MatMul(x, q) a = Add(bq, d) e = MatMul(x, k) b = Add(e, bk) f = MatMul(x, v) c = Add(f, bv)"


@pytest.mark.parametrize(
    ("body", "weights", "kept"),
    [(PLAIN, WEIGHTS, ["MatMul", "Split"]), (BIASED, WEIGHTS | BIASES, ["MatMul", "Add", "Split"])],
)
def test_products_of_one_input_become_one(make_model, apply_pass, kinds, body, weights, kept):
    result = apply_pass(PASS, make_model(GRAPH.format(body), opset=18, **weights), 1e-5, x=X)
    assert kinds(result.model) == kept
    assert [o.name for o in result.model.graph.outputs] == ["a", "b", "c"]


def test_a_bias_that_only_some_have_stays(make_model, apply_pass, kinds):
    body = BIASED.replace("d = MatMul(x, q) a = Add(bq, d)", "a = MatMul(x, q)")
    weights = WEIGHTS | {name: array for name, array in BIASES.items() if name != "bq"}
    result = apply_pass(PASS, make_model(GRAPH.format(body), opset=18, **weights), 1e-5, x=X)
    assert kinds(result.model) == ["MatMul", "Split", "Add", "Add"]


def test_inside_a_branch(make_model, apply_pass, kinds):
    text = """g (bool t, float[2,3,6] x) => (float[2,3,6] o) {
        o = If (t) <then_branch = t1 () => (float[2,3,6] y) { a = MatMul(x, q) b = MatMul(x, k) y = Add(a, b) },
                    else_branch = e1 () => (float[2,3,6] z) { z = Neg(x) }> }"""
    weights = {name: WEIGHTS[name] for name in "qk"}
    result = apply_pass(PASS, make_model(text, opset=18, **weights), 1e-5, x=X, t=np.array(True))
    assert kinds(result.model).count("MatMul") == 1


def test_a_weight_with_other_readers_is_not_copied(make_model, kinds, reasons):
    text = GRAPH.format(PLAIN.replace("(x, k)", "(x, q)"))
    weights = {name: array for name, array in WEIGHTS.items() if name != "k"}
    result = PASS.apply(make_model(text, opset=18, **weights).ir, PassContext())
    assert "the weight 'q' is used elsewhere too" in reasons(result)
    assert result.refused[0].nodes == ("MatMul 'a'", "MatMul 'b'", "MatMul 'c'")
    assert kinds(result.model).count("MatMul") == 3


def test_it_runs_only_on_request():
    assert PASS.on_request
