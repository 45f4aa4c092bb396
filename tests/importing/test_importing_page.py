"""docs/importing.md: its commands run as they stand there, on small models under the names of the page."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.importing.test_frameworks import NETWORKS, fitted, sklearn  # noqa: F401 - a fixture
from tests.importing.test_huggingface import MODELS as HUGGING_FACE
from tests.importing.test_tensorflow import MODELS as TENSORFLOW
from tests.importing.test_tensorflow import tensorflow  # noqa: F401 - a fixture

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "importing.md").read_text()
README = (ROOT / "README.md").read_text()
BLOCKS = [block.splitlines() for block in re.findall(r"^```sh\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)]
LINES = [line for block in BLOCKS for line in block]
OWN = re.compile(r"^(?!.*--python)(.*\b(?:net\.py:Net|models:build|program\.pt2|against forest).*)$")
"""Where edgeopt's own environment has the framework."""


@pytest.fixture
def reader(tmp_path):
    """Types lines of the page in a folder, with the environments in its home; what they print."""
    programs = tmp_path / "programs"
    programs.mkdir()
    write_program(programs / "edgeopt", sys.executable, "-m", "edgeopt")
    environment = {
        **os.environ,
        "HOME": str(tmp_path / "home"),
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
    }

    def type_lines(*lines, **pythons):
        for name, python in pythons.items():
            write_program(tmp_path / "home" / name / "bin" / "python", python)
        done = subprocess.run(
            ["bash", "-e", "-c", "\n".join(lines)],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=900,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    return type_lines


def write_program(path, *command):
    path.parent.mkdir(parents=True, exist_ok=True)
    words = " ".join(f'"{word}"' for word in command)
    path.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
    path.chmod(0o755)


def old_model():
    value = onnx.helper.make_tensor_value_info
    image, made = (value(name, onnx.TensorProto.FLOAT, ["n", 3, "h", "w"]) for name in ("image", "made"))
    graph = onnx.helper.make_graph([onnx.helper.make_node("Relu", ["image"], ["made"])], "old", [image], [made])
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 11)], ir_version=6)


def test_page_has_a_line_for_every_kind_of_source():
    sources = ("forest.joblib", "net.py:Net", "package.models:build", "program.pt2", "bert-folder/")
    assert [
        each for each in (*sources, "classifier.keras", "old.onnx") if f"edgeopt import {each} " not in PAGE
    ] == []


def test_first_screen_of_the_readme_has_a_line_of_the_page():
    first = README.partition("\n## ")[0]
    (line,) = re.findall(r"`(edgeopt optimize \S+:\S+ [^`]*)`", first)
    assert "(docs/importing.md)" in first
    words = {
        frozenset(each.split()) for each in (*LINES, *(each.replace(" --data data.npz", "") for each in LINES))
    }
    assert frozenset(line.split()) in words


@pytest.mark.slow
def test_lines_of_scikit_learn_and_onnx_run(reader, sklearn, tmp_path):  # noqa: F811
    fitted(sklearn, tmp_path)
    onnx.save(old_model(), tmp_path / "old.onnx")
    lines = [line for line in LINES if line.startswith(("edgeopt import forest", "edgeopt import old"))]
    assert len(lines) == 2
    printed = reader(*lines, ml=sklearn)
    assert printed.count("Proved against") == 2
    assert np.load(tmp_path / "new.npz")["image"].shape[1:] == (1, 3, 224, 224)
    assert onnx.load(tmp_path / "new.onnx").opset_import[0].version == 17


@pytest.mark.slow
@pytest.mark.timeout(2400)
def test_all_lines_run(reader, frameworks, tensorflow, tmp_path):  # noqa: F811
    run_in(tmp_path, frameworks, NETWORKS)
    run_in(tmp_path, frameworks, HUGGING_FACE)
    run_in(tmp_path, tensorflow, TENSORFLOW)
    fitted(frameworks, tmp_path)
    onnx.save(old_model(), tmp_path / "old.onnx")
    shutil.copy(NETWORKS, tmp_path / "net.py")
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "models.py").write_text("from net import Net\n\n\ndef build():\n    return Net()\n")
    shutil.move(tmp_path / "bert", tmp_path / "bert-folder")
    shutil.move(tmp_path / "two.keras", tmp_path / "classifier.keras")
    images = np.random.default_rng(0).random((16, 3, 8, 8), np.float32)
    for name in ("samples.npz", "data.npz"):
        np.savez(tmp_path / name, image=images)
    lines = [OWN.sub(r"\1 --python ~/ml/bin/python", line) for line in LINES]
    lines = [re.sub(r"^(edgeopt optimize .*)", r"\1 --time-limit 8", line) for line in lines]
    if shutil.which("c++") is None:
        lines = [line.replace(" --against net.py:Net@compile", "") for line in lines]
    printed = reader(*lines, ml=frameworks, tf=tensorflow)
    assert printed.count("Proved against") == sum("edgeopt import" in line for line in LINES)
    assert "Against net.py:Net in torch" in printed
    assert printed.count("net.py:Net ran in torch") == 2
    assert "ran in scikit-learn" in printed


def run_in(folder, python, script):
    subprocess.run([python, "-W", "ignore", script], cwd=folder, check=True)
