import numpy as np
import pytest

from edgeopt.graph.passes.base import PassContext
from edgeopt.graph.passes.fusion.swish import PASS

X = np.linspace(-4, 4, 10, dtype=np.float32).reshape(2, 5)
SILU = "s = Sigmoid(x) y = Mul(s, x)"
SCALED = "f = Constant <value_float = 1.702> () a = Mul(f, x) s = Sigmoid(a) y = Mul(x, s)"
GRAPH = "g (float[2,5] x) => (float[2,5] y) {{ {} }}"


@pytest.mark.parametrize(("body", "alpha"), [(SILU, 1.0), (SCALED, 1.702)])
def test_a_sigmoid_gate_becomes_swish(make_model, kinds, results, body, alpha):
    model = make_model(GRAPH.format(body), opset=24).ir
    result = PASS.apply(model, PassContext())
    assert set(kinds(result.model)) - {"Constant"} == {"Swish"}
    fused = next(node for node in result.model.graph if node.op_type == "Swish")
    assert fused.attributes["alpha"].as_float() == pytest.approx(alpha)
    np.testing.assert_allclose(results(result.model, x=X)[0], results(model, x=X)[0], atol=1e-6)


def test_inside_a_branch(make_model, apply_pass, kinds):
    text = f"""g (bool k, float[2,5] x) => (float[2,5] o) {{
        o = If (k) <then_branch = t () => (float[2,5] y) {{ {SILU} }},
                    else_branch = e () => (float[2,5] w) {{ w = Neg(x) }}> }}"""
    result = apply_pass(PASS, make_model(text, opset=24), 1e-6, x=X, k=np.array(True))
    assert "Sigmoid" not in kinds(result.model)


def test_a_gate_for_something_else_is_no_swish(make_model, kinds):
    text = GRAPH.format("s = Sigmoid(x) y = Mul(s, z)").replace("x)", "x, float[2,5] z)", 1)
    result = PASS.apply(make_model(text, opset=24).ir, PassContext())
    assert kinds(result.model) == ["Sigmoid", "Mul"]


def test_says_which_opset_it_needs_and_that_others_read_the_gate(make_model, reasons):
    assert "Swish needs opset 24" in reasons(PASS.apply(make_model(GRAPH.format(SILU)).ir, PassContext()))
    text = GRAPH.format(SILU).replace("float[2,5] y)", "float[2,5] y, float[2,5] s)")
    result = PASS.apply(make_model(text, opset=24).ir, PassContext())
    assert "the result of Sigmoid 's' is used elsewhere too" in reasons(result)
    assert result.refused[0].nodes == ("Sigmoid 's'",)
