"""What is wrong with files and packages is said before an import begins, not after an export of a minute."""

import json
import sys

import numpy as np
import pytest

from edgeopt.cli.main import run
from edgeopt.importing.children.hf_processor import processed

FAKES = ("torch", "onnx", "onnxscript", "transformers", "safetensors")


@pytest.fixture
def without_pillow(tmp_path):
    """A Python with empty packages instead of the frameworks, and without Pillow."""
    packages = tmp_path / "packages"
    packages.mkdir()
    for name in FAKES:
        (packages / f"{name}.py").touch()
    (packages / "sitecustomize.py").write_text("import sys\nsys.modules['PIL'] = None\n")
    program = tmp_path / "python"
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{packages}" exec "{sys.executable}" "$@"\n')
    program.chmod(0o755)
    return program


@pytest.fixture
def vit(tmp_path):
    """A Hugging Face folder of a model for pictures; its weights are empty."""
    folder = tmp_path / "vit"
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "vit", "architectures": ["ViTModel"]}')
    (folder / "preprocessor_config.json").write_text('{"image_processor_type": "ViTImageProcessor"}')
    header = b'{"__metadata__": {}}'
    (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    return folder


@pytest.mark.parametrize("command", ["import vit -o vit.onnx", "optimize vit -o vit.edgeopt"])
def test_missing_package_of_a_processor_is_named(command, vit, without_pillow, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    assert run([*command.split(), "--python", str(without_pillow)]) == 5
    said = capfd.readouterr().err
    assert "needs pillow" in said
    assert "-m pip install pillow" in said
    assert not {"vit.onnx", "vit.edgeopt"} & {each.name for each in tmp_path.iterdir()}


def test_missing_package_of_a_processor_is_no_note(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ModuleNotFoundError):
        processed(None, {"input_values": None}, {"feature_extractor_type": "Wav2Vec2FeatureExtractor"})


@pytest.fixture
def fails(planted, imports, tmp_path, capfd):
    """Runs a command on a model whose import ends its process, so that what is said before can be told from it."""
    assert imports
    planted("crash")
    np.savez(tmp_path / "data.npz", x=np.zeros((12, 4, 4), np.float32), target=np.zeros(12))
    (tmp_path / "broken.npz").write_bytes(b"PK broken")
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "0.png").write_bytes(b"no picture")
    (tmp_path / "table.toml").write_text("[data]\nresize = [4, 4]\n")

    def said(*arguments):
        code = run([*map(str, arguments), "--json"])
        return code, json.loads(capfd.readouterr().out.splitlines()[-1])["message"]

    return said


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ("--data gone.npz", 3, "There is no data at 'gone.npz'."),
        ("--data broken.npz", 3, "'broken.npz' cannot be read as data"),
        ("--data pictures", 3, "nothing says how to prepare them"),
        ("--data pictures --pre table.toml", 3, "cannot be read as a picture"),
        ("--data data.npz --pre gone.toml", 2, "There is no file 'gone.toml'."),
        ("--data data.npz --post table.toml", 3, "postprocessing is a list of [[steps]]"),
        (
            "--data data.npz --metric top1-labels --max-drop 1%",
            3,
            "no array 'label' or 'labels'; it has: x, target.",
        ),
        ("--data data.npz --metric top1-labels --max-drop 1% --labels y", 3, "no array 'y'"),
        ("--metric top1-labels --max-drop 1%", 3, "no array 'label' or 'labels'; it has: none."),
        ("--profile nosuch", 3, "nosuch"),
        ("--target nosuch", 2, "nosuch"),
    ],
)
def test_wrong_file_is_named_before_the_import(fails, arguments, code, message):
    got, said = fails("optimize", "model.planted", "-o", "out.edgeopt", *arguments.split())
    assert (got, message in said) == (code, True), said


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("gone.npz", "There is no data at 'gone.npz'."),
        ("broken.npz", "'broken.npz' cannot be read as data"),
        ("pictures", "The folder 'pictures' holds pictures, and an import takes arrays."),
    ],
)
def test_wrong_data_is_named_before_the_import(fails, data, message):
    got, said = fails("import", "model.planted", "-o", "out.onnx", "--data", data)
    assert (got, message in said) == (3, True), said


def test_right_files_go_on_to_the_import(fails):
    labels = ("--data", "data.npz", "--metric", "top1-labels", "--max-drop", "1%", "--labels", "target")
    got, said = fails("optimize", "model.planted", "-o", "out.edgeopt", *labels)
    assert (got, "SIGABRT" in said) == (3, True), said
