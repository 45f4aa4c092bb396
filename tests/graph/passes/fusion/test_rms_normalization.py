import numpy as np
import pytest

from edgeopt.graph.passes.base import PassContext
from edgeopt.graph.passes.fusion.normalizations import RMS_NORMALIZATION

RANDOM = np.random.default_rng(6)
X = RANDOM.standard_normal((2, 3, 8)).astype(np.float32)
WEIGHTS = {"gamma": RANDOM.standard_normal(8).astype(np.float32), "axes": np.array([-1])}
CONSTANTS = """
    two = Constant <value_float = 2.0> () eps = Constant <value_float = 0.000001> ()
    one = Constant <value_float = 1.0> ()
"""
SPELLINGS = (
    "p = Pow(x, two) v = ReduceMean(p, axes) w = Add(v, eps) r = Sqrt(w) n = Div(x, r) y = Mul(gamma, n)",
    """p = Mul(x, x) v = ReduceMean(p, axes) w = Add(eps, v) r = Sqrt(w) i = Div(one, r) n = Mul(i, x)
       y = Mul(n, gamma)""",
    """p = Pow(x, two) v = ReduceMean(p, axes) w = Add(v, eps) r = Sqrt(w) i = Reciprocal(r) n = Mul(x, i)
       y = Mul(n, gamma)""",
)
GRAPH = "g (float[2,3,8] x) => (float[2,3,8] y) {{ {} {} }}"


@pytest.mark.parametrize("body", SPELLINGS)
def test_every_spelling_becomes_one_operator(make_model, apply_pass, kinds, body):
    result = apply_pass(
        RMS_NORMALIZATION, make_model(GRAPH.format(CONSTANTS, body), opset=23, **WEIGHTS), 1e-5, x=X
    )
    assert set(kinds(result.model)) - {"Constant"} == {"RMSNormalization"}


def test_inside_a_branch(make_model, apply_pass, kinds):
    text = f"""g (bool k, float[2,3,8] x) => (float[2,3,8] o) {{
        o = If (k) <then_branch = t () => (float[2,3,8] y) {{ {CONSTANTS} {SPELLINGS[0]} }},
                    else_branch = e () => (float[2,3,8] q) {{ q = Neg(x) }}> }}"""
    result = apply_pass(RMS_NORMALIZATION, make_model(text, opset=23, **WEIGHTS), 1e-5, x=X, k=np.array(True))
    assert "ReduceMean" not in kinds(result.model)


def test_a_layer_normalization_is_left_to_its_own_pass(make_model, kinds):
    body = "m = ReduceMean(x, axes) d = Sub(x, m) " + SPELLINGS[0].replace("(x,", "(d,")
    result = RMS_NORMALIZATION.apply(
        make_model(GRAPH.format(CONSTANTS, body), opset=23, **WEIGHTS).ir, PassContext()
    )
    assert "RMSNormalization" not in kinds(result.model)


def test_says_why_it_does_not_fuse(make_model, kinds, reasons):
    older = GRAPH.format(CONSTANTS, SPELLINGS[0].replace("ReduceMean(p, axes)", "ReduceMean <axes = [-1]> (p)"))
    result = RMS_NORMALIZATION.apply(make_model(older, gamma=WEIGHTS["gamma"]).ir, PassContext())
    assert "RMSNormalization needs opset 23; `--opset 23` raises it" in reasons(result)
    assert result.refused[0].nodes == ("ReduceMean 'v'",)
    text = GRAPH.format(CONSTANTS, SPELLINGS[0]).replace("[2,3,8] y)", "[2,3,8] y, float[2,3,1] r)")
    result = RMS_NORMALIZATION.apply(make_model(text, opset=23, **WEIGHTS).ir, PassContext())
    assert "the result of Sqrt 'r' is used elsewhere too" in reasons(result)
    assert "RMSNormalization" not in kinds(result.model)
