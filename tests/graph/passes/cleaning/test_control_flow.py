import numpy as np
import pytest

from edgeopt.graph.passes.base import PassContext
from edgeopt.graph.passes.cleaning.control_flow import PASS

X = np.float32([1, -2])
BRANCHES = """g (bool c, float[2] x) => ({out}) {{
    {before} p, q = If ({condition}) <
        then_branch = t () => (float[2] a, float[2] b) {{ a = Relu(x)  b = Neg(x) }},
        else_branch = e () => (float[2] d, float[2] f) {{ d = Abs(x)  f = Identity(x) }}> {after} }}"""
LOOP = """g (bool c, float[2] x) => (float[2] y, float[N,2] all) {{
    y, all = Loop ({times}, {condition}, x) <body = b (int64 i, bool go, float[2] v)
        => (bool on, float[2] w, float[2] seen) {{
            {stop} n = Cast <to = 1> (i)  s = Add(v, n)  w = Sub(s, one)  seen = Identity(w) }}> }}"""


@pytest.mark.parametrize(("way", "left"), [(True, ["Relu", "Neg", "Add"]), (False, ["Abs", "Identity", "Add"])])
def test_a_known_branch_takes_the_place_of_its_if(make_model, apply_pass, kinds, way, left):
    text = BRANCHES.format(out="float[2] y", before="", condition="w", after="y = Add(p, q)")
    result = apply_pass(PASS, make_model(text, w=np.array(way)), x=X, c=np.array(True))
    assert kinds(result.model) == left
    assert "If 'p'" in result.applied[0].nodes


def test_outputs_of_the_model_keep_their_names(make_model, apply_pass, kinds):
    text = BRANCHES.format(out="float[2] p, float[2] q", before="", condition="w", after="")
    result = apply_pass(PASS, make_model(text, w=np.array(False)), x=X, c=np.array(True))
    assert [output.name for output in result.model.graph.outputs] == ["p", "q"]
    assert "If" not in kinds(result.model)


def test_what_nobody_reads_is_not_computed(make_model, apply_pass, kinds):
    from edgeopt.graph.passes.cleaning import redundant

    text = BRANCHES.format(out="float[2] y", before="", condition="c", after="y = Abs(q)")
    for way in (True, False):
        result = apply_pass(PASS, make_model(text), x=X, c=np.array(way))
    assert "dropped 1 result of an If" in result.applied[0].what
    kept = redundant.DEAD_NODES.apply(result.model, PassContext())
    assert "Relu" not in kinds(kept.model)


def test_an_if_within_a_branch(make_model, apply_pass, kinds):
    text = """g (bool c, float[2] x) => (float[2] y) {
        y = If (c) <then_branch = t () => (float[2] a) {
                        a = If (w) <then_branch = tt () => (float[2] k) { k = Relu(x) },
                                    else_branch = te () => (float[2] l) { l = Abs(x) }> },
                    else_branch = e () => (float[2] b) { b = Neg(x) }> }"""
    result = apply_pass(PASS, make_model(text, w=np.array(True)), x=X, c=np.array(True))
    assert sorted(kinds(result.model)) == ["If", "Neg", "Relu"]


@pytest.mark.parametrize(
    ("times", "condition", "stop"),
    [
        ("m1", "", "on = Identity(go)"),
        ("m1", "yes", "on = Identity(go)"),
        ("m9", "yes", "on = Constant <value = bool {0}> ()"),
    ],
)
def test_a_loop_that_runs_once_becomes_its_body(make_model, kinds, results, times, condition, stop):
    weights = {"m1": np.int64(1), "m9": np.int64(9), "yes": np.array(True)}
    used = {name: array for name, array in weights.items() if name in {times, condition}}
    text = LOOP.format(times=times, condition=condition, stop=stop)
    result = PASS.apply(make_model(text, one=np.float32(1), **used).ir, PassContext())
    assert "Loop" not in kinds(result.model)
    assert "run once" in result.applied[0].what
    y, collected = results(result.model, x=X, c=np.array(True))
    np.testing.assert_array_equal(y, X - 1)
    np.testing.assert_array_equal(collected, [X - 1])


@pytest.mark.parametrize(("times", "condition"), [("m0", ""), ("m0", "c"), ("m9", "no")])
def test_a_loop_that_never_runs_passes_on_what_went_in(make_model, results, kinds, times, condition):
    weights = {"m0": np.int64(0), "m9": np.int64(9), "no": np.array(False)}
    used = {name: array for name, array in weights.items() if name in {times, condition}}
    text = LOOP.format(times=times, condition=condition, stop="on = Identity(go)")
    result = PASS.apply(make_model(text, one=np.float32(1), **used).ir, PassContext())
    assert "Loop" not in kinds(result.model)
    y, collected = results(result.model, x=X, c=np.array(True))
    assert (y == X).all()
    assert collected.shape == (0, 2)


def test_a_loop_stays_where_the_shape_of_its_empty_result_is_open(make_model, reasons, kinds):
    text = LOOP.format(times="m0", condition="", stop="on = Identity(go)").replace(
        "float[2] seen", "float[K] seen"
    )
    result = PASS.apply(make_model(text, one=np.float32(1), m0=np.int64(0)).ir, PassContext())
    assert "the shape of the collected outputs is not known" in reasons(result)
    assert result.refused[0].nodes == ("Loop 'y'",)
    assert "Loop" in kinds(result.model)


def test_a_loop_that_may_run_twice_stays(make_model, apply_pass, kinds):
    text = LOOP.format(times="m2", condition="c", stop="on = Identity(go)")
    result = apply_pass(PASS, make_model(text, one=np.float32(1), m2=np.int64(2)), x=X, c=np.array(True))
    assert "Loop" in kinds(result.model)
