import numpy as np
import pytest

from edgeopt.graph.passes.base import PassContext
from edgeopt.graph.passes.fusion.activations import HARD_SWISH

X = np.linspace(-5, 5, 20, dtype=np.float32).reshape(4, 5)
CONSTANTS = """
    zero = Constant <value_float = 0.0> () one = Constant <value_float = 1.0> ()
    three = Constant <value_float = 3.0> ()
    six = Constant <value_float = 6.0> () sixth = Constant <value_float = 0.16666667> ()
    half = Constant <value_float = 0.5> ()
"""
SPELLINGS = (
    "a = Add(x, three) c = Clip(a, zero, six) m = Mul(x, c) y = Div(m, six)",
    "a = Add(three, x) c = Clip(a, zero, six) d = Mul(c, sixth) y = Mul(d, x)",
    "s = Mul(x, sixth) a = Add(s, half) c = Clip(a, zero, one) y = Mul(x, c)",
    "h = HardSigmoid <alpha = 0.16666667, beta = 0.5> (x) y = Mul(x, h)",
    "a = Add(x, three) r = Relu(a) c = Min(r, six) d = Div(c, six) y = Mul(x, d)",
)
GRAPH = "g (float[4,5] x) => (float[4,5] y) {{ {} {} }}"


@pytest.mark.parametrize("body", SPELLINGS)
def test_every_spelling_becomes_hard_swish(make_model, apply_pass, kinds, body):
    result = apply_pass(HARD_SWISH, make_model(GRAPH.format(CONSTANTS, body)), 1e-6, x=X)
    assert set(kinds(result.model)) - {"Constant"} == {"HardSwish"}


def test_inside_a_branch(make_model, apply_pass, kinds):
    text = f"""g (bool k, float[4,5] x) => (float[4,5] o) {{
        o = If (k) <then_branch = t () => (float[4,5] y) {{ {CONSTANTS} {SPELLINGS[0]} }},
                    else_branch = e () => (float[4,5] w) {{ w = Neg(x) }}> }}"""
    result = apply_pass(HARD_SWISH, make_model(text), 1e-6, x=X, k=np.array(True))
    assert "Clip" not in kinds(result.model)


@pytest.mark.parametrize(
    "body",
    [
        SPELLINGS[0].replace("Clip(a, zero, six)", "Clip(a, zero, three)"),
        SPELLINGS[0].replace("Add(x, three)", "Add(x, one)"),
        "h = HardSigmoid (x) y = Mul(x, h)",
        "h = HardSigmoid <alpha = 0.0> (x) y = Mul(x, h)",
    ],
)
def test_other_gates_are_left_alone(make_model, kinds, body):
    result = HARD_SWISH.apply(make_model(GRAPH.format(CONSTANTS, body)).ir, PassContext())
    assert "HardSwish" not in kinds(result.model)


def test_a_gate_that_others_read_is_left_alone(make_model, kinds, reasons):
    text = GRAPH.format(CONSTANTS, SPELLINGS[0]).replace("float[4,5] y)", "float[4,5] y, float[4,5] c)")
    result = HARD_SWISH.apply(make_model(text).ir, PassContext())
    assert "the result of Clip 'c' is used elsewhere too" in reasons(result)
    assert result.refused[0].nodes == ("Clip 'c'",)


@pytest.mark.parametrize(("alpha", "beta", "fused"), [
    ("0.16666667", "0.5", True), ("0.1667", "0.5", False), ("0.16667", "0.5", False),
    ("0.16666667", "0.5000001", False),
])  # fmt: skip
def test_a_sixth_with_four_digits_is_no_sixth(make_model, kinds, alpha, beta, fused):
    body = f"h = HardSigmoid <alpha = {alpha}, beta = {beta}> (x) y = Mul(x, h)"
    result = HARD_SWISH.apply(make_model(GRAPH.format("", body)).ir, PassContext())
    assert ("HardSwish" in kinds(result.model)) is fused
