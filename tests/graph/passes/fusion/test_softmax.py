import numpy as np
import pytest

from edgeopt.graph.passes.base import PassContext
from edgeopt.graph.passes.fusion.activations import OVERFLOWS, VANISHES
from edgeopt.graph.passes.fusion.activations import SOFTMAX as PASS

X = np.random.default_rng(7).standard_normal((2, 3, 8)).astype(np.float32)
AXES = {"axes": np.array([-1])}
SHIFTED = "m = ReduceMax <axes = [-1]> (x) d = Sub(x, m)"
PLAIN = "e = Exp(x) s = ReduceSum(e, axes) y = Div(e, s)"
SOFTMAX = (
    f"{SHIFTED} e = Exp(d) s = ReduceSum(e, axes) y = Div(e, s)",
    f"{SHIFTED} e = Exp(d) s = ReduceSum(e, axes) i = Reciprocal(s) y = Mul(i, e)",
)
LOG_SOFTMAX = (
    f"{SHIFTED} e = Exp(d) s = ReduceSum(e, axes) l = Log(s) y = Sub(d, l)",
    "l = ReduceLogSumExp <axes = [-1]> (x) y = Sub(x, l)",
)
GRAPH = "g (float[2,3,8] x) => (float[2,3,8] y) {{ {} }}"


@pytest.mark.parametrize(
    ("kind", "body"), [*(("Softmax", b) for b in SOFTMAX), *(("LogSoftmax", b) for b in LOG_SOFTMAX)]
)
def test_every_spelling_becomes_one_operator(make_model, apply_pass, kinds, kind, body):
    weights = AXES if "axes)" in body else {}
    result = apply_pass(PASS, make_model(GRAPH.format(body), **weights), 1e-5, x=X)
    assert kinds(result.model) == [kind]
    assert result.model.graph.node(0).attributes["axis"].as_int() == -1


def test_over_another_dimension(make_model, shaped, apply_pass, kinds):
    result = apply_pass(
        PASS, shaped(make_model(GRAPH.format(SOFTMAX[0].replace("[-1]", "[1]")), axes=np.array([1]))), 1e-5, x=X
    )
    assert kinds(result.model) == ["Softmax"]


OTHERS = (
    ("e = Exp(x) s = ReduceSum(e, axes) y = Div(e, s)", OVERFLOWS),
    ("e = Exp(x) s = ReduceSum(e, axes) l = Log(s) y = Sub(x, l)", OVERFLOWS),
    ("p = Softmax(x) y = Log(p)", VANISHES),
)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("body", "why"), OTHERS)
def test_what_is_infinite_or_no_number_stays_so(make_model, apply_pass, reasons, body, why):
    weights = AXES if "axes)" in body else {}
    result = apply_pass(PASS, make_model(GRAPH.format(body), **weights), x=X * 1000)
    assert why in reasons(result)
    assert not result.applied


def test_inside_a_branch(make_model, apply_pass, kinds):
    text = f"""g (bool k, float[2,3,8] x) => (float[2,3,8] o) {{
        o = If (k) <then_branch = t () => (float[2,3,8] y) {{ {SOFTMAX[1]} }},
                    else_branch = e () => (float[2,3,8] q) {{ q = Neg(x) }}> }}"""
    result = apply_pass(PASS, make_model(text, **AXES), 1e-5, x=X, k=np.array(True))
    assert "Exp" not in kinds(result.model)


@pytest.mark.parametrize(
    "body",
    [
        "e = Exp(x) s = ReduceSum(x, axes) y = Div(e, s)",
        "e = Exp(x) s = ReduceSum <keepdims = 0> (e, axes) u = Unsqueeze(s, axes) y = Div(u, e)",
        "e = Exp(x) s = ReduceSum(e) y = Div(e, s)",
    ],
)
def test_other_quotients_are_left_alone(make_model, kinds, body):
    weights = AXES if "axes)" in body else {}
    assert "Exp" in kinds(PASS.apply(make_model(GRAPH.format(body), **weights).ir, PassContext()).model)


def test_a_sum_that_others_read_is_left_alone(make_model, kinds, reasons):
    text = GRAPH.format(SOFTMAX[0]).replace("[2,3,8] y)", "[2,3,8] y, float[2,3,1] s)")
    result = PASS.apply(make_model(text, **AXES).ir, PassContext())
    assert "the result of ReduceSum 's' is used elsewhere too" in reasons(result)
    assert result.refused[0].nodes == ("Div 'y'",)
    assert "Exp" in kinds(result.model)
