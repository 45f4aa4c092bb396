import numpy as np
import onnx
import onnx_ir as ir
import pytest

from edgeopt.graph.passes.base import PassContext, nodes_of
from edgeopt.graph.passes.cleaning.common_form import (
    FIX_SHAPES,
    INLINE_FUNCTIONS,
    NAME_NODES,
    WEIGHTS_OUT_OF_INPUTS,
)

LISTED = "g (float[2] x, float[2] w) => (float[2] y) { y = Add(x, w) }"


def test_weights_become_constant(make_model, apply_pass):
    model = make_model(LISTED, w=np.float32([1, 2]))
    result = apply_pass(WEIGHTS_OUT_OF_INPUTS, model, x=np.float32([3, 4]))
    assert [i.name for i in result.model.graph.inputs] == ["x"]
    assert result.applied[0].what == "made 1 weight constant"
    assert result.applied[0].nodes == ("w",)


def test_a_model_of_nothing_but_defaults_keeps_them(make_model, apply_pass, reasons):
    model = make_model("g (float[2] x) => (float[2] y) { y = Relu(x) }", x=np.float32([1, 2]))
    result = apply_pass(WEIGHTS_OUT_OF_INPUTS, model, x=np.float32([3, 4]))
    assert not result.applied
    assert "have no inputs" in reasons(result)


def test_nothing_to_do_is_told_as_nothing(make_model, apply_pass):
    model = make_model("g (float[2] x) => (float[2] y) { y = Relu(x) }")
    result = apply_pass(WEIGHTS_OUT_OF_INPUTS, model, x=np.float32([3, 4]))
    assert (result.applied, result.refused) == ((), ())


def test_an_old_ir_version_that_wants_weights_among_the_inputs_is_raised(make_model, apply_pass):
    model = make_model(LISTED, opset=8, ir_version=3, w=np.float32([1, 2]))
    result = apply_pass(WEIGHTS_OUT_OF_INPUTS, model, x=np.float32([3, 4]))
    assert [i.name for i in result.model.graph.inputs] == ["x"]
    assert result.model.ir_version == 4


TWICE = '<domain: "own", opset_import: ["" : 17]> twice (a) => (b) { b = Add(a, a) }'


def test_a_call_becomes_the_nodes_of_the_function(make_model, apply_pass, kinds):
    text = "g (float[2] x) => (float[2] y) { y = own.twice(x) }"
    result = apply_pass(INLINE_FUNCTIONS, make_model(text, functions=TWICE), x=np.float32([1, 2]))
    assert kinds(result.model) == ["Add"]
    assert result.applied[0].nodes == ("own.twice",)


def test_a_model_without_functions_has_nothing_to_inline(make_model, apply_pass):
    model = make_model("g (float[2] x) => (float[2] y) { y = Relu(x) }")
    assert not apply_pass(INLINE_FUNCTIONS, model, x=np.float32([1, 2])).applied


def test_functions_in_functions_get_the_attributes_of_the_call(make_model, apply_pass, kinds):
    outer = '<domain: "own", opset_import: ["" : 17, "own" : 1]> outer <alpha> (a) => (b) {'
    inner = '<domain: "own", opset_import: ["" : 17]> inner <slope> (a) => (b) {'
    functions = (
        f"{outer} c = own.inner <slope: float = @alpha> (a)  b = Add(c, c) }}"
        f"{inner} b = LeakyRelu <alpha: float = @slope> (a) }}"
    )
    text = "g (float[2] x) => (float[2] y) { y = own.outer <alpha = 0.5> (x) }"
    result = INLINE_FUNCTIONS.apply(make_model(text, functions=functions).ir, PassContext())
    assert kinds(result.model) == ["LeakyRelu", "Add"]
    assert result.model.graph[0].attributes["alpha"].as_float() == 0.5
    assert result.applied[0].what == "inlined 2 functions"


def test_calls_in_a_branch(make_model, apply_pass, kinds):
    text = """g (bool c, float[2] x) => (float[2] y) {
        y = If (c) <then_branch = t () => (float[2] a) { a = own.twice(x) },
                    else_branch = e () => (float[2] b) { b = Neg(x) }> }"""
    result = apply_pass(
        INLINE_FUNCTIONS, make_model(text, functions=TWICE), x=np.float32([1, 2]), c=np.array(True)
    )
    assert sorted(kinds(result.model)) == ["Add", "If", "Neg"]


def test_a_function_of_another_opset_in_which_its_operators_are_the_same(make_model, apply_pass, kinds):
    text = "g (float[2] x) => (float[2] y) { y = own.twice(x) }"
    model = make_model(text, functions=TWICE.replace("17", "18"))
    assert kinds(INLINE_FUNCTIONS.apply(model.ir, PassContext()).model) == ["Add"]


def test_a_function_of_another_opset_stays_with_the_reason(kinds, reasons):
    # onnx's checker does not let such a model in; a pass may meet it all the same.
    model = ir.from_proto(
        onnx.parser.parse_model(
            """<ir_version: 8, opset_import: ["" : 17, "own" : 1]>
            g (float[2] x) => (float[1] y) { y = own.mean(x) }
            <domain: "own", opset_import: ["" : 18]> mean (a) => (b) { b = ReduceMean(a) }"""
        )
    )
    result = INLINE_FUNCTIONS.apply(model, PassContext())
    assert reasons(result) == "it is written in opset 18 of 'ai.onnx', and the model in 17"
    assert result.refused[0].nodes == ("own.mean",)
    assert "mean" in kinds(result.model)


X = np.float32([1, -2])
NAMELESS = """g (bool c, float[2] x) => (float[2] y) {
    r = Relu(x)  n = Neg(r)
    y = If (c) <then_branch = t () => (float[2] a) { s = Abs(n)  a = Neg(s) },
                else_branch = e () => (float[2] b) { b = Neg(x) }> }"""


def test_every_node_gets_a_name_of_its_own(make_model, apply_pass):
    result = apply_pass(NAME_NODES, make_model(NAMELESS), x=X, c=np.array(True))
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
