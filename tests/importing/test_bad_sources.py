"""Fifteen sources that cannot be imported: exit code, a sentence with the next step, and nothing half-written."""

import importlib.util
import json
import os
import zipfile

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

BAD = {
    "missing framework": (("net.keras",), 5, "The import needs keras", "-m pip install keras"),
    "wrong class": (("net.py:Nett",), 3, "'net.py' has no 'Nett'.", "It has: Net."),
    "no such module": (("nowhere.nets:Net",), 3, "There is no module 'nowhere.nets'.", "PYTHONPATH"),
    "pickle without trust": (("model.joblib",), 2, "can run any code", "Add --trust"),
    "half a download": (("half",), 3, "has 172 bytes instead of 328.", "Download the folder again"),
    "empty folder": (("empty",), 3, "is empty.", "a folder with saved_model.pb or config.json"),
    "folder without weights": (("config",), 3, "model.safetensors is missing.", "Download the folder again"),
    "custom operator": (("custom.onnx",), 3, "has custom operators: own.ops:Special.", "operators of ONNX alone"),
    "complex numbers": (("complex.onnx",), 3, "holds complex numbers", "real and imaginary parts"),
    "data of another model": (
        ("model.onnx", "--data", "other.npz"),
        *(3, "no array for the model's input 'x'; it has: pixels.", "The model's inputs are: x."),
    ),
    "unknown extension": (("model.xyz",), 3, "the suffix of no known source.", "Give a file (.onnx"),
    "folder with two models": (
        ("two",),
        *(3, "holds a SavedModel (saved_model.pb) and a Hugging Face folder (config.json).", "Move one of them"),
    ),
    "folder of models": (("models",), 3, "is not a model itself.", "Name one of its files: a.onnx, b.onnx."),
    "no output folder": (("model.onnx", "-o", "nowhere/model.onnx"), 2, "does not exist.", "Create it first."),
    "syntax error": (("broken.py:Net",), 3, "'broken.py' has an error in line 2", "Correct the file."),
}


@pytest.fixture
def sources(tmp_path):
    # Not above: every worker of a test run imports this file, and only one runs its tests.
    import joblib
    from sklearn import linear_model

    _write_onnx(tmp_path / "model.onnx")
    _write_onnx(tmp_path / "custom.onnx", operator="Special", domain="own.ops")
    _write_onnx(tmp_path / "complex.onnx", operator="Identity", dtype=TensorProto.COMPLEX64)
    np.savez(tmp_path / "other.npz", pixels=np.zeros((4, 1, 4), np.float32))
    x = np.random.default_rng(0).random((20, 3))
    joblib.dump(linear_model.LogisticRegression().fit(x, x[:, 0] > 0.5), tmp_path / "model.joblib")
    (tmp_path / "net.py").write_text("import torch\n\nclass Net(torch.nn.Module):\n    pass\n")
    (tmp_path / "broken.py").write_text("import torch\nclass Net(:\n    pass\n")
    (tmp_path / "model.xyz").write_text("no model")
    with zipfile.ZipFile(tmp_path / "net.keras", "w") as archive:
        archive.writestr("config.json", "{}")
    for name in ("empty", "config", "half", "two", "models"):
        (tmp_path / name).mkdir()
    for name in ("config", "half", "two"):
        (tmp_path / name / "config.json").write_text('{"model_type": "bert"}')
    header = json.dumps({"w": {"dtype": "F32", "shape": [64], "data_offsets": [0, 256]}}).encode()
    weights = len(header).to_bytes(8, "little") + header + bytes(256)
    (tmp_path / "half" / "model.safetensors").write_bytes(weights[:172])
    (tmp_path / "two" / "model.safetensors").write_bytes(weights)
    (tmp_path / "two" / "saved_model.pb").write_bytes(b"\x08\x01")
    for name in ("a.onnx", "b.onnx"):
        _write_onnx(tmp_path / "models" / name)


@pytest.mark.parametrize("case", BAD)
def test_bad_source_is_refused_with_the_next_step(imports, sources, tmp_path, case):
    arguments, code, said, hint = BAD[case]
    if case == "missing framework" and importlib.util.find_spec("keras") is not None:
        pytest.skip("keras is installed here")
    before = sorted(tmp_path.rglob("*"))
    got, last, left = imports(*arguments)
    assert (got, last["event"], left) == (code, "error", set()), last
    assert said in last["message"]
    assert hint in last["hint"]
    assert [path for path in sorted(tmp_path.rglob("*")) if "__pycache__" not in path.parts] == before


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="the administrator reads every file")
def test_unreadable_file_is_refused(imports, sources, tmp_path):
    (tmp_path / "model.onnx").chmod(0)
    code, last, left = imports("model.onnx")
    assert (code, left) == (3, set())
    assert "'model.onnx' cannot be read" in last["message"]
    assert "chmod u+r" in last["hint"]


def _write_onnx(path, operator="Relu", domain="", dtype=TensorProto.FLOAT):
    ports = [helper.make_tensor_value_info(name, dtype, ["n", 4]) for name in ("x", "y")]
    graph = helper.make_graph(
        [helper.make_node(operator, ["x"], ["y"], domain=domain)], "one", ports[:1], ports[1:]
    )
    opsets = [helper.make_opsetid("", 17), *([helper.make_opsetid(domain, 1)] if domain else [])]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
