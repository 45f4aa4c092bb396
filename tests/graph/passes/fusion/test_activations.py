import numpy as np
import pytest

from edgeopt.graph.passes.base import PassContext
from edgeopt.graph.passes.fusion.activations import GELU, HARD_SWISH

CONSTANTS = """
    root = Constant <value_float = 1.4142135> () inverse = Constant <value_float = 0.70710677> ()
    one = Constant <value_float = 1.0> () half = Constant <value_float = 0.5> ()
    three = Constant <value_float = 3.0> ()
    small = Constant <value_float = 0.044715> () wide = Constant <value_float = 0.7978846> ()
"""
ERF = (
    "a = Div(x, root) e = Erf(a) b = Add(e, one) c = Mul(x, b) y = Mul(c, half)",
    "a = Mul(inverse, x) e = Erf(a) b = Add(one, e) h = Mul(half, x) y = Mul(b, h)",
    "a = Div(x, root) e = Erf(a) d = Mul(e, half) b = Add(half, d) y = Mul(b, x)",
    "a = Mul(x, inverse) e = Erf(a) b = Mul(x, e) c = Add(x, b) y = Mul(c, half)",
)
TANH = (
    """p = Pow(x, three) q = Mul(p, small) r = Add(x, q) a = Mul(r, wide) e = Tanh(a) b = Add(e, one)
       h = Mul(x, half) y = Mul(h, b)""",
    """s = Mul(x, x) q = Mul(small, s) r = Add(one, q) u = Mul(wide, x) a = Mul(u, r) e = Tanh(a) b = Add(one, e)
       c = Mul(b, half) y = Mul(x, c)""",
)
GRAPH = "g (float[2,5] x) => (float[2,5] y) {{ {} {} }}"


@pytest.fixture
def x():
    return np.linspace(-4, 4, 10, dtype=np.float32).reshape(2, 5)


@pytest.mark.parametrize(("kind", "body"), [*(("none", b) for b in ERF), *(("tanh", b) for b in TANH)])
def test_every_spelling_becomes_gelu(make_model, apply_pass, kinds, x, kind, body):
    result = apply_pass(GELU, make_model(GRAPH.format(CONSTANTS, body), opset=20), 1e-6, x=x)
    assert set(kinds(result.model)) - {"Constant"} == {"Gelu"}
    fused = next(node for node in result.model.graph if node.op_type == "Gelu")
    assert fused.attributes["approximate"].as_string() == kind
    assert [o.name for o in result.model.graph.outputs] == ["y"]


def test_of_a_sum_of_products(make_model, apply_pass, kinds, x):
    body = "m = Mul(z, half) n = Mul(m, z) x = Add(n, z) " + ERF[0]
    text = GRAPH.format(CONSTANTS, body).replace("float[2,5] x", "float[2,5] z")
    result = apply_pass(GELU, make_model(text, opset=20), 1e-6, z=x)
    assert kinds(result.model).count("Gelu") == 1


def test_inside_a_branch(make_model, apply_pass, kinds, x):
    text = f"""g (bool k, float[2,5] x) => (float[2,5] o) {{
        o = If (k) <then_branch = t () => (float[2,5] y) {{ {CONSTANTS} {ERF[0]} }},
                    else_branch = e () => (float[2,5] w) {{ w = Neg(x) }}> }}"""
    result = apply_pass(GELU, make_model(text, opset=20), 1e-6, x=x, k=np.array(True))
    assert kinds(result.model).count("Gelu") == 1
    assert "Erf" not in kinds(result.model)


def test_another_function_with_erf_is_no_gelu(make_model, kinds):
    body = ERF[0].replace("Add(e, one)", "Sub(e, one)")
    result = GELU.apply(make_model(GRAPH.format(CONSTANTS, body), opset=20).ir, PassContext())
    assert "Erf" in kinds(result.model)
    assert not result.refused


def test_below_opset_20_it_says_what_raises_it(make_model, kinds, reasons):
    result = GELU.apply(make_model(GRAPH.format(CONSTANTS, ERF[0])).ir, PassContext())
    assert "Gelu needs opset 20; `--opset 20` raises it" in reasons(result)
    assert result.refused[0].nodes == ("Erf 'e'",)
    assert "Erf" in kinds(result.model)


@pytest.mark.parametrize(("reader", "port"), [("", "e"), ("z = Exp(b)", "z")])
def test_what_others_read_stays(make_model, kinds, reasons, reader, port):
    text = GRAPH.format(CONSTANTS, ERF[0] + " " + reader).replace(
        "float[2,5] y)", f"float[2,5] y, float[2,5] {port})"
    )
    result = GELU.apply(make_model(text, opset=20).ir, PassContext())
    assert "is used elsewhere too" in reasons(result)
    assert "Erf" in kinds(result.model)


def test_a_constant_that_adds_dimensions_is_left_alone(make_model, kinds):
    body = ERF[0].replace("Mul(c, half)", "Mul(c, tall)")
    text = GRAPH.format(CONSTANTS, body).replace("float[2,5] y", "float[1,2,5] y")
    result = GELU.apply(make_model(text, opset=20, tall=np.full((1, 1, 1), 0.5, np.float32)).ir, PassContext())
    assert "Erf" in kinds(result.model)


OFF = (
    # (what is written, what takes its place: close to it, and rounded in another way)
    (ERF[0], "1.4142135", "1.4142", "1.4142137"),
    (ERF[0], "1.4142135", "1.41421", "1.4142134"),
    (ERF[0], "0.5>", "0.50001>", "0.5>"),
    (ERF[0], "1.0>", "1.000001>", "1.0>"),
    (TANH[0], "0.044715", "0.04472", "0.044715"),
    (TANH[0], "0.7978846", "0.79788", "0.7978845"),
    (TANH[1], "0.7978846", "0.7979", "0.7978846"),
)


@pytest.mark.parametrize(("body", "number", "other", "rounded"), OFF)
def test_constants_with_few_digits_are_other_functions(make_model, kinds, body, number, other, rounded):
    """1.4142 is not the root of 2: what the model computes with it is 5 digits of a GELU, and stays that."""
    for text, fused in ((other, False), (rounded, True)):
        model = make_model(GRAPH.format(CONSTANTS.replace(number, text), body), opset=20)
        assert ("Gelu" in kinds(GELU.apply(model.ir, PassContext()).model)) is fused


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float64"])
def test_constants_of_other_types_are_rounded_as_those_are(make_model, kinds, kind):
    import ml_dtypes

    dtype = np.dtype(ml_dtypes.bfloat16 if kind == "bfloat16" else kind)
    numbers = {"root": 2**0.5, "one": 1, "half": 0.5}
    text = GRAPH.format("", ERF[0]).replace("float[", f"{'double' if kind == 'float64' else kind}[")
    for factor, fused in ((1, True), (1 + 20 * float(ml_dtypes.finfo(dtype).eps), False)):
        weights = {k: np.asarray(v * (factor if k == "root" else 1), dtype) for k, v in numbers.items()}
        model = make_model(text, opset=20, **weights)
        assert ("Gelu" in kinds(GELU.apply(model.ir, PassContext()).model)) is fused


X = np.linspace(-5, 5, 20, dtype=np.float32).reshape(4, 5)
SIXTHS = """
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
SWISH_GRAPH = "g (float[4,5] x) => (float[4,5] y) {{ {} {} }}"


@pytest.mark.parametrize("body", SPELLINGS)
def test_every_spelling_becomes_hard_swish(make_model, apply_pass, kinds, body):
    result = apply_pass(HARD_SWISH, make_model(SWISH_GRAPH.format(SIXTHS, body)), 1e-6, x=X)
    assert set(kinds(result.model)) - {"Constant"} == {"HardSwish"}


def test_hard_swish_inside_a_branch(make_model, apply_pass, kinds):
    text = f"""g (bool k, float[4,5] x) => (float[4,5] o) {{
        o = If (k) <then_branch = t () => (float[4,5] y) {{ {SIXTHS} {SPELLINGS[0]} }},
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
    result = HARD_SWISH.apply(make_model(SWISH_GRAPH.format(SIXTHS, body)).ir, PassContext())
    assert "HardSwish" not in kinds(result.model)


def test_a_gate_that_others_read_is_left_alone(make_model, kinds, reasons):
    text = SWISH_GRAPH.format(SIXTHS, SPELLINGS[0]).replace("float[4,5] y)", "float[4,5] y, float[4,5] c)")
    result = HARD_SWISH.apply(make_model(text).ir, PassContext())
    assert "the result of Clip 'c' is used elsewhere too" in reasons(result)
    assert result.refused[0].nodes == ("Clip 'c'",)


@pytest.mark.parametrize(("alpha", "beta", "fused"), [
    ("0.16666667", "0.5", True), ("0.1667", "0.5", False), ("0.16667", "0.5", False),
    ("0.16666667", "0.5000001", False),
])  # fmt: skip
def test_a_sixth_with_four_digits_is_no_sixth(make_model, kinds, alpha, beta, fused):
    body = f"h = HardSigmoid <alpha = {alpha}, beta = {beta}> (x) y = Mul(x, h)"
    result = HARD_SWISH.apply(make_model(SWISH_GRAPH.format("", body)).ir, PassContext())
    assert ("HardSwish" in kinds(result.model)) is fused
