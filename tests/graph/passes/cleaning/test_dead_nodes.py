import numpy as np

from edgeopt.graph.passes.cleaning.unused import DEAD_NODES

X = np.float32([1, -2])


def test_what_no_output_needs_goes_away(make_model, apply_pass, kinds):
    text = "g (float[2] x) => (float[2] y) { dead = Exp(x)  deader = Add(dead, w)  y = Neg(x) }"
    result = apply_pass(DEAD_NODES, make_model(text, w=np.float32([1, 2])), x=X)
    assert kinds(result.model) == ["Neg"]
    assert not result.model.graph.initializers
    assert [c.what for c in result.applied] == [
        "removed 2 nodes that no output needs",
        "removed 1 unused weight",
    ]


def test_an_unused_input_stays(make_model, apply_pass):
    model = make_model("g (float[2] x, float[2] z) => (float[2] y) { y = Neg(x) }")
    assert [i.name for i in apply_pass(DEAD_NODES, model, x=X, z=X).model.graph.inputs] == ["x", "z"]


def test_an_unused_function_goes_away(make_model, apply_pass):
    function = '<domain: "own", opset_import: ["" : 17]> twice (a) => (b) { b = Add(a, a) }'
    model = make_model("g (float[2] x) => (float[2] y) { y = Neg(x) }", functions=function)
    result = apply_pass(DEAD_NODES, model, x=X)
    assert not result.model.functions
    assert "removed 1 unused function" in [c.what for c in result.applied]


def test_inside_a_branch_with_its_weights(make_model, apply_pass, kinds):
    text = """g (bool c, float[2] x) => (float[2] y) {
        y = If (c) <then_branch = t () => (float[2] a) <float[2] v = {1, 2}> { dead = Add(x, v)  a = Relu(x) },
                    else_branch = e () => (float[2] b) { b = Neg(x) }> }"""
    result = apply_pass(DEAD_NODES, make_model(text), x=X, c=np.array(True))
    assert sorted(kinds(result.model)) == ["If", "Neg", "Relu"]
    assert all(not graph.initializers for graph in result.model.graphs())
