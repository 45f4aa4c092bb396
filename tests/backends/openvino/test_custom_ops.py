"""A real library with a real operator, built here with the headers that OpenVINO brings."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from edgeopt.backends import backend_named
from edgeopt.errors import ModelError, UsageError

openvino = pytest.importorskip("openvino")


@pytest.fixture(scope="session")
def triple_library(tmp_path_factory):
    compiler = shutil.which("g++")
    package = Path(openvino.__file__).parent
    if compiler is None or not (package / "include").is_dir():
        pytest.skip("building an operator needs g++ and OpenVINO's headers")
    library = tmp_path_factory.mktemp("operators") / "libtriple.so"
    linked = [next((package / "libs").glob(f"lib{name}.so*")) for name in ("openvino", "openvino_onnx_frontend")]
    source = Path(__file__).with_name("triple.cpp")
    command = [compiler, "-std=c++17", "-shared", "-fPIC", f"-I{package / 'include'}", source, *linked]
    subprocess.run([*command, "-o", library], check=True)
    return library


@pytest.fixture
def triple_model(tmp_path):
    import onnx
    from onnx import helper

    nodes = [helper.make_node("Triple", ["x"], ["t"], domain="test"), helper.make_node("Relu", ["t"], ["y"])]
    ports = [[helper.make_tensor_value_info(name, 1, ["n"])] for name in "xy"]
    domains = [helper.make_opsetid("", 17), helper.make_opsetid("test", 1)]
    path = tmp_path / "triple.onnx"
    onnx.save(
        helper.make_model(helper.make_graph(nodes, "test", *ports), opset_imports=domains, ir_version=9), path
    )
    return path


@pytest.mark.parametrize("name", ["openvino-cpu", "openvino-auto"])
def test_an_operator_of_the_users_own_runs(triple_library, triple_model, name):
    session = backend_named(name).load(triple_model, {}, strict=True, custom_ops=(str(triple_library),))
    assert session.run({"x": np.array([1, -2], np.float32)})["y"].tolist() == [3, 0]


def test_another_session_does_not_have_it(triple_library, triple_model):
    backend = backend_named("openvino-cpu")
    backend.load(triple_model, {}, custom_ops=(str(triple_library),)).close()
    with pytest.raises(ModelError, match="Triple") as raised:
        backend.load(triple_model, {})
    assert "--custom-ops" in raised.value.hint


def test_a_library_without_operators_is_told_apart(onnx_file):
    library = next((Path(openvino.__file__).parent / "libs").glob("libtbb.so*"))
    with pytest.raises(UsageError, match="cannot take custom operators from 'libtbb") as raised:
        backend_named("openvino-cpu").load(onnx_file("batch"), {}, custom_ops=(str(library),))
    assert "create_extensions" in raised.value.hint
