from types import SimpleNamespace

import numpy as np
import onnx
import pytest

from edgeopt.backends import backend_named
from edgeopt.data.judging.goals import goal_from
from edgeopt.data.split import Split
from edgeopt.pipeline.plans.recipes import BuildInputs, recipe_named, why_not
from edgeopt.pipeline.plans.space import first_candidates, starts_on
from edgeopt.profiles.targets import profile_for
from edgeopt.quant import libraries
from tests.bundle.runtime.decoder import HEADS, PAIRS, VOCABULARY, WIDTH
from tests.conftest import this_device

TEXTS = np.random.default_rng(5).integers(0, VOCABULARY, (12, 1, 40))


def answers(path, backend="onnxruntime-cpu"):
    session = backend_named(backend).load(path, {})
    whole = {"attention_mask": np.ones((1, 40), np.int64), "position_ids": np.arange(40)[None]}
    whole |= {name: np.zeros((1, HEADS, 0, WIDTH), np.float32) for name in PAIRS}
    return [{"logits": np.array(session.run({**whole, "input_ids": text})["logits"])} for text in TEXTS]


@pytest.mark.parametrize(("bits", "met"), [(8, True), (4, False)])
def test_weights_in_eight_bits_meet_the_floor_and_those_in_four_do_not(decoder, tmp_path, bits, met):
    entry = libraries.quantize_weights(decoder, tmp_path / "made.onnx", bits)
    assert (entry.pass_name, len(entry.applied[0].nodes)) == (f"ort-weights{bits}", 5)
    goal = goal_from("kl")
    judged = goal.judge(answers(tmp_path / "made.onnx"), answers(decoder))
    assert goal.met(judged) is met, goal.describe(judged)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("bits", [8, 4])
def test_large_embeddings_are_stored_in_eight_bits(tmp_path, tied, bits):
    rows, width = 6000, 64
    table = np.random.default_rng(8).standard_normal((rows, width), np.float32)
    table[7] = 0
    nodes = [
        onnx.helper.make_node("Gather", ["turned" if tied else "table", "ids"], ["found"], name="embedding"),
        onnx.helper.make_node("MatMul", ["found", "head"], ["logits"], name="product"),
    ]
    weights = {"head": np.ascontiguousarray(table.T)}
    if tied:
        nodes.insert(0, onnx.helper.make_node("Transpose", ["head"], ["turned"], perm=[1, 0]))
    else:
        weights["table"] = table
    ports = [
        onnx.helper.make_tensor_value_info("ids", onnx.TensorProto.INT64, [1, "n"]),
        onnx.helper.make_tensor_value_info("logits", onnx.TensorProto.FLOAT, [1, "n", rows]),
    ]
    held = [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = onnx.helper.make_graph(nodes, "g", ports[:1], ports[1:], held)
    opsets = [onnx.helper.make_opsetid("", 20)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10), tmp_path / "m.onnx")

    entry = libraries.quantize_weights(tmp_path / "m.onnx", tmp_path / "out.onnx", bits)
    assert entry.applied[1].nodes == ("embedding",)
    made = onnx.load(tmp_path / "out.onnx")
    assert [node.op_type for node in made.graph.node] == ["GatherBlockQuantized", "MatMulNBits"]
    assert not any(
        each.data_type == onnx.TensorProto.FLOAT and each.dims[-1] == rows for each in made.graph.initializer
    )
    ids = np.array([[7, 0, 5999]])
    made.graph.output.insert(0, onnx.helper.make_tensor_value_info("found", onnx.TensorProto.FLOAT, None))
    onnx.save(made, tmp_path / "out.onnx")
    found = backend_named("onnxruntime-cpu").load(tmp_path / "out.onnx", {}).run({"ids": ids})["found"]
    np.testing.assert_allclose(found[0], table[ids[0]], atol=np.abs(table).max() / 254)


def test_nncf_makes_weights_in_four_bits_where_groups_of_32_do_not_fit(decoder, tmp_path):
    pytest.importorskip("nncf")
    entry = libraries.compress_weights(decoder, tmp_path / "made.xml", four_bits=True)
    assert entry.applied[0].what == "read weights in four or eight bits"
    judged = goal_from("kl").judge(answers(tmp_path / "made.xml", "openvino-cpu"), answers(decoder))
    assert not judged.problem


def inputs(tmp_path, *, has_cache):
    split = Split(16, 16, 8, 24, 16)
    profile = profile_for(this_device(), "generic-cpu", None)
    numbers = {"of_user": True, "profile": profile, "kept": 1.0, "passes": (), "operators": {"MatMul": 9}}
    return BuildInputs(tmp_path / "m.onnx", 9, tmp_path, split, folder=tmp_path, has_cache=has_cache, **numbers)


def test_recipes_of_decoders_are_made_for_no_other_model(tmp_path):
    for name in ("ort-weights8", "ort-weights4", "nncf-weights4"):
        assert "gains only in a decoder" in why_not(recipe_named(name), inputs(tmp_path, has_cache=False))
    assert why_not(recipe_named("ort-weights8"), inputs(tmp_path, has_cache=True)) == ""


@pytest.mark.parametrize("name", ["planned", "nncf-repaired", "nncf-int8", "ort-int8", "int8"])
def test_what_calibrates_or_chooses_layers_is_not_made_for_a_decoder(tmp_path, name):
    assert "not supported for a decoder" in why_not(recipe_named(name), inputs(tmp_path, has_cache=True))
    assert "decoder" not in why_not(recipe_named(name), inputs(tmp_path, has_cache=False))


def test_openvino_keeps_the_open_shapes_of_a_decoder():
    device, ports = this_device(), [SimpleNamespace(shape=("b", "s"))]
    samples = SimpleNamespace(shapes=lambda: {"input_ids": [1, 1]})
    profile = profile_for(device, "generic-cpu", None)
    fixed, growing = (starts_on(device, profile, ports, samples, growing=each) for each in (False, True))
    options = [first_candidates("source", ["openvino-cpu"], each)[0].options for each in (fixed, growing)]
    assert ["shapes" in each for each in options] == [True, False]
