import numpy as np
import pytest

from edgeopt.graph.diff import corresponding, diff, match
from edgeopt.graph.pipeline import run_pipeline

TEXT = "g (float[2,2] x) => (float[2,2] y) { a = Exp(x)  b = Mul(a, w)  c = Relu(b)  y = Tanh(c) }"
W = {"w": np.float32([[1, 2], [3, 4]])}


@pytest.fixture
def changes(make_model):
    """What became of the nodes: status, node, its other, by the output names of nodes."""

    def between(first, second, weights=W, others=None):
        a = make_model(first, name="a.onnx", **weights)
        b = make_model(second, name="b.onnx", **(weights if others is None else others))
        found = diff(match(a.ir, b.ir))
        return found.kept, {change.node: (change.status, change.other, change.what) for change in found.changes}

    return between


def test_a_model_is_kept_as_it_is(changes):
    assert changes(TEXT, TEXT) == (4, {})


def test_other_names_alone_are_no_change(changes):
    renamed = "g (float[2,2] x) => (float[2,2] y) { p = Exp(x)  q = Mul(p, v)  r = Relu(q)  y = Tanh(r) }"
    assert changes(TEXT, renamed, others={"v": W["w"]}) == (4, {})


def test_other_weights_are_told_and_what_follows_is_kept(changes):
    kept, found = changes(TEXT, TEXT, others={"w": W["w"] + 1})
    assert kept == 3
    assert found == {"Mul 'b'": ("changed", "Mul 'b'", "other weights (input 1)")}


def test_another_attribute_is_told_with_both_values(changes):
    first = "g (float[2,2] x) => (float[2,2] y) { y = Softmax <axis = 0> (x) }"
    _, found = changes(first, first.replace("axis = 0", "axis = 1"), {})
    assert found["Softmax 'y'"] == ("changed", "Softmax 'y'", "axis: 0 → 1")


def test_another_operator_in_the_same_place(changes):
    _, found = changes(TEXT, TEXT.replace("Relu", "Abs"))
    assert found == {"Relu 'c'": ("changed", "Abs 'c'", "another operator")}


def test_a_node_that_went_into_the_one_before_it(make_model, changes, conv_and_norm):
    text = """g (float[1,3,8,8] x) => (float[1,4,6,6] y) {
        a = Conv(x, w)  b = BatchNormalization(a, scale, shift, mean, variance)  y = Relu(b) }"""
    model = make_model(text, **conv_and_norm)
    matching = match(model.ir, run_pipeline(model).model_ir)
    found = diff(matching)
    assert [(c.status, c.node.split()[0], c.other.split()[:1]) for c in found.changes] == [
        ("changed", "Conv", ["Conv"]),
        ("fused into", "BatchNormalization", ["Conv"]),
    ]
    assert found.kept == 1
    # The convolution gives now what the normalization gave, whatever its result is called.
    assert corresponding(matching)[0][0] == "b"


def test_what_became_constant_is_gone_for_that_reason(changes):
    first = """g (float[2,2] x) => (float[2,2] y) {
        one = Constant <value_float = 1.0> ()  two = Add(one, one)  y = Mul(x, two) }"""
    _, found = changes(first, "g (float[2,2] x) => (float[2,2] y) { y = Mul(x, two) }", {}, {"two": np.float32(2)})
    assert found["Add 'two'"] == ("gone", "", "its result is constant")
    assert found["Mul 'y'"][2] == "input 1 is constant now"


def test_new_and_gone_nodes(changes):
    more = TEXT.replace("y = Tanh(c)", "d = Sigmoid(c)  y = Tanh(d)")
    assert changes(TEXT, more)[1]["Sigmoid 'd'"][0] == "new"
    assert changes(more, TEXT)[1]["Sigmoid 'd'"][0] in {"gone", "fused into"}


def test_a_change_inside_a_subgraph_shows_at_its_node(changes):
    text = """g (bool c, float[2] x) => (float[2] y) {
        y = If (c) <then_branch = t () => (float[2] a) { a = Relu(x) },
                    else_branch = e () => (float[2] b) { b = Neg(x) }> }"""
    assert changes(text, text, {}) == (1, {})
    _, found = changes(text, text.replace("Neg", "Abs"), {})
    assert found["If 'y'"][0] == "changed"


def test_values_correspond_by_what_they_mean(make_model):
    renamed = "g (float[2,2] x) => (float[2,2] y) { p = Exp(x)  q = Mul(p, w)  r = Abs(q)  y = Tanh(r) }"
    matching = match(make_model(TEXT, **W).ir, make_model(renamed, name="b.onnx", **W).ir)
    assert ("a", "p") in corresponding(matching)
    assert ("b", "q") in corresponding(matching)
