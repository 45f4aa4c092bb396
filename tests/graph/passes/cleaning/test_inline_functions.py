import numpy as np

from edgeopt.graph.passes.cleaning.inline_functions import PASS

TWICE = '<domain: "own", opset_import: ["" : 17]> twice (a) => (b) { b = Add(a, a) }'


def test_a_call_becomes_the_nodes_of_the_function(make_model, apply_pass, kinds):
    text = "g (float[2] x) => (float[2] y) { y = own.twice(x) }"
    result = apply_pass(PASS, make_model(text, functions=TWICE), x=np.float32([1, 2]))
    assert kinds(result.model) == ["Add"]
    assert result.applied[0].nodes == ("own.twice",)


def test_a_model_without_functions_has_nothing_to_inline(make_model, apply_pass):
    model = make_model("g (float[2] x) => (float[2] y) { y = Relu(x) }")
    assert not apply_pass(PASS, model, x=np.float32([1, 2])).applied
