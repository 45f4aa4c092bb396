"""A bundle of the convolution that takes pictures and gives chances, by ONNX files or by declared steps."""

import re
import shutil

import msgspec
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgeopt.bundle import write
from edgeopt.bundle.deployment import FILE, SourceModel, info_of, read_deployment
from edgeopt.bundle.golden import put_processing_golden
from edgeopt.bundle.manifest import file_digest
from edgeopt.bundle.processing.attach import attach
from edgeopt.bundle.read import read_bundle

CAMERA = """
[data]
resize = [20]
crop = [16]
scale = 0.00392156862745098
mean = [0.5, 0.4, 0.3]
"""
CLASSES = """
[[steps]]
do = "softmax"
on = "y"
to = "chance"

[[steps]]
do = "top-k"
on = "chance"
k = 2
places = "class"
"""


def write_graph(path, nodes, inputs, outputs, weights=()):
    ports = [
        [helper.make_tensor_value_info(name, getattr(TensorProto, kind), shape) for name, kind, shape in those]
        for those in (inputs, outputs)
    ]
    graph = helper.make_graph(nodes, "tiny", *ports, list(weights))
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


@pytest.fixture(scope="session")
def pre_model(models):
    """Bytes with the channels last into numbers with the channels first."""
    nodes = [
        helper.make_node("Transpose", ["image"], ["turned"], perm=[0, 3, 1, 2]),
        helper.make_node("Cast", ["turned"], ["numbers"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["numbers", "scale"], ["x"]),
    ]
    scale = numpy_helper.from_array(np.float32(1 / 255), "scale")
    image, x = ("image", "UINT8", ["n", 16, 16, 3]), ("x", "FLOAT", ["n", 3, 16, 16])
    return write_graph(models / "pre.onnx", nodes, [image], [x], [scale])


@pytest.fixture(scope="session")
def post_model(models):
    nodes = [helper.make_node("Softmax", ["y"], ["chance"], axis=-1)]
    shape = ["n", 10]
    return write_graph(models / "post.onnx", nodes, [("y", "FLOAT", shape)], [("chance", "FLOAT", shape)])


@pytest.fixture(scope="session")
def camera(models):
    path = models / "camera.toml"
    path.write_text(CAMERA)
    return path


@pytest.fixture(scope="session")
def classes(models):
    path = models / "classes.toml"
    path.write_text(CLASSES)
    return path


def with_processing(bundle, folder, pre=None, post=None, unchecked="", **changes):
    """A copy of a sound bundle that processes with these files."""
    shutil.copytree(bundle, folder)
    told = read_deployment(folder / FILE)
    ports = [[info_of(each) for each in those] for those in (told.inputs, told.outputs)]
    attached = attach(pre, post, *ports)
    attached.put(folder)
    outputs = read_bundle(bundle).golden("outputs")
    assert re.match(unchecked + "$", put_processing_golden(folder, attached.processing, (), outputs))
    write.fill(folder, {}, msgspec.structs.replace(told, processing=attached.processing, **changes), {})
    return folder


@pytest.fixture
def processing_bundle(conv_bundle, conv_model, tmp_path):
    """Makes a copy of the sound bundle that processes with these files."""

    def make(pre=None, post=None, unchecked=""):
        source = SourceModel(conv_model.name, file_digest(conv_model), conv_model.stat().st_size)
        folder = tmp_path / "processing.edgeopt"
        return with_processing(conv_bundle, folder, pre, post, unchecked, source=source)

    return make
