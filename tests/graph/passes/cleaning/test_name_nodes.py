import numpy as np

from edgeopt.graph.passes.base import nodes_of
from edgeopt.graph.passes.cleaning.common_form import NAME_NODES

X = np.float32([1, -2])
TEXT = """g (bool c, float[2] x) => (float[2] y) {
    r = Relu(x)  n = Neg(r)
    y = If (c) <then_branch = t () => (float[2] a) { s = Abs(n)  a = Neg(s) },
                else_branch = e () => (float[2] b) { b = Neg(x) }> }"""


def test_every_node_gets_a_name_of_its_own(make_model, apply_pass):
    result = apply_pass(NAME_NODES, make_model(TEXT), x=X, c=np.array(True))
    names = [node.name for node in nodes_of(result.model)]
    assert len(set(names)) == len(names) == 6
    assert {"Relu_r", "Abs_s"} <= set(names)
    assert result.applied[0].what == "named 6 nodes"


def test_the_first_of_a_name_keeps_it(make_model, apply_pass):
    model = make_model("g (float[2] x) => (float[2] y) { r = Relu(x)  y = Neg(r) }")
    for node in model.ir.graph:
        node.name = "same"
    result = apply_pass(NAME_NODES, model, x=X)
    assert [node.name for node in result.model.graph] == ["same", "Neg_y"]


def test_names_that_tell_nodes_apart_stay(make_model, apply_pass):
    model = make_model("g (float[2] x) => (float[2] y) { r = Relu(x)  y = Neg(r) }")
    for number, node in enumerate(model.ir.graph):
        node.name = f"n{number}"
    assert not apply_pass(NAME_NODES, model, x=X).applied
