import numpy as np
import pytest

from edgeopt.graph.passes.fusion.matmul_add_to_gemm import PASS

RANDOM = np.random.default_rng(6)


def array(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("bias", [(4,), (1, 4), (1,), ()])
@pytest.mark.parametrize("add", ["Add(m, b)", "Add(b, m)"])
def test_product_and_bias_become_a_gemm(make_model, shaped, apply_pass, kinds, bias, add):
    model = shaped(make_model(f"g (float[n,3] x) => (float[n,4] y) {{ m = MatMul(x, w) y = {add} }}",
                              w=array(3, 4), b=array(*bias)))  # fmt: skip
    result = apply_pass(PASS, model, 1e-5, x=array(2, 3))
    assert kinds(result.model) == ["Gemm"]
    assert [o.name for o in result.model.graph.outputs] == ["y"]


def test_in_a_subgraph(make_model, shaped, apply_pass, kinds):
    text = """g (float[2,3] x, bool p) => (float[2,4] y) { y = If (p) <
        then_branch = t () => (float[2,4] u) { m = MatMul(x, w) u = Add(m, b) },
        else_branch = e () => (float[2,4] v) { v = MatMul(x, w) } > }"""
    model = shaped(make_model(text, w=array(3, 4), b=array(4)))
    assert kinds(apply_pass(PASS, model, 1e-5, x=array(2, 3), p=np.array(True)).model) == ["If", "Gemm", "MatMul"]


@pytest.mark.parametrize(("text", "bias", "reason"), [
    ("m = MatMul(x, w) y = Add(m, b) z = Relu(m)", (4,), "used elsewhere"),
    ("m = MatMul(x, w) y = Add(m, b) z = Relu(x)", (2, 4), "one value for each column"),
])  # fmt: skip
def test_what_stays_says_why(make_model, shaped, apply_pass, reasons, text, bias, reason):
    graph = f"g (float[2,3] x) => (float[2,4] y, float[a,b] z) {{ {text} }}"
    model = shaped(make_model(graph, w=array(3, 4), b=array(*bias)))
    result = apply_pass(PASS, model, x=array(2, 3))
    assert reason in reasons(result)
    assert result.refused[0].nodes == ("Add 'y'",)
    assert not result.applied


def test_integers_stay(make_model, shaped, apply_pass, reasons):
    text = "g (int32[2,3] x) => (int32[2,4] y) { m = MatMul(x, w) y = Add(m, b) }"
    model = shaped(make_model(text, w=np.ones((3, 4), np.int32), b=np.ones(4, np.int32)))
    assert "other types than floats" in reasons(apply_pass(PASS, model, x=np.ones((2, 3), np.int32)))


def test_products_of_more_dimensions_are_no_news(make_model, shaped, apply_pass):
    text = "g (float[2,5,3] x) => (float[2,5,4] y) { m = MatMul(x, w) y = Add(m, b) }"
    result = apply_pass(PASS, shaped(make_model(text, w=array(3, 4), b=array(4))), x=array(2, 5, 3))
    assert (result.applied, result.refused) == ((), ())


def test_a_bias_of_unknown_length_stays(make_model, shaped, apply_pass, reasons):
    """Both sizes are unknown, which does not make them equal."""
    text = "g (float[2,3] x, float[3,?] w, float[?] b) => (float[2,n] y) { m = MatMul(x, w) y = Add(m, b) }"
    result = apply_pass(PASS, shaped(make_model(text)), x=array(2, 3), w=array(3, 1), b=array(4))
    assert not result.applied
    assert "may broadcast the result" in reasons(result)
