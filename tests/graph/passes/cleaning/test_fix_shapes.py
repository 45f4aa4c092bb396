import numpy as np
import pytest

from edgeopt.graph.passes.base import PassContext
from edgeopt.graph.passes.cleaning.common_form import FIX_SHAPES

TEXT = "g (float[batch,n] x, float[batch,3] z) => (float[batch,m] y) { a = Relu(x)  y = Concat <axis = 1> (a, z) }"


def fixed(model, **shapes):
    return FIX_SHAPES.apply(model.ir, PassContext(shapes=shapes))


def shapes_of(values):
    return {value.name: str(value.shape) for value in values}


def test_inputs_and_all_that_follows_get_their_shapes(make_model, shaped, results):
    model = shaped(make_model(TEXT))
    result = fixed(model, x=(4, 5))
    graph = result.model.graph
    assert shapes_of(graph.inputs) == {"x": "[4,5]", "z": "[4,3]"}
    assert shapes_of(graph.outputs) == {"y": "[4,8]"}
    assert str(graph[0].outputs[0].shape) == "[4,5]"
    assert "x [4, 5]" in result.applied[0].what
    feeds = {"x": np.ones((4, 5), np.float32), "z": np.ones((4, 3), np.float32)}
    np.testing.assert_array_equal(results(result.model, **feeds)[0], results(model.ir, **feeds)[0])


def test_inside_a_branch_too(make_model, shaped):
    text = """g (bool c, float[b,2] x) => (float[b,2] y) {
        y = If (c) <then_branch = t () => (float[b,2] a) { r = Relu(x)  a = Neg(r) },
                    else_branch = e () => (float[b,2] d) { d = Neg(x) }> }"""
    result = fixed(shaped(make_model(text)), x=(3, 2))
    branch = result.model.graph[0].attributes["then_branch"].as_graph()
    assert str(branch[0].outputs[0].shape) == "[3,2]"


def test_minus_one_leaves_a_dimension_as_it_is(make_model):
    result = fixed(make_model(TEXT), x=(-1, 5))
    assert shapes_of(result.model.graph.inputs) == {"x": "[batch,5]", "z": "[batch,3]"}


WRONG = (
    ({"X": (1, 2)}, "the model has no input 'X'; did you mean 'x'?"),
    ({"x": (1, 2, 3)}, "has 3 dimensions, and the input [batch, n] has 2"),
    ({"z": (1, 4)}, "1x4 contradicts the 3 in [batch, 3]"),
    ({"x": (2, 5), "z": (4, 3)}, "the dimension 'batch' cannot be 2 and 4 at once"),
    ({"x": (0, 5)}, "sizes are at least 1"),
)


@pytest.mark.parametrize(("shapes", "reason"), WRONG)
def test_shapes_that_do_not_fit_are_refused_and_nothing_is_changed(make_model, reasons, shapes, reason):
    model = make_model(TEXT)
    result = fixed(model, **shapes)
    assert reason in reasons(result)
    assert result.refused[0].nodes[0] in shapes
    assert not result.applied
    assert shapes_of(result.model.graph.inputs) == shapes_of(model.ir.graph.inputs)


def test_it_runs_only_on_request():
    assert FIX_SHAPES.on_request
