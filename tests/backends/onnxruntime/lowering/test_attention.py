import pytest

from edgeopt.backends.onnxruntime.lowering.transformer import MULTI_HEAD_ATTENTION

ATTENTIONS = (("bert", 2), ("roberta", 2), ("distilbert", 2), ("gpt2", 2), ("t5", 6), ("vit", 2))
ATTENTIONS += (("whisper_encoder", 2),)


@pytest.mark.parametrize(("name", "count"), ATTENTIONS)
def test_every_attention_becomes_one_operator_with_its_heads(family, lower, counted, name, count):
    result = lower(MULTI_HEAD_ATTENTION, family(name, hidden=48, heads=6))
    assert counted(result.model, "MultiHeadAttention") == count
    assert counted(result.model, "Softmax") == 0
    fused = [node for node in result.model.graph if node.op_type == "MultiHeadAttention"]
    assert {node.attributes["num_heads"].as_int() for node in fused} == {6}
    assert f"fused {count} attentions" in result.applied[0].what


def test_what_gpt2_keeps_between_calls_stays(family, lower):
    result = lower(MULTI_HEAD_ATTENTION, family("gpt2"))
    assert [o.name for o in result.model.graph.outputs] == ["logits", "present_0", "present_1"]


def test_masks_that_only_nearly_hide_are_left_alone(family, lower, counted, said):
    result = lower(MULTI_HEAD_ATTENTION, family("gpt2", masked=-10000.0))
    assert counted(result.model, "MultiHeadAttention") == 0
    assert "masked scores become -10000" in said(result)
    assert all(node.startswith("MatMul '/model/MatMul_") for node in result.refused[0].nodes)


def test_keys_with_fewer_heads_than_queries_are_repeated_as_before(family, lower, counted, said):
    result = lower(MULTI_HEAD_ATTENTION, family("llama"))
    assert counted(result.model, "Softmax") == 2
    assert "not split from packed heads" in said(result)
