import numpy as np
import pytest

from edgeopt.graph.passes.algebra.global_pooling import PASS
from edgeopt.graph.passes.base import PassContext

X = np.float32(np.random.default_rng(8).standard_normal((2, 3, 5, 4)))
AXES = {"picture": [2, 3], "back": [-1, -2], "last": [3], "all": [1, 2, 3]}
HEADER = "g (float[2,3,5,4] x) => (float[2,3,1,1] y) "


def test_a_maximum_over_the_picture(make_model, apply_pass, kinds, image):
    text = "g (float[1,3,8,8] x) => (float[1,3,1,1] y) { y = ReduceMax(x, picture) }"
    result = apply_pass(PASS, make_model(text, opset=18, **AXES), x=image)
    assert kinds(result.model) == ["GlobalMaxPool"]


@pytest.mark.parametrize("axes", ["picture", "back"])
def test_a_mean_over_the_picture_becomes_pooling(make_model, apply_pass, kinds, axes):
    model = make_model(HEADER + f"{{ y = ReduceMean(x, {axes}) }}", opset=18, **AXES)
    result = apply_pass(PASS, model, tolerance=1e-6, x=X)
    assert kinds(result.model) == ["GlobalAveragePool"]
    assert result.applied[0].nodes


def test_axes_as_an_attribute_before_opset_18(make_model, apply_pass, kinds):
    model = make_model(HEADER + "{ y = ReduceMean <axes = [2, 3]> (x) }", opset=17)
    assert kinds(apply_pass(PASS, model, tolerance=1e-6, x=X).model) == ["GlobalAveragePool"]


def test_inside_a_branch(make_model, apply_pass, kinds):
    text = """g (bool c, float[2,3,5,4] x) => (float[2,3,1,1] y) {
        y = If (c) <then_branch = t () => (float[2,3,1,1] a) { a = ReduceMean <axes = [2, 3]> (x) },
                    else_branch = e () => (float[2,3,1,1] b) { b = GlobalMaxPool(x) }> }"""
    result = apply_pass(PASS, make_model(text), tolerance=1e-6, x=X, c=np.array(True))
    assert sorted(kinds(result.model)) == ["GlobalAveragePool", "GlobalMaxPool", "If"]


@pytest.mark.parametrize(
    ("nodes", "shape", "reason"),
    [
        ("y = ReduceMean <keepdims = 0> (x, picture)", "2,3", "drops the dimensions"),
        ("m = ReduceMean(x, picture)  y = Sub(x, m)", "2,3,5,4", "part of a normalization"),
    ],
)
def test_what_is_left_alone_is_told_why(make_model, apply_pass, reasons, nodes, shape, reason):
    model = make_model(f"g (float[2,3,5,4] x) => (float[{shape}] y) {{ {nodes} }}", opset=18, **AXES)
    result = apply_pass(PASS, model, x=X)
    assert not result.applied
    assert reason in reasons(result)


@pytest.mark.parametrize(("axes", "shape"), [("last", "2,3,5,1"), ("all", "2,1,1,1")])
def test_other_means_are_none_of_its_business(make_model, apply_pass, axes, shape):
    text = f"g (float[2,3,5,4] x) => (float[{shape}] y) {{ y = ReduceMean(x, {axes}) }}"
    model = make_model(text, opset=18, **AXES)
    result = apply_pass(PASS, model, x=X)
    assert not result.applied
    assert not result.refused


@pytest.mark.parametrize(("text", "reason"), [
    ("g (int8[2,3,5,4] x) => (int8[2,3,1,1] y) { y = MaxPool <kernel_shape = [5, 4]> (x) }", "int8"),
    ("g (double[2,3,5,4] x) => (double[2,3,1,1] y) { y = ReduceMean <axes = [2, 3]> (x) }", "double"),
])  # fmt: skip
def test_types_that_runtimes_do_not_pool_stay(make_model, reasons, text, reason):
    result = PASS.apply(make_model(text).ir, PassContext())
    assert not result.applied
    assert reason in reasons(result)


def test_tensors_of_more_dimensions_than_pictures_stay(make_model, apply_pass):
    text = "g (float[1,1,1,1,1,1] x) => (float[1,1,1,1,1,1] y) { y = ReduceMean <axes = [2, 3, 4, 5]> (x) }"
    assert not apply_pass(PASS, make_model(text), x=np.ones((1,) * 6, np.float32)).applied


@pytest.mark.parametrize(("shape", "nonempty_only"), [("n,3,5,4", False), ("2,3,h,4", True), ("2,3,h,w", True)])
def test_a_picture_that_may_be_empty_is_pooled_for_non_empty_inputs_only(
    make_model, apply_pass, kinds, reasons, shape, nonempty_only
):
    text = f"g (float[{shape}] x) => (float[a,b,c,d] y) {{ y = ReduceMean(x, picture) }}"
    model = make_model(text, opset=18, **AXES)
    result = apply_pass(PASS, model, tolerance=1e-6, x=X)
    assert kinds(result.model) == ["GlobalAveragePool"]
    assert result.nonempty_only == nonempty_only
    kept = PASS.apply(model.ir, PassContext(empty_inputs=True))
    assert kinds(kept.model) == ["ReduceMean" if nonempty_only else "GlobalAveragePool"]
    assert ("may be empty" in reasons(kept)) == nonempty_only
