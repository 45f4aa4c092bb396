import logging
import sys
from concurrent.futures import ThreadPoolExecutor, wait

import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
import pytest
from onnx import numpy_helper

from edgeopt.backends.onnxruntime.lowering import transformer
from edgeopt.backends.onnxruntime.lowering.transformer import (
    GELU,
    MULTI_HEAD_ATTENTION,
    QUICK_GELU,
    SKIP_NORMALIZATION,
    TRANSFORMERS,
    heads_of,
)
from edgeopt.graph.passes.base import PassContext
from edgeopt.graph.passes.fusion import normalizations
from edgeopt.graph.structure import infer_shapes
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


def test_in_two_threads_it_leaves_streams_as_they_were_and_silences_nobody_else(family):
    before = (sys.stdout, sys.stderr)
    models = [family(name) for name in ("bert", "gpt2")]
    with ThreadPoolExecutor(2) as pool:
        made = [pool.submit(TRANSFORMERS.apply, model, PassContext()) for model in models]
        while wait(made, 0.001).not_done:
            assert logging.getLogger("someone.else").isEnabledFor(logging.WARNING)
    assert all(each.result().model for each in made)
    assert (sys.stdout, sys.stderr) == before


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


@pytest.fixture
def normalized():
    """A transformer whose layer normalizations are one operator each, for one batch size where one is given."""

    def build(name, batch=None):
        proto = getattr(transformers, name)(opset=17)
        if batch:
            proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = batch
        model = ir.from_proto(proto)
        infer_shapes(model)
        return normalizations.LAYER_NORMALIZATION.apply(model, PassContext()).model

    return build


def test_additions_go_into_the_normalizations_behind_them(normalized, lower, counted):
    result = lower(SKIP_NORMALIZATION, normalized("vit", batch=1))
    assert counted(result.model, "SkipLayerNormalization") == 5
    # All sums but the last go on to the next layer too, and the operator hands them out.
    assert sum(len(node.outputs) == 4 for node in result.model.graph) == 4


def test_it_runs_only_on_request():
    assert SKIP_NORMALIZATION.on_request


def test_says_where_shapes_are_not_known_to_be_equal(normalized, lower, said):
    assert "the shapes of the added tensors may differ" in said(lower(SKIP_NORMALIZATION, normalized("bert")))


def test_a_sum_that_a_subgraph_reads_is_left_alone(lower, counted, said):
    """The fused operator would come after the If that reads its sum."""
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
    g (float[2,3,4] x, float[2,3,4] z) => (float[2,3,4] y) <float[4] scale = {1, 2, 3, 4}, float zero = {0}> {
      s = Add (x, z)
      largest = ReduceMax <keepdims = 0> (x)
      c = Greater (largest, zero)
      i = If (c) <
        then_branch = one () => (float[2,3,4] a) { a = Relu (s) },
        else_branch = two () => (float[2,3,4] b) { b = Neg (s) }
      >
      n = LayerNormalization <axis = -1> (s, scale)
      y = Add (i, n)
    }""")
    model = ir.from_proto(model)
    infer_shapes(model)
    result = lower(SKIP_NORMALIZATION, model)
    assert counted(result.model, "SkipLayerNormalization") == 0
    assert "a subgraph reads the sum too" in said(result)
