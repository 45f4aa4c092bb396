import numpy as np

from edgeopt.graph.passes.cleaning.common_form import WEIGHTS_OUT_OF_INPUTS

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
