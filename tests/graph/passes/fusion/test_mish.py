import numpy as np
import pytest

from edgeopt.graph.passes.base import PassContext
from edgeopt.graph.passes.fusion.mish import PASS

X = np.linspace(-4, 4, 10, dtype=np.float32).reshape(2, 5)
SPELLINGS = (
    "s = Softplus(x) t = Tanh(s) y = Mul(x, t)",
    "one = Constant <value_float = 1.0> () p = Exp(x) q = Add(one, p) s = Log(q) t = Tanh(s) y = Mul(t, x)",
)
GRAPH = "g (float[2,5] x) => (float[2,5] y) {{ {} }}"


@pytest.mark.parametrize("body", SPELLINGS)
def test_every_spelling_becomes_mish(make_model, apply_pass, kinds, body):
    result = apply_pass(PASS, make_model(GRAPH.format(body), opset=18), 1e-6, x=X)
    assert set(kinds(result.model)) - {"Constant"} == {"Mish"}


def test_inside_a_branch(make_model, apply_pass, kinds):
    text = f"""g (bool k, float[2,5] x) => (float[2,5] o) {{
        o = If (k) <then_branch = t () => (float[2,5] y) {{ {SPELLINGS[0]} }},
                    else_branch = e () => (float[2,5] w) {{ w = Neg(x) }}> }}"""
    result = apply_pass(PASS, make_model(text, opset=18), 1e-6, x=X, k=np.array(True))
    assert "Softplus" not in kinds(result.model)


def test_says_why_it_does_not_fuse(make_model, kinds, reasons):
    assert "Mish needs opset 18" in reasons(PASS.apply(make_model(GRAPH.format(SPELLINGS[0])).ir, PassContext()))
    text = GRAPH.format(SPELLINGS[0]).replace("float[2,5] y)", "float[2,5] y, float[2,5] t)")
    result = PASS.apply(make_model(text, opset=18).ir, PassContext())
    assert "the result of Tanh 't' is used elsewhere too" in reasons(result)
    assert "Mish" not in kinds(result.model)
