import numpy as np
import onnx
import onnx_ir as ir
import pytest

from edgeopt.backends.onnxruntime.lowering.transformer import PASS, fuse, heads_of
from edgeopt.errors import ModelError
from tests.families import transformers
from tests.families.exporter import feeds_of


@pytest.mark.parametrize("name", [one.__name__ for one in transformers.TRANSFORMERS])
def test_heads_and_width_are_found(family, name):
    assert heads_of(family(name, hidden=48, heads=6)) == (6, 48)


def test_berts_attention_is_recognized(family, lower, counted):
    result = lower(PASS, family("bert"))
    assert counted(result.model, "Attention") == 2
    assert {"2 x Attention", "2 x BiasGelu"} <= {change.what for change in result.applied}
    assert counted(result.model, "SkipLayerNormalization") == 0


def test_names_the_attention_that_it_does_not_recognize(family, lower, said):
    result = lower(PASS, family("vit"))
    assert "its patterns for attention (4 heads, 32 wide) do not fit" in said(result)
    assert all(node.startswith("Softmax '/model/Softmax_") for node in result.refused[0].nodes)


@pytest.mark.parametrize("name", ["bert", "gpt2", "t5", "vit", "whisper_encoder"])
def test_the_written_model_computes_the_same(tmp_path, run, name):
    source = getattr(transformers, name)(opset=17)
    source = onnx.shape_inference.infer_shapes(source, data_prop=True)
    onnx.save(source, tmp_path / "model.onnx")
    entry = fuse(tmp_path / "model.onnx", tmp_path / "fused.onnx")
    fused = onnx.load(tmp_path / "fused.onnx")
    operators = {node.op_type for node in fused.graph.node}
    assert "Softmax" not in operators
    # Both hands were at work: attention by data flow, and the tool's own patterns.
    assert "MultiHeadAttention" in operators
    assert operators & {"BiasGelu", "FastGelu"}
    assert entry.nodes_after == len(fused.graph.node) < entry.nodes_before
    feeds = feeds_of(source)
    for wanted, got in zip(run(ir.from_proto(source), feeds), run(ir.from_proto(fused), feeds), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-3, atol=2e-5)


def test_a_model_without_attention_is_refused_with_the_reason(tmp_path):
    node = onnx.helper.make_node("Relu", ["x"], ["y"])
    ports = [onnx.helper.make_tensor_value_info(name, 1, [2]) for name in "xy"]
    graph = onnx.helper.make_graph([node], "g", ports[:1], ports[1:])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)]), tmp_path / "m.onnx")
    with pytest.raises(ModelError, match="no attention in it"):
        fuse(tmp_path / "m.onnx", tmp_path / "fused.onnx")
