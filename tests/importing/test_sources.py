"""Sources that cannot be imported: the exit code, a sentence with a next step, and nothing written."""

import importlib.util
import zipfile

import pytest

from edgeopt.importing.sources import recognize

BAD = (
    ("missing.joblib", 3, "There is no file"),
    ("missing.py:Net", 3, "There is no file 'missing.py'"),
    ("empty", 3, "is empty."),
    ("full", 3, "contains no model"),
    ("weights.safetensors", 3, "the suffix of no known source"),
    ("net.py", 2, "is a Python file"),
    ("forest.pkl", 2, "can run any code"),
    ("forest.joblib", 2, "can run any code"),
    ("zero.onnx", 3, "is empty"),
    ("half.pt2", 3, "not a complete PyTorch exported program"),
    ("weights.pt", 3, "not a complete TorchScript module"),
    ("damaged.onnx", 3, "damaged.onnx"),
    ("half.keras", 3, "not a complete Keras model"),
    ("zero.tflite", 3, "is empty"),
)


@pytest.fixture
def files(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("no model")
    (tmp_path / "zero.onnx").touch()
    (tmp_path / "zero.tflite").touch()
    (tmp_path / "half.keras").write_bytes(b"PK")
    for name in ("weights.safetensors", "net.py", "forest.pkl", "forest.joblib", "weights.pt"):
        (tmp_path / name).write_text("import torch")
    with zipfile.ZipFile(tmp_path / "whole.pt2", "w") as archive:
        archive.writestr("archive/data", bytes(1000))
    (tmp_path / "half.pt2").write_bytes((tmp_path / "whole.pt2").read_bytes()[:500])
    (tmp_path / "damaged.onnx").write_bytes(bytes(range(200)))


@pytest.mark.parametrize(("source", "code", "said"), BAD)
def test_bad_source_is_refused(imports, files, source, code, said):
    got, last, left = imports(source)
    assert (got, last["event"], left) == (code, "error", set())
    assert said in last["message"]
    assert last["hint"]


@pytest.mark.parametrize(
    ("source", "package"),
    [("net.py:Net", "torch"), ("folder", "torch"), ("net.keras", "keras"), ("net.tflite", "tensorflow")],
)
def test_missing_framework_is_named_with_the_line_that_installs_it(imports, files, tmp_path, source, package):
    if importlib.util.find_spec(package) is not None:
        pytest.skip(f"{package} is installed here")
    (tmp_path / "net.py").write_text("import torch\n\nclass Net(torch.nn.Module):\n    pass\n")
    (tmp_path / "whole.pt2").rename(tmp_path / "net.keras")
    (tmp_path / "net.tflite").write_bytes(bytes(8))
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "config.json").write_text('{"model_type": "bert"}')
    (tmp_path / "folder" / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
    code, last, left = imports(source)
    assert (code, left) == (5, set()), last
    assert f"needs {package}" in last["message"]
    assert f"-m pip install {package}" in last["hint"]


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--dynamic", "batch,batch", "does not name an open dimension"),
        ("--dynamic", "height=first", "does not name an open dimension"),
        ("--dynamic", "batch,depth=5", "No input has the axis 5 of 'depth'"),
        ("--shape", "image", "is not a shape"),
        ("-o", "model.pb", "is no .onnx file"),
        ("-o", "nowhere/model.onnx", "does not exist"),
    ],
)
def test_wrong_option_is_refused(imports, planted, option, value, said):
    code, last, left = imports(planted("none"), option, value)
    assert (code, last["code"], left) == (2, "usage", set())
    assert said in last["message"]


def test_file_is_found_from_any_folder(tmp_path, monkeypatch):
    """Converters may change their folder."""
    (tmp_path / "a.tflite").write_bytes(b"any")
    monkeypatch.chdir(tmp_path)
    assert recognize("a.tflite").place == str(tmp_path / "a.tflite")
