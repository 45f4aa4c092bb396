import onnx
import onnx_ir as ir
import pytest

from edgeopt.backends.onnxruntime.lowering import transformer
from edgeopt.backends.onnxruntime.lowering.transformer import TRANSFORMERS, heads_of
from edgeopt.graph.passes.base import PassContext
from tests.families import transformers


@pytest.mark.parametrize("name", [one.__name__ for one in transformers.TRANSFORMERS])
def test_heads_and_width_are_found(family, name):
    assert heads_of(family(name, hidden=48, heads=6)) == (6, 48)


def test_berts_attention_is_recognized(family, lower, counted):
    result = lower(TRANSFORMERS, family("bert"))
    assert counted(result.model, "Attention") == 2
    assert {"2 x Attention", "2 x BiasGelu"} <= {change.what for change in result.applied}
    assert counted(result.model, "SkipLayerNormalization") == 0


def test_names_the_attention_that_it_does_not_recognize(family, lower, said):
    result = lower(TRANSFORMERS, family("vit"))
    assert "its patterns for attention (4 heads, 32 wide) do not fit" in said(result)
    assert all(node.startswith("Softmax '/model/Softmax_") for node in result.refused[0].nodes)


@pytest.mark.parametrize("name", ["bert", "gpt2", "t5", "vit", "whisper_encoder"])
def test_it_goes_on_where_attention_is_one_operator_already(family, lower, name):
    model = transformer.MULTI_HEAD_ATTENTION.apply(family(name), PassContext()).model
    assert heads_of(model) == heads_of(family(name))
    result = lower(TRANSFORMERS, model)
    assert not result.refused
    assert {"MultiHeadAttention"} <= {node.op_type for node in result.model.graph}


def test_a_model_without_attention_is_refused_with_the_reason(said):
    node = onnx.helper.make_node("Relu", ["x"], ["y"])
    ports = [onnx.helper.make_tensor_value_info(name, 1, [2]) for name in "xy"]
    graph = onnx.helper.make_graph([node], "g", ports[:1], ports[1:])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])
    result = TRANSFORMERS.apply(ir.from_proto(model), PassContext())
    assert not result.applied
    assert "the model has no attention" in said(result)
