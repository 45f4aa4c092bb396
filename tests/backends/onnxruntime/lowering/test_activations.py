import pytest

from edgeopt.backends.onnxruntime.lowering.activations import GELU, QUICK_GELU


@pytest.mark.parametrize(
    ("name", "operator", "count"),
    [("bert", "BiasGelu", 2), ("gpt2", "FastGelu", 2), ("whisper_encoder", "Gelu", 2), ("t5", "FastGelu", 2)],
)
def test_gelus_take_the_form_that_has_a_kernel(family, lower, counted, name, operator, count):
    result = lower(GELU, family(name))
    assert counted(result.model, operator) == count
    assert counted(result.model, "Erf") == 0


def test_a_gated_layer_takes_quick_gelu(family, lower, counted):
    result = lower(QUICK_GELU, family("llama"))
    assert counted(result.model, "QuickGelu") == 2
    assert counted(result.model, "Sigmoid") == 0


def test_a_sigmoid_that_is_used_elsewhere_is_left_alone(family, lower, counted, said):
    model = family("llama")
    gate = next(node for node in model.graph if node.op_type == "Sigmoid")
    gate.outputs[0].name = "gate"
    model.graph.outputs.append(gate.outputs[0])
    result = lower(QUICK_GELU, model)
    assert counted(result.model, "QuickGelu") == 1
    assert f"the result of Sigmoid '{gate.name}' is used elsewhere too" in said(result)
