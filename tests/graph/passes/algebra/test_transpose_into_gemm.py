import numpy as np
import pytest

from edgeopt.graph.passes.algebra.transpose_into_gemm import PASS

RANDOM = np.random.default_rng(2)
X, W = RANDOM.standard_normal((3, 2)).astype(np.float32), RANDOM.standard_normal((3, 4)).astype(np.float32)


@pytest.mark.parametrize(("text", "x"), [
    ("t = Transpose(x) y = Gemm(t, w)", X),
    ("t = Transpose <perm = [1, 0]> (x) y = Gemm <transA = 1> (t, w)", X.T.copy()),
])  # fmt: skip
def test_the_gemm_reads_it_transposed(make_model, apply_pass, kinds, text, x):
    model = make_model(f"g (float[a,b] x) => (float[c,d] y) {{ {text} }}", w=W)
    assert kinds(apply_pass(PASS, model, x=x).model) == ["Gemm"]


def test_both_sides_and_a_transpose_that_others_read(make_model, apply_pass, kinds):
    text = "g (float[4,3] x) => (float[4,4] y, float[3,4] t) { t = Transpose(x) y = Gemm <transA = 1> (t, t) }"
    result = apply_pass(PASS, make_model(text), x=W.T.copy())
    assert kinds(result.model) == ["Transpose", "Gemm"]
    assert result.applied[0].nodes == ("Transpose 't'",)


def test_in_a_subgraph_and_a_refusal_that_names_the_node(make_model, apply_pass, kinds, reasons):
    text = """g (float[3,2] x, bool p) => (float[2,4] y) { o = Transpose(x) y = If (p) <
        then_branch = t () => (float[2,4] u) { i = Transpose(x) u = Gemm(i, w) },
        else_branch = e () => (float[2,4] v) { v = Gemm(o, w) } > }"""
    result = apply_pass(PASS, make_model(text, w=W), x=X, p=np.array(True))
    assert kinds(result.model) == ["Transpose", "If", "Gemm", "Gemm"]
    assert "outside the subgraph" in reasons(result)
    assert result.refused[0].nodes == ("Transpose 'o'",)


def test_a_transpose_that_turns_nothing_is_left_to_others(make_model, apply_pass):
    text = "g (float[3,3] x) => (float[3,4] y) { t = Transpose <perm = [0, 1]> (x) y = Gemm(t, w) }"
    result = apply_pass(PASS, make_model(text, w=W), x=RANDOM.standard_normal((3, 3)).astype(np.float32))
    assert (result.applied, result.refused) == ((), ())
