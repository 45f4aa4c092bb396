import numpy as np
import pytest

from edgeopt.graph.passes.base import PassContext
from edgeopt.graph.passes.fusion.normalizations import LAYER_NORMALIZATION, RMS_NORMALIZATION

RANDOM = np.random.default_rng(5)
X = RANDOM.standard_normal((2, 3, 8)).astype(np.float32)
WEIGHTS = {name: RANDOM.standard_normal(8).astype(np.float32) for name in ("gamma", "beta")}
CONSTANTS = """
    two = Constant <value_float = 2.0> () eps = Constant <value_float = 0.00001> ()
    one = Constant <value_float = 1.0> ()
    half = Constant <value_float = 0.5> () minus = Constant <value_float = -0.5> ()
"""
CENTRED = "m = ReduceMean <axes = [-1]> (x) d = Sub(x, m)"
VARIANCE = "p = Pow(d, two) v = ReduceMean <axes = [-1]> (p) w = Add(v, eps)"
AFFINE = "s = Mul(n, gamma) y = Add(s, beta)"
SPELLINGS = (
    f"{CENTRED} {VARIANCE} r = Sqrt(w) n = Div(d, r) {AFFINE}",
    f"""{CENTRED} p = Mul(d, d) v = ReduceMean <axes = [2]> (p) w = Add(eps, v) r = Sqrt(w) i = Div(one, r)
        n = Mul(i, d) s = Mul(gamma, n) y = Add(beta, s)""",
    f"{CENTRED} {VARIANCE} r = Sqrt(w) i = Reciprocal(r) n = Mul(d, i) {AFFINE}",
    f"{CENTRED} {VARIANCE} i = Pow(w, minus) n = Mul(d, i) {AFFINE}",
    f"{CENTRED} {VARIANCE} r = Pow(w, half) n = Div(d, r) {AFFINE}",
)
GRAPH = "g (float[2,3,8] x) => (float[2,3,8] y) {{ {} {} }}"


@pytest.mark.parametrize("body", SPELLINGS)
def test_every_spelling_becomes_one_operator(make_model, shaped, apply_pass, kinds, body):
    result = apply_pass(
        LAYER_NORMALIZATION, shaped(make_model(GRAPH.format(CONSTANTS, body), **WEIGHTS)), 1e-5, x=X
    )
    assert set(kinds(result.model)) - {"Constant"} == {"LayerNormalization"}


@pytest.mark.parametrize("end", ["", "y = Mul(n, gamma)"])
def test_without_shift_or_scale(make_model, apply_pass, kinds, end):
    body = SPELLINGS[0].replace(AFFINE, end or "y = Identity(n)")
    weights = {"gamma": WEIGHTS["gamma"]} if end else {}
    result = apply_pass(LAYER_NORMALIZATION, make_model(GRAPH.format(CONSTANTS, body), **weights), 1e-5, x=X)
    assert set(kinds(result.model)) - {"Constant", "Identity"} == {"LayerNormalization"}


def test_over_two_dimensions(make_model, apply_pass, kinds):
    body = SPELLINGS[0].replace("[-1]", "[-2, -1]")
    weights = {name: RANDOM.standard_normal((3, 8)).astype(np.float32) for name in ("gamma", "beta")}
    result = apply_pass(LAYER_NORMALIZATION, make_model(GRAPH.format(CONSTANTS, body), **weights), 1e-5, x=X)
    fused = next(node for node in result.model.graph if node.op_type == "LayerNormalization")
    assert fused.attributes["axis"].as_int() == -2


def test_a_scale_that_does_not_fit_stays_behind_it(make_model, apply_pass, kinds):
    weights = dict(WEIGHTS, gamma=RANDOM.standard_normal((3, 8)).astype(np.float32))
    result = apply_pass(
        LAYER_NORMALIZATION, make_model(GRAPH.format(CONSTANTS, SPELLINGS[0]), **weights), 1e-5, x=X
    )
    assert [kind for kind in kinds(result.model) if kind != "Constant"] == ["LayerNormalization", "Mul", "Add"]


def test_inside_a_branch(make_model, apply_pass, kinds):
    text = f"""g (bool k, float[2,3,8] x) => (float[2,3,8] o) {{
        o = If (k) <then_branch = t () => (float[2,3,8] y) {{ {CONSTANTS} {SPELLINGS[0]} }},
                    else_branch = e () => (float[2,3,8] q) {{ q = Neg(x) }}> }}"""
    result = apply_pass(LAYER_NORMALIZATION, make_model(text, **WEIGHTS), 1e-5, x=X, k=np.array(True))
    assert "ReduceMean" not in kinds(result.model)


def test_means_over_other_dimensions_are_left_alone(make_model, kinds):
    body = SPELLINGS[0].replace("[-1]", "[1]")
    result = LAYER_NORMALIZATION.apply(make_model(GRAPH.format(CONSTANTS, body), **WEIGHTS).ir, PassContext())
    assert "LayerNormalization" not in kinds(result.model)


REFUSED = (
    (GRAPH.replace("[2,3,8] y)", "[2,3,8] y, float[2,3,8] d)"), SPELLINGS[0], "Sub 'd' is used elsewhere too"),
    (
        GRAPH.replace("[2,3,8]", "[2,3,N]"),
        SPELLINGS[0].replace(AFFINE, "y = Identity(n)"),
        "the size of the normalized dimension is not known",
    ),
    (GRAPH.replace("float[", "double["), SPELLINGS[0].replace(AFFINE, "y = Identity(n)"), "float64"),
)


@pytest.mark.parametrize(("graph", "body", "reason"), REFUSED)
def test_says_why_it_does_not_fuse(make_model, kinds, reasons, graph, body, reason):
    double = {"two": np.float64(2.0), "eps": np.float64(1e-5)}
    weights = double if "double" in graph else WEIGHTS if "gamma" in body else {}
    constants = "" if "double" in graph else CONSTANTS
    result = LAYER_NORMALIZATION.apply(make_model(graph.format(constants, body), **weights).ir, PassContext())
    assert reason in reasons(result)
    assert result.refused[0].nodes == ("ReduceMean 'v'",)
    assert "LayerNormalization" not in kinds(result.model)


@pytest.mark.parametrize("epsilon", [1e-30, 1e-12, 1e-5, 1e-3, 0.5])
def test_epsilon_is_carried_over_to_the_last_bit(make_model, shaped, apply_pass, epsilon):
    text = GRAPH.format(
        CONSTANTS.replace("0.00001", f"{epsilon:.20f}" if epsilon > 1e-20 else "1e-30"), SPELLINGS[0]
    )
    result = apply_pass(LAYER_NORMALIZATION, shaped(make_model(text, **WEIGHTS)), 1e-5, x=X)
    fused = next(node for node in result.model.graph if node.op_type == "LayerNormalization")
    assert np.float32(fused.attributes["epsilon"].as_float()) == np.float32(epsilon)


@pytest.mark.parametrize(("number", "other"), [("2.0>", "2.00001>"), ("0.5>", "0.50001>")])
def test_another_exponent_is_no_variance(make_model, shaped, kinds, number, other):
    body = SPELLINGS[4]
    result = LAYER_NORMALIZATION.apply(
        shaped(make_model(GRAPH.format(CONSTANTS.replace(number, other), body), **WEIGHTS)).ir, PassContext()
    )
    assert "LayerNormalization" not in kinds(result.model)


RMS_RANDOM = np.random.default_rng(6)
RMS_X = RMS_RANDOM.standard_normal((2, 3, 8)).astype(np.float32)
RMS_WEIGHTS = {"gamma": RMS_RANDOM.standard_normal(8).astype(np.float32), "axes": np.array([-1])}
RMS_CONSTANTS = """
    two = Constant <value_float = 2.0> () eps = Constant <value_float = 0.000001> ()
    one = Constant <value_float = 1.0> ()
"""
RMS_SPELLINGS = (
    "p = Pow(x, two) v = ReduceMean(p, axes) w = Add(v, eps) r = Sqrt(w) n = Div(x, r) y = Mul(gamma, n)",
    """p = Mul(x, x) v = ReduceMean(p, axes) w = Add(eps, v) r = Sqrt(w) i = Div(one, r) n = Mul(i, x)
       y = Mul(n, gamma)""",
    """p = Pow(x, two) v = ReduceMean(p, axes) w = Add(v, eps) r = Sqrt(w) i = Reciprocal(r) n = Mul(x, i)
       y = Mul(n, gamma)""",
)
RMS_GRAPH = "g (float[2,3,8] x) => (float[2,3,8] y) {{ {} {} }}"


@pytest.mark.parametrize("body", RMS_SPELLINGS)
def test_every_spelling_becomes_one_rms_normalization(make_model, apply_pass, kinds, body):
    result = apply_pass(
        RMS_NORMALIZATION,
        make_model(RMS_GRAPH.format(RMS_CONSTANTS, body), opset=23, **RMS_WEIGHTS),
        1e-5,
        x=RMS_X,
    )
    assert set(kinds(result.model)) - {"Constant"} == {"RMSNormalization"}


def test_rms_normalization_inside_a_branch(make_model, apply_pass, kinds):
    text = f"""g (bool k, float[2,3,8] x) => (float[2,3,8] o) {{
        o = If (k) <then_branch = t () => (float[2,3,8] y) {{ {RMS_CONSTANTS} {RMS_SPELLINGS[0]} }},
                    else_branch = e () => (float[2,3,8] q) {{ q = Neg(x) }}> }}"""
    result = apply_pass(
        RMS_NORMALIZATION, make_model(text, opset=23, **RMS_WEIGHTS), 1e-5, x=RMS_X, k=np.array(True)
    )
    assert "ReduceMean" not in kinds(result.model)


def test_a_layer_normalization_is_left_to_its_own_pass(make_model, kinds):
    body = "m = ReduceMean(x, axes) d = Sub(x, m) " + RMS_SPELLINGS[0].replace("(x,", "(d,")
    result = RMS_NORMALIZATION.apply(
        make_model(RMS_GRAPH.format(RMS_CONSTANTS, body), opset=23, **RMS_WEIGHTS).ir, PassContext()
    )
    assert "RMSNormalization" not in kinds(result.model)


def test_rms_normalization_says_why_it_does_not_fuse(make_model, kinds, reasons):
    older = RMS_GRAPH.format(
        RMS_CONSTANTS, RMS_SPELLINGS[0].replace("ReduceMean(p, axes)", "ReduceMean <axes = [-1]> (p)")
    )
    result = RMS_NORMALIZATION.apply(make_model(older, gamma=RMS_WEIGHTS["gamma"]).ir, PassContext())
    assert "RMSNormalization needs opset 23; `--opset 23` raises it" in reasons(result)
    assert result.refused[0].nodes == ("ReduceMean 'v'",)
    text = RMS_GRAPH.format(RMS_CONSTANTS, RMS_SPELLINGS[0]).replace("[2,3,8] y)", "[2,3,8] y, float[2,3,1] r)")
    result = RMS_NORMALIZATION.apply(make_model(text, opset=23, **RMS_WEIGHTS).ir, PassContext())
    assert "the result of Sqrt 'r' is used elsewhere too" in reasons(result)
    assert "RMSNormalization" not in kinds(result.model)
