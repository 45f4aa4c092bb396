"""Imports of language models: a small decoder in numpy in every run, models of transformers in the slow ones."""

import json
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest

import edgeopt
from edgeopt.bundle.cache import found_cache
from edgeopt.graph.import_proof import LIMITS_KEY, decoded_limits
from edgeopt.importing import sources
from edgeopt.importing.children import lm_child

MODELS = Path(__file__).with_name("lm_models.py")
CONFIG = {
    "model_type": "planted", "architectures": ["PlantedForCausalLM"], "vocab_size": 29, "eos_token_id": [2, 3],
    "max_position_embeddings": 64, "fault": "none",
}  # fmt: skip
TOKENIZER = {
    "tokenizer.json": "{}",
    "tokenizer_config.json": '{"chat_template": "{{ messages }}"}',
    "chat_template.jinja": "{{ messages }}",
    "special_tokens_map.json": "{}",
}


@pytest.fixture
def folder(tmp_path):
    """Writes a folder of a language model with complete weights and a tokenizer."""
    path = tmp_path / "model"
    path.mkdir()
    header = json.dumps({"w": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}}).encode()
    (path / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    for name, text in TOKENIZER.items():
        (path / name).write_text(text)

    def write(**changes):
        (path / "config.json").write_text(json.dumps({**CONFIG, **changes}))
        return path

    return write


@pytest.fixture
def decodes(imports, folder, monkeypatch):
    """Imports a folder whose original is the decoder in numpy."""
    child = str(Path(__file__).with_name("planted_decoder.py"))
    planted = sources.Source("huggingface", "planted decoder", child=child, decodes=True)
    monkeypatch.setattr(sources, "LANGUAGE_MODEL", planted)

    def run(*arguments, **changes):
        return imports(folder(**changes), "--samples", 4, *arguments)

    return run


@pytest.mark.parametrize(
    ("architecture", "task", "child"),
    [
        ("LlamaForCausalLM", "", "lm_child.py"),
        ("GPT2LMHeadModel", "", "lm_child.py"),
        ("GPT2LMHeadModel", "text-generation", "lm_child.py"),
        ("GPT2LMHeadModel", "feature-extraction", "hf_child.py"),
        ("BertForMaskedLM", "", "hf_child.py"),
        ("T5ForConditionalGeneration", "", "hf_child.py"),
    ],
)
def test_exporter_follows_from_the_architecture_and_the_task(folder, architecture, task, child):
    place = folder(architectures=[architecture])
    assert sources.recognize(str(place), task=task).source.child == child


def test_decoder_is_proved_through_its_cache_and_written_with_what_generation_needs(decodes, tmp_path):
    settings = {"max_new_tokens": 50, "eos_token_id": None}
    (tmp_path / "model" / "generation_config.json").write_text(json.dumps(settings))
    (tmp_path / "model" / "special_tokens_map.json").unlink()
    (tmp_path / "out.text").mkdir()
    (tmp_path / "out.text" / "special_tokens_map.json").write_text("of an earlier import")
    code, last, left = decodes()
    assert (code, left) == (0, {"out.onnx", "out.npz"}), last
    found = last["data"]
    ways = [each["name"] for each in found["proof"]["outputs"]]
    assert ways == ["logits, whole", "logits, token by token", "logits, two chunks"]
    assert found["proof"]["snr_db"] > 110
    sizes = [(one["batch"], one["sequence"]) for one in found["proof"]["sizes"]]
    assert {(1, 1), (1, 33), (1, 64), (3, 1), (3, 12)} <= set(sizes)
    assert max(length for _, length in sizes) == 64
    assert any("same 32 tokens" in note for note in found["notes"])

    written = {path.name: path.read_text() for path in Path(found["text"]).iterdir()}
    made = json.loads(written.pop("generation_config.json"))
    assert made == {"max_new_tokens": 50, "eos_token_id": [2, 3], "max_position_embeddings": 64}
    assert written == {name: text for name, text in TOKENIZER.items() if name != "special_tokens_map.json"}

    about = {each.key: each.value for each in onnx.load(tmp_path / "out.onnx").metadata_props}
    samples = np.load(tmp_path / "out.npz")
    assert samples["input_ids"].shape == (4, 1, 8)
    assert samples["past_key_values.0.key"].shape == (4, 1, 2, 8, 8)
    with edgeopt.load(tmp_path / "out.onnx") as session:
        cache = found_cache(session.inputs, session.outputs, decoded_limits(about[LIMITS_KEY]))
        assert cache.max_context_tokens == 64
        assert session.run({name: samples[name][0] for name in samples.files})["logits"].shape == (1, 8, 29)


@pytest.mark.parametrize(
    ("ending", "reason"),
    [
        (
            "raise NotImplementedError('The planted model is not supported.\\n  Ask for it.')",
            "NotImplementedError: The planted model is not supported",
        ),
        ("sys.exit(3)", "it ended with exit code 3"),
    ],
)
def test_note_says_why_the_model_builder_did_not_write_the_graph(tmp_path, monkeypatch, capfd, ending, reason):
    package = tmp_path / "onnxruntime_genai" / "models"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").touch()
    (package / "__init__.py").touch()
    (package / "builder.py").write_text(f"import sys\nsys.stderr.write('some warning\\n')\n{ending}\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    model = SimpleNamespace(config=SimpleNamespace(num_hidden_layers=1), parameters=list)
    job = SimpleNamespace(
        opset=None, builder=True, folder=tmp_path, place=str(tmp_path), trust=False, notes=[], say=lambda **_: None
    )
    assert lm_child._built(SimpleNamespace(module=model), job) == ""
    (note,) = job.notes
    assert note == f"torch.onnx wrote the graph, as the model builder of onnxruntime-genai cannot: {reason}."
    assert "some warning" in capfd.readouterr().err


def test_graph_of_a_model_builder_that_differs_is_replaced_by_that_of_the_exporter(decodes):
    code, last, left = decodes(fault="builder")
    assert (code, left) == (0, {"out.onnx", "out.npz", "out.text"}), last
    assert last["data"]["exporter"] == "planted 1"
    assert last["data"]["proof"]["snr_db"] > 110
    assert any("The graph of onnxruntime-genai is not used: The output" in note for note in last["data"]["notes"])


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("weights", ("'logits, whole'",)),
        ("positions", ("'logits, whole'", "batch = 3")),
        ("cache", ("'logits, token by token'",)),
    ],
)
def test_decoder_with_a_fault_is_refused_with_what_shows_it(decodes, fault, said):
    code, last, left = decodes(fault=fault)
    assert (code, left) == (6, set()), last
    assert all(each in last["message"] for each in said)


def test_model_without_a_tokenizer_says_so(decodes, tmp_path):
    (tmp_path / "model" / "tokenizer.json").unlink()
    code, last, left = decodes()
    assert (code, left) == (0, {"out.onnx", "out.npz", "out.text"})
    assert "The folder has no tokenizer, so the model takes tokens only." in last["data"]["notes"]


def test_language_model_takes_no_dynamic_dimensions(imports, folder):
    code, last, left = imports(folder(), "--dynamic", "batch")
    assert (code, left) == (2, set())
    assert "are all open" in last["message"]


def test_base_of_rotary_embeddings_is_read_from_old_and_new_configurations():
    assert lm_child.rope_base({"rope_theta": 10_000}) == 10_000
    assert lm_child.rope_base({"rope_parameters": {"rope_theta": 100_000.0}}) == 100_000
    assert lm_child.rope_base({}) is None


@pytest.fixture(scope="session")
def saved(frameworks, tmp_path_factory):
    path = tmp_path_factory.mktemp("language-models")
    subprocess.run([frameworks, "-W", "ignore", MODELS], cwd=path, check=True)
    return path


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("name", "longest", "files"),
    [
        ("gpt", 64, {"tokenizer.json", "tokenizer_config.json"}),
        ("llama", 128, {"tokenizer.json", "tokenizer_config.json", "chat_template.jinja"}),
    ],
)
def test_language_model_of_transformers_is_proved(imports, frameworks, saved, tmp_path, name, longest, files):
    shutil.copytree(saved / name, tmp_path / name)
    # Without an opset, the model builder of ONNX Runtime GenAI writes the graph, where it is installed.
    code, last, left = imports(name, "--python", frameworks, "--opset", "20")
    assert (code, left) == (0, {"out.onnx", "out.npz", "out.text"}), last
    found = last["data"]
    assert found["exporter"].startswith("torch.onnx")
    assert found["proof"]["snr_db"] > 110
    assert any("same 32 tokens" in note for note in found["notes"])
    assert {path.name for path in (tmp_path / "out.text").iterdir()} >= {*files, "generation_config.json"}
    model = onnx.load(tmp_path / "out.onnx")
    onnx.checker.check_model(model)
    about = {each.key: each.value for each in model.metadata_props}
    assert decoded_limits(about[LIMITS_KEY])["attention_mask"]["1"].maximum == longest
    weights = {each.name for each in model.graph.initializer}
    (head,) = [node for node in model.graph.node if "logits" in node.output]
    assert head.input[1] in weights  # not a Transpose of the tied embedding


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("name", "exporter"), [("llama", "onnxruntime-genai"), ("gpt", "torch.onnx")])
def test_model_builder_writes_the_graph_of_an_architecture_that_it_knows(
    imports, frameworks, saved, tmp_path, name, exporter
):
    if subprocess.run([frameworks, "-c", "import onnxruntime_genai"], capture_output=True, check=False).returncode:
        pytest.skip("the environment has no onnxruntime-genai")
    shutil.copytree(saved / name, tmp_path / name)
    code, last, _ = imports(name, "--python", frameworks)
    found = last["data"]
    assert code == 0, last
    assert found["exporter"].startswith(exporter)
    assert found["proof"]["snr_db"] > 100
    grouped = any(node.op_type == "GroupQueryAttention" for node in onnx.load(tmp_path / "out.onnx").graph.node)
    batches = {one["batch"] for one in found["proof"]["sizes"] if one}
    assert (grouped, batches) == ((True, {1}) if name == "llama" else (False, {1, 3}))
    assert any("one text at a time" in note for note in found["notes"]) is grouped
    with edgeopt.load(tmp_path / "out.onnx") as session:
        assert len(list(session.generate([5, 7, 11], max_tokens=8))) == 8


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_language_model_is_measured_against_its_folder(imports, frameworks, saved, tmp_path):
    shutil.copytree(saved / "llama", tmp_path / "llama")
    assert imports("llama", "--python", frameworks)[0] == 0
    found = edgeopt.bench(
        "out.onnx", against="llama", python=frameworks, data="out.npz", rounds=6, time_limit_s=60
    )
    (original,) = found.originals
    assert original.agreements[0].snr_db > 60


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_language_model_with_another_state_than_keys_and_values_is_refused(imports, frameworks, saved, tmp_path):
    shutil.copytree(saved / "mamba", tmp_path / "mamba")
    code, last, left = imports("mamba", "--python", frameworks)
    assert (code, left) == (3, set()), last
    assert "cache" in last["message"] or "another state" in last["message"]
