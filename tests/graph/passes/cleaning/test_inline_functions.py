import numpy as np
import onnx
import onnx_ir as ir

from edgeopt.graph.passes.base import PassContext
from edgeopt.graph.passes.cleaning.common_form import INLINE_FUNCTIONS

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
