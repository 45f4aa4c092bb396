import numpy as np
import onnx.parser
import onnx_ir as ir
import pytest
from onnx import numpy_helper

from edgeopt.backends.onnxruntime.lowering.transformer import GELU, QUICK_GELU


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


@pytest.mark.parametrize(
    ("body", "operators"),
    [
        ("s = Sigmoid(x) y = Mul(s, x)", ["QuickGelu"]),
        ("a = Mul(x, f) s = Sigmoid(a) y = Mul(x, s)", ["QuickGelu"]),
        ("s = Sigmoid(x) y = Mul(s, z)", ["Sigmoid", "Mul"]),
    ],
)
def test_only_a_product_with_what_the_gate_reads_takes_quick_gelu(lower, body, operators):
    text = (
        f'<ir_version: 8, opset_import: ["" : 17]> g (float[2,5] x, float[2,5] z) => (float[2,5] y) {{ {body} }}'
    )
    model = onnx.parser.parse_model(text)
    model.graph.initializer.append(numpy_helper.from_array(np.array(1.702, np.float32), "f"))
    result = lower(QUICK_GELU, ir.from_proto(model))
    assert [node.op_type for node in result.model.graph] == operators
    assert [node.attributes["alpha"].as_float() for node in result.model.graph if "alpha" in node.attributes] == (
        [pytest.approx(1.702 if "f" in body else 1.0)] if operators == ["QuickGelu"] else []
    )
