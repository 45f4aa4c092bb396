import os
import shutil
import subprocess
from importlib.util import find_spec

import numpy as np
import pytest

from edgeopt.backends import backend_named
from edgeopt.backends.onnxruntime.opening import names_with_shape
from edgeopt.errors import ModelError, UsageError


def test_a_single_number_has_a_shape_and_an_open_tensor_has_none(tmp_path):
    import onnx
    from onnx import helper, numpy_helper

    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "one"], ["y"])],
        "g",
        [info("x", 1, []), info("open", 1, None), info("é", 1, ["n", 2])],
        [info("y", 1, None)],
        [numpy_helper.from_array(np.float32(1), "one"), numpy_helper.from_array(np.ones(40_000), "large")],
    )
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, producer_version="x" * 300), path)
    assert names_with_shape(path) == {"x", "é"}


needs_onnxruntime = pytest.mark.skipif(find_spec("onnxruntime") is None, reason="without ONNX Runtime")
ORT = backend_named("onnxruntime-cpu")


@pytest.fixture
def library(tmp_path):
    """`library("int f(void) { return 0; }")` is that source as a shared library."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None or os.name != "posix":
        pytest.skip("there is no C compiler to build a library with")

    def build(source):
        (tmp_path / "ops.c").write_text(source)
        command = [compiler, "-shared", "-fPIC", "-o", tmp_path / "ops.so", tmp_path / "ops.c"]
        subprocess.run(command, check=True)
        return str(tmp_path / "ops.so")

    return build


# What a library gets: the options to register with, and the table of ONNX Runtime's functions; no status is well.
REGISTERS = "void *RegisterCustomOps(void *options, const void *api) { return options && api ? 0 : (void *)1; }"


@needs_onnxruntime
def test_a_library_is_asked_for_its_operators(onnx_file, library):
    session = ORT.load(onnx_file("batch"), {}, custom_ops=(library(REGISTERS),))
    assert session.run({"x": np.ones((1, 3), np.float32)})["y"].tolist() == [[2, 2, 2]]


@needs_onnxruntime
def test_a_library_without_operators(onnx_file, library):
    with pytest.raises(UsageError, match=r"'ops.so' has no function RegisterCustomOps") as raised:
        ORT.load(onnx_file("batch"), {}, custom_ops=(library("int f(void) { return 0; }"),))
    assert raised.value.hint


@needs_onnxruntime
def test_what_is_not_there(onnx_file, tmp_path):
    with pytest.raises(UsageError, match=r"no library of custom operators at .*absent\.so"):
        ORT.load(onnx_file("batch"), {}, custom_ops=(str(tmp_path / "absent.so"),))


@needs_onnxruntime
def test_what_is_no_library(onnx_file, tmp_path):
    (tmp_path / "notes.so").write_text("not a library")
    with pytest.raises(UsageError, match=r"'notes.so' cannot be loaded as a library") as raised:
        ORT.load(onnx_file("batch"), {}, custom_ops=(str(tmp_path / "notes.so"),))
    assert raised.value.message.endswith(".")


@needs_onnxruntime
def test_an_operator_that_no_library_brings_is_named(onnx_file, library):
    nodes = [("Mine", ["x"], ["y"], {"domain": "my.ops"})]
    path = onnx_file(nodes=nodes, inputs=[("x", "float32", [1])], outputs=[("y", "float32", [1])])
    with pytest.raises(ModelError, match=r"my\.ops"):
        ORT.load(path, {}, custom_ops=(library(REGISTERS),))
