"""Imports of folders that the model builder of ONNX Runtime GenAI writes, with a small decoder in its form."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import edgeopt
from edgeopt.cli.import_ import _next
from edgeopt.graph.import_proof import LIMITS_KEY, decoded_limits
from edgeopt.importing.importer import import_model
from edgeopt.importing.request import ImportRequest
from edgeopt.pipeline.decoder.texts import read_texts
from tests.bundle.runtime.decoder import HIDDEN, VOCABULARY, WIDTH, write_decoder

CONFIG = {
    "model": {
        "context_length": 64,
        "eos_token_id": [2],
        "decoder": {"filename": "model.onnx", "head_size": WIDTH},
        "vocab_size": VOCABULARY,
    },
    "search": {"do_sample": False, "temperature": 0.7, "max_length": 64},
}


def write_builder_form(path, factor=1.0):
    """Leaves the size of a head open, adds an operator of ONNX Runtime's own, and multiplies the cached values."""
    write_decoder(path)
    model = onnx.load(path)
    for value in (*model.graph.input, *model.graph.output):
        if value.name.startswith(("past_key_values", "present")):
            value.type.tensor_type.shape.dim[3].dim_param = "kv_cache_dim"
    model.graph.initializer.append(numpy_helper.from_array(np.ones(HIDDEN, np.float32), "scale"))
    model.graph.initializer.append(numpy_helper.from_array(np.float32(factor), "factor"))
    for node in model.graph.node:
        node.output[:] = ["own.value" if name == "present.0.value" else name for name in node.output]
        node.input[:] = ["own.value" if name == "present.0.value" else name for name in node.input]
    model.graph.node.append(helper.make_node("Mul", ["own.value", "factor"], ["present.0.value"]))
    head = next(node for node in model.graph.node if "logits" in node.output)
    norm = helper.make_node("SimplifiedLayerNormalization", [head.input[0], "scale"], ["normed"], axis=-1)
    head.input[0] = "normed"
    model.graph.node.insert([*model.graph.node].index(head), norm)
    onnx.save(model, path)


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "built"
    path.mkdir()
    write_builder_form(path / "model.onnx")
    (path / "genai_config.json").write_text(json.dumps(CONFIG))
    (path / "tokenizer.json").write_text("{}")
    (path / "config.json").write_text("{}")  # of the original, as published folders have it
    return path


def test_folder_is_imported_with_closed_shapes_limits_and_settings(folder, imports, tmp_path):
    code, result, made = imports(folder)
    assert code == 0, result
    assert {"out.onnx", "out.npz", "out.text"} <= made
    assert [name for name in ("whole", "token by token", "two chunks") if name in json.dumps(result)]
    assert "the original, from which the builder made it, was not run" in json.dumps(result)
    model = onnx.load(tmp_path / "out.onnx")
    assert {v.type.tensor_type.shape.dim[3].dim_value for v in model.graph.input if "past" in v.name} == {WIDTH}
    limits = decoded_limits({each.key: each.value for each in model.metadata_props}[LIMITS_KEY])
    assert limits["input_ids"]["1"].maximum == 64
    settings = json.loads((tmp_path / "out.text" / "generation_config.json").read_text())
    assert settings == {
        "do_sample": False, "temperature": 0.7, "eos_token_id": [2], "max_position_embeddings": 64,
    }  # fmt: skip
    with edgeopt.load(tmp_path / "out.onnx") as session:
        assert len(list(session.generate([1, 5, 3], max_tokens=4))) == 4


def test_model_whose_cache_is_wrong_is_refused(folder, imports):
    write_builder_form(folder / "model.onnx", factor=1.1)
    code, result, made = imports(folder)
    assert code == 6
    assert "token by token" in result["message"]
    assert not made


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"decoder": {}}, "names no decoder"),
        ({"vision": {}}, "also has vision"),
        ({"decoder": {"filename": "other.onnx"}}, "has no other.onnx"),
    ],
)
def test_folder_without_a_single_decoder_is_refused(folder, imports, changed, message):
    (folder / "genai_config.json").write_text(json.dumps({**CONFIG, "model": CONFIG["model"] | changed}))
    code, result, _ = imports(folder)
    assert code == 3
    assert message in result["message"]


def test_sizes_of_a_decoder_cannot_be_fixed(folder, imports):
    code, result, _ = imports(folder, "--shape", "batch_size=1")
    assert code == 2
    assert "stay open" in result["message"]


def test_search_that_is_offered_after_an_import_has_texts_to_judge(folder, tmp_path):
    """It was offered with the samples of the import, which are single steps, and was refused."""
    result = import_model(ImportRequest(str(folder), tmp_path / "out.onnx"))
    assert f"optimize {result.output} -o" in "".join(text for _, text in _next(result).lines)
    arrays = np.load(result.samples_file)
    states = [name for name in arrays if name.startswith("past")]
    found = read_texts(tmp_path / "out.text", Path(result.samples_file), "input_ids", 12, VOCABULARY, states)
    assert found.warning.startswith("'out.npz' has steps of the cache, not texts")
