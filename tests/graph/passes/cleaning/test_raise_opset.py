import numpy as np

from edgeopt.graph.passes.base import PassContext
from edgeopt.graph.passes.cleaning.raise_opset import PASS

X = np.float32([[1, -2], [3, -4]])
BRANCH = """g (bool c, float[2,2] x) => (float[2,2] y) {
    y = If (c) <then_branch = t () => (float[2,2] a) { a = Relu(x) },
                else_branch = e () => (float[2,2] b) { b = Neg(x) }> }"""


def test_an_old_model_is_converted_with_its_weights(make_model, apply_pass):
    text = "g (float[2,2] x, float[2] w) => (float[2,2] y) { a = Add(x, w)  y = Softmax <axis = 1> (a) }"
    model = make_model(text, opset=9, ir_version=4, w=np.float32([1, 2]))
    result = apply_pass(PASS, model, 1e-6, x=X)
    assert result.model.opset_imports[""] == 17
    assert [i.name for i in result.model.graph.inputs] == ["x", "w"]
    assert result.applied[0].what == "raised the opset from 9 to 17"


def test_a_weight_that_is_no_input_survives_the_conversion(make_model, apply_pass):
    model = make_model("g (float[2,2] x) => (float[2,2] y) { y = Add(x, w) }", opset=8, w=np.float32([1, 2]))
    result = apply_pass(PASS, model, x=X)
    assert [i.name for i in result.model.graph.inputs] == ["x"]
    assert "w" in result.model.graph.initializers


def test_from_13_on_subgraphs_come_along(make_model, apply_pass):
    result = apply_pass(PASS, make_model(BRANCH, opset=13), x=X, c=np.array(True))
    assert result.model.opset_imports[""] == 17


def test_before_13_subgraphs_are_a_reason_to_refuse(make_model, apply_pass, reasons):
    result = apply_pass(PASS, make_model(BRANCH, opset=11), x=X, c=np.array(False))
    assert "does not look into subgraphs" in reasons(result)
    assert "If 'y'" in result.refused[0].nodes
    assert result.model.opset_imports[""] == 11


def test_an_operator_that_changed_its_meaning_is_a_reason_to_refuse(make_model, reasons):
    text = """g (float[1,1,4,4] x, float[1,4] r, int64[1] i) => (float[1,1,1,1] y) { y = RoiAlign(x, r, i) }"""
    result = PASS.apply(make_model(text, opset=13).ir, PassContext())
    assert "rounds its coordinates differently" in reasons(result)
    assert not result.applied


def test_a_newer_opset_is_left_alone(make_model, apply_pass):
    model = make_model("g (float[2,2] x) => (float[2,2] y) { y = Relu(x) }", opset=18)
    assert not apply_pass(PASS, model, x=X).applied
