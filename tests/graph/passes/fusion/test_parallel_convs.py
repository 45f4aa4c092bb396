import numpy as np
import pytest

from edgeopt.graph.passes.base import PassContext
from edgeopt.graph.passes.fusion.convolutions import PARALLEL_CONVS

RANDOM = np.random.default_rng(8)


def array(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


WEIGHTS = {"v": array(4, 3, 3, 3), "w": array(2, 3, 3, 3), "b": array(2)}
GRAPH = "g (float[1,3,8,8] x) => (float[a,b,c,d] y) {{ {} }}"


def test_neighbours_become_one(make_model, apply_pass, kinds, image):
    text = (
        "p = Conv(x, v) q = Conv(x, w, b) r = MaxPool <kernel_shape = [3, 3]> (x) y = Concat <axis = 1> (p, q, r)"
    )
    result = apply_pass(PARALLEL_CONVS, make_model(GRAPH.format(text), **WEIGHTS), 1e-4, x=image)
    assert kinds(result.model) == ["Conv", "MaxPool", "Concat"]
    assert result.applied[0].nodes == ("Conv 'p'", "Conv 'q'")


def test_in_a_subgraph(make_model, apply_pass, kinds, image):
    text = """g (float[1,3,8,8] x, bool c) => (float[1,6,6,6] y) { y = If (c) <
        then_branch = t () => (float[1,6,6,6] u) { p = Conv(x, v) q = Conv(x, w) u = Concat <axis = 1> (p, q) },
        else_branch = e () => (float[1,6,6,6] z) { z = Conv(x, all) } > }"""
    model = make_model(text, all=array(6, 3, 3, 3), **WEIGHTS)
    result = apply_pass(PARALLEL_CONVS, model, 1e-4, x=image, c=np.array(True))
    assert kinds(result.model) == ["If", "Conv", "Concat", "Conv"]


@pytest.mark.parametrize(("text", "reason"), [
    ("p = Conv(x, v) q = Conv(x, w) r = Relu(p) y = Concat <axis = 1> (p, q, r)", "used elsewhere too"),
    ("p = Conv(x, v) y = Concat <axis = 1> (p, p)", "put there twice"),
    ("p = Conv(x, v) k = Abs(w) q = Conv(x, k) y = Concat <axis = 1> (p, q)", "not constant"),
])  # fmt: skip
def test_what_stays_says_why(make_model, shaped, apply_pass, reasons, image, text, reason):
    model = shaped(make_model(GRAPH.format(text), **WEIGHTS))
    result = apply_pass(PARALLEL_CONVS, model, 1e-4, x=image)
    assert reason in reasons(result)
    assert "Conv 'p'" in result.refused[0].nodes
    assert not result.applied


@pytest.mark.parametrize("text", [
    "n = Neg(x) p = Conv(x, v) q = Conv(n, w) y = Concat <axis = 1> (p, q)",
    "p = Conv <pads = [1,1,0,0]> (x, v) q = Conv <pads = [0,0,1,1]> (x, w) y = Concat <axis = 1> (p, q)",
    "p = Conv(x, v) r = MaxPool <kernel_shape = [3, 3]> (x) q = Conv(x, w) y = Concat <axis = 1> (p, r, q)",
])  # fmt: skip
def test_convolutions_that_differ_are_no_news(make_model, apply_pass, image, text):
    result = apply_pass(PARALLEL_CONVS, make_model(GRAPH.format(text), **WEIGHTS), 1e-4, x=image)
    assert (result.applied, result.refused) == ((), ())


def test_channels_named_from_the_back(make_model, shaped, apply_pass, kinds, image):
    text = GRAPH.format("p = Conv(x, v) q = Conv(x, w) y = Concat <axis = -3> (p, q)")
    assert kinds(apply_pass(PARALLEL_CONVS, shaped(make_model(text, **WEIGHTS)), 1e-4, x=image).model) == [
        "Conv",
        "Concat",
    ]


def test_large_weights_that_others_use_are_not_kept_twice(make_model, reasons):
    text = """g (float[1,3,8,8] x) => (float[a,b,c,d] y, float[e,f,g,h] z) {
        p = Conv(x, v) q = Conv(x, w) z = Conv(x, w) y = Concat <axis = 1> (p, q) }"""
    model = make_model(text, **WEIGHTS).ir
    assert PARALLEL_CONVS.apply(model, PassContext()).applied
    result = PARALLEL_CONVS.apply(model, PassContext(folded_limit_bytes=50))
    assert not result.applied
    assert "'w' are also used elsewhere" in reasons(result)
