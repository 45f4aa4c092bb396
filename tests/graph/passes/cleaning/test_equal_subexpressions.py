import numpy as np

from edgeopt.graph.passes.base import PassContext
from edgeopt.graph.passes.cleaning.redundant import EQUAL_SUBEXPRESSIONS

X = np.float32([1, -2])


def test_equal_nodes_become_one(make_model, apply_pass, kinds):
    text = "g (float[2] x) => (float[2] y) { a = Exp(x)  b = Exp(x)  y = Add(a, b) }"
    result = apply_pass(EQUAL_SUBEXPRESSIONS, make_model(text), x=X)
    assert kinds(result.model) == ["Exp", "Add"]
    assert result.applied[0].what == "merged 1 node with an equal one"


def test_short_weights_are_compared_by_what_they_hold(make_model, apply_pass, kinds):
    text = "g (float[2] x) => (float[2] y) { a = Add(x, v)  b = Add(x, w)  y = Mul(a, b) }"
    equal = {name: np.float32([3, 4]) for name in ("v", "w")}
    assert kinds(apply_pass(EQUAL_SUBEXPRESSIONS, make_model(text, **equal), x=X).model) == ["Add", "Mul"]
    for other in (np.float32([3, 5]), np.float32([3])):
        kept = apply_pass(EQUAL_SUBEXPRESSIONS, make_model(text, v=np.float32([3, 4]), w=other), x=X).model
        assert kinds(kept) == ["Add", "Add", "Mul"]


def test_weights_that_are_inputs_may_differ(make_model, kinds):
    text = "g (float[2] x, float[2] v, float[2] w) => (float[2] y) { a = Add(x, v)  b = Add(x, w)  y = Mul(a, b) }"
    model = make_model(text, v=np.float32([3, 4]), w=np.float32([3, 4])).ir
    assert kinds(EQUAL_SUBEXPRESSIONS.apply(model, PassContext()).model) == ["Add", "Add", "Mul"]


def test_different_attributes_are_not_equal(make_model, apply_pass, kinds):
    text = "g (float[2] x) => (float[2] y) { a = Elu <alpha = 1.0> (x)  b = Elu <alpha = 2.0> (x)  y = Add(a, b) }"
    assert kinds(apply_pass(EQUAL_SUBEXPRESSIONS, make_model(text), x=X).model) == ["Elu", "Elu", "Add"]


def test_an_output_of_the_graph_keeps_its_name(make_model, apply_pass):
    text = "g (float[2] x) => (float[2] y, float[2] z) { a = Exp(x)  z = Exp(x)  y = Neg(a) }"
    result = apply_pass(EQUAL_SUBEXPRESSIONS, make_model(text), x=X)
    assert [o.name for o in result.model.graph.outputs] == ["y", "z"]
    assert len(result.model.graph) == 2


def test_two_outputs_of_the_graph_stay_two(make_model, apply_pass, reasons):
    text = "g (float[2] x) => (float[2] y, float[2] z) { y = Exp(x)  z = Exp(x) }"
    assert "both results are outputs" in reasons(apply_pass(EQUAL_SUBEXPRESSIONS, make_model(text), x=X))


def test_random_numbers_are_drawn_twice(make_model, kinds, reasons):
    text = """g (float[2] x) => (float[2] y) {
        a = RandomNormalLike(x)  b = RandomNormalLike(x)  y = Sub(a, b) }"""
    result = EQUAL_SUBEXPRESSIONS.apply(make_model(text).ir, PassContext())
    assert "random" in reasons(result)
    assert len(kinds(result.model)) == 3


def test_inside_a_branch(make_model, apply_pass, kinds):
    text = """g (bool c, float[2] x) => (float[2] y) {
        y = If (c) <then_branch = t () => (float[2] s) { a = Exp(x)  b = Exp(x)  s = Add(a, b) },
                    else_branch = e () => (float[2] n) { n = Neg(x) }> }"""
    result = apply_pass(EQUAL_SUBEXPRESSIONS, make_model(text), x=X, c=np.array(True))
    assert kinds(result.model).count("Exp") == 1


BRANCH = """g (bool c, float[2] x) => (float[2] y, float[2] z) {{
    {before} y = If (c) <then_branch = t () => (float[2] a) {{ r = Relu(x)  {then} }},
                         else_branch = e () => (float[2] b) {{ b = Neg(x) }}> {after} }}"""


def test_a_branch_uses_what_is_computed_before_it(make_model, apply_pass, kinds):
    text = BRANCH.format(before="z = Relu(x)", then="a = Exp(r)", after="")
    result = apply_pass(EQUAL_SUBEXPRESSIONS, make_model(text), x=X[0], c=np.array(True))
    assert sorted(kinds(result.model)) == ["Exp", "If", "Neg", "Relu"]


def test_a_branch_cannot_use_what_is_computed_after_it(make_model, apply_pass, kinds):
    text = BRANCH.format(before="", then="a = Exp(r)", after="z = Relu(x)")
    result = apply_pass(EQUAL_SUBEXPRESSIONS, make_model(text), x=X[0], c=np.array(True))
    assert kinds(result.model).count("Relu") == 2


def test_what_a_branch_returns_is_computed_in_it(make_model, apply_pass, kinds, reasons):
    text = BRANCH.format(before="z = Relu(x)", then="", after="").replace("r = Relu(x)", "a = Relu(x)")
    result = apply_pass(EQUAL_SUBEXPRESSIONS, make_model(text), x=X[0], c=np.array(True))
    assert "a branch returns" in reasons(result)
    assert result.refused[0].nodes == ("Relu 'a'",)
    assert kinds(result.model).count("Relu") == 2
