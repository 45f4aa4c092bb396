"""Imports of PyTorch modules in numbers: forty that are right or wrong, those of torch.nn's documentation.

Each prints its row of the table: `pytest -rP`. Packages: see `conftest.py`; EDGEOPT_TORCHVISION may name a Python
with torchvision, whose models are left out otherwise.
"""

import ast
import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

import edgeopt
from edgeopt.errors import DataError

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
FORTY = Path(__file__).with_name("forty_modules.py")
DOCUMENTED = Path(__file__).with_name("documented_modules.py")


def rows(*wanted):
    """The tables of a file that this environment cannot import, because it has no torch."""
    tree = ast.parse(FORTY.read_text())
    kept = [node for node in tree.body if isinstance(node, ast.Assign)]
    found = {}
    exec(compile(ast.Module(kept, []), str(FORTY), "exec"), found)  # noqa: S102 - a file of these tests
    return [found[name] for name in wanted]


RIGHT, WRONG = rows("RIGHT", "WRONG")
NAMES = [node.name for node in ast.parse(DOCUMENTED.read_text()).body if isinstance(node, ast.FunctionDef)]
REFUSED = {
    # A row whose keys are all hidden: PyTorch answers 0, the exported softmax nan.
    "causal_encoder": "is not finite where the reference is",
    "packed": "cannot be exported for all inputs",
}
"""What of the documentation does not come in, with a part of the reason."""
VISION = ("resnet18", "mobilenet_v3_small", "vgg11_bn", "densenet121", "vit_b_16", "swin_t", "convnext_tiny")
VISION_CODE = """
import torchvision
def model():
    return torchvision.models.{}(weights=None), (__import__("torch").rand(1, 3, 224, 224),)
"""


def test_there_are_twenty_of_each():
    assert (len(RIGHT), len(WRONG)) == (20, 20)


@pytest.mark.parametrize("name", RIGHT)
def test_right_module_is_accepted(imports, frameworks, tmp_path, name):
    shutil.copy(FORTY, tmp_path)
    code, last, _ = imports(f"{FORTY.name}:{name}", "--python", frameworks, *RIGHT[name])
    assert code == 0, last


@pytest.mark.parametrize("name", WRONG)
def test_wrong_module_is_refused_or_limited_to_what_is_right(imports, frameworks, tmp_path, name):
    shutil.copy(FORTY, tmp_path)
    options, shape = WRONG[name]
    code, last, left = imports(f"{FORTY.name}:{name}", "--python", frameworks, *options)
    sys.stdout.write(f"| {name} | {last.get('message') or last['data']['notes']} |\n")
    if code == 0:
        assert shape is not None, last
        if isinstance(shape, str):
            assert any(shape in note for note in last["data"]["notes"])
            return
        with edgeopt.load(tmp_path / "out.onnx") as session, pytest.raises(DataError, match="the model is for"):
            session.run({"x": np.ones(shape, np.float32)})
    else:
        assert (code in {3, 6}, left) == (True, set())


@pytest.mark.parametrize("name", [name for name in NAMES if name != "padding"])
def test_module_of_the_documentation_is_imported(imports, frameworks, tmp_path, name):
    shutil.copy(DOCUMENTED, tmp_path)
    code, last, _ = imports(f"{DOCUMENTED.name}:{name}", "--python", frameworks)
    sys.stdout.write(f"| {name} | {last.get('message') or 'imported'} |\n")
    assert (code == 0) == (name not in REFUSED), last
    if name in REFUSED:
        assert REFUSED[name] in last["message"]


@pytest.mark.parametrize("name", VISION)
def test_model_of_torchvision_is_imported(imports, tmp_path, name):
    python = os.environ.get("EDGEOPT_TORCHVISION")
    if python is None:
        pytest.skip("EDGEOPT_TORCHVISION does not name a Python with torchvision")
    (tmp_path / "vision.py").write_text(VISION_CODE.format(name))
    code, last, _ = imports("vision.py:model", "--python", python, "--samples", 2)
    sys.stdout.write(f"| {name} | {last.get('message') or 'imported'} |\n")
    assert code == 0, last
