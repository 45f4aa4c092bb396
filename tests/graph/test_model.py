import hashlib
import pickle
import zipfile

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from edgeopt.errors import ModelError
from edgeopt.graph import model as model_file
from edgeopt.graph.model import load, save

RELU = "g (float[2] x) => (float[2] y) { y = Relu(x) }"


def test_loads_a_model_with_its_digest(write_model):
    path = write_model(RELU)
    model = load(path)
    assert model.digest == hashlib.sha256(path.read_bytes()).hexdigest()
    assert model.external == ()
    assert [node.op_type for node in model.ir.graph] == ["Relu"]


def zipped(path, *names):
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, b"content")


def sound(path):
    node = onnx.helper.make_node("Relu", ["x"], ["y"])
    values = [onnx.helper.make_tensor_value_info(n, 1, [2]) for n in "xy"]
    graph = onnx.helper.make_graph([node], "g", values[:1], values[1:])
    return onnx.helper.make_model(graph, ir_version=8, opset_imports=[onnx.helper.make_opsetid("", 17)])


def altered(change):
    def write(path):
        proto = sound(path)
        change(proto)
        path.write_bytes(proto.SerializeToString())

    return write


def cut(path):
    weights = onnx.numpy_helper.from_array(np.ones(500, np.float32), "w")
    proto = sound(path)
    proto.graph.initializer.append(weights)
    path.write_bytes(proto.SerializeToString()[:-300])


def cycle(proto):
    del proto.graph.node[:]
    proto.graph.node.append(onnx.helper.make_node("Add", ["x", "b"], ["a"], name="first"))
    proto.graph.node.append(onnx.helper.make_node("Relu", ["a"], ["b"], name="second"))
    proto.graph.node.append(onnx.helper.make_node("Relu", ["b"], ["y"], name="third"))


def unsorted(proto):
    proto.graph.node[0].input[0] = "a"
    proto.graph.node.append(onnx.helper.make_node("Neg", ["x"], ["a"], name="late"))


def dangling(proto):
    proto.graph.node[0].input[0] = "nobody"


def unknown_operator(proto):
    proto.graph.node[0].op_type = "Frobnicate"


BAD = (
    # (how the file is made, what the sentence says)
    (lambda _: None, "There is no file"),
    (lambda path: path.mkdir(), "is a folder, not a model"),
    (lambda path: path.write_bytes(b""), "is empty (0 bytes)"),
    (lambda path: path.write_text("<html>404 not found</html>"), "is a text file"),
    (lambda path: path.write_text("version https://git-lfs.github.com/spec/v1\n"), "is a Git LFS pointer"),
    (lambda path: path.write_bytes(b"\xff\xfe\xfd" * 99), "is not an ONNX model: its bytes"),
    (lambda path: zipped(path, "archive/data.pkl", "archive/version"), "is a PyTorch checkpoint"),
    (lambda path: zipped(path, "readme"), "is a zip archive"),
    (lambda path: path.write_bytes(pickle.dumps({"state_dict": 1})), "is a Python pickle"),
    (lambda path: path.write_bytes(b"\x1c\x00\x00\x00TFL3" + bytes(40)), "is a TensorFlow Lite model"),
    (lambda path: path.write_text('<?xml version="1.0"?><net name="m"/>'), "is an OpenVINO model (XML)"),
    (lambda path: path.write_bytes((9).to_bytes(8, "little") + b'{"a": {}}'), "is a safetensors file"),
    (lambda path: path.write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(40)), "is a Keras HDF5 file"),
    (cut, "is cut short"),
    (altered(lambda proto: proto.ClearField("graph")), "holds no graph"),
    (altered(lambda proto: setattr(proto.opset_import[0], "version", 999)), "uses opset 999"),
    (altered(lambda proto: setattr(proto, "ir_version", 999)), "has IR version 999"),
    (altered(cycle), "has a cycle: Add 'first' needs 'b'"),
    (altered(unsorted), "is not sorted: Relu 'y' reads 'a' before Neg 'late'"),
    (altered(dangling), "reads 'nobody' in Relu 'y', which no node, input or weight provides"),
    (altered(unknown_operator), "is not a valid ONNX model: No Op registered for Frobnicate"),
)


@pytest.mark.parametrize(("make", "said"), BAD, ids=[said for _, said in BAD])
def test_a_bad_file_gets_one_sentence_and_a_hint(folder, make, said):
    path = folder / "model.onnx"
    make(path)
    with pytest.raises(ModelError) as caught:
        load(path)
    assert said in caught.value.message
    assert "\n" not in caught.value.message
    assert caught.value.hint


def test_saves_and_loads_the_same_graph(write_model, folder):
    model = load(write_model("g (float[2] x) => (float[2] y) { y = Add(x, w) }", w=np.float32([1, 2])))
    save(model.ir, folder / "copy.onnx")
    again = load(folder / "copy.onnx")
    np.testing.assert_array_equal(again.ir.graph.initializers["w"].const_value.numpy(), [1, 2])
    assert not list(folder.glob(".copy*")), "temporary files are gone"


def test_a_model_with_external_data_is_saved_in_one_file_elsewhere(external_model, folder):
    (folder / "elsewhere").mkdir()
    model = load(external_model)
    save(model.ir, folder / "elsewhere" / "copy.onnx")
    assert [f.name for f in (folder / "elsewhere").iterdir()] == ["copy.onnx"]
    assert load(folder / "elsewhere" / "copy.onnx").external == ()


def test_large_weights_go_beside_the_model_under_a_name_from_their_digest(external_model, folder, monkeypatch):
    monkeypatch.setattr(model_file, "EXTERNAL_ABOVE_BYTES", 1000)
    model = load(external_model)
    save(model.ir, folder / "big.onnx")
    again = load(folder / "big.onnx")
    assert [f.name.startswith("big.onnx.") for f in again.external] == [True]
    np.testing.assert_array_equal(
        again.ir.graph.initializers["w"].const_value.numpy(), model.ir.graph.initializers["w"].const_value.numpy()
    )


def test_a_failed_save_leaves_the_older_file(write_model, folder, monkeypatch):
    model = load(write_model(RELU))
    target = folder / "kept.onnx"
    target.write_bytes(b"older")

    def no_space(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(ir, "save", no_space)
    with pytest.raises(OSError, match="No space"):
        save(model.ir, target)
    assert target.read_bytes() == b"older"
    assert not list(folder.glob(".kept*"))


def test_saving_into_a_folder_that_is_not_there(make_model, folder):
    with pytest.raises(ModelError, match="does not exist"):
        save(make_model(RELU).ir, folder / "missing" / "model.onnx")


def test_an_output_without_a_shape_gets_the_one_that_follows(make_model):
    model = make_model("g (float[2,3] x) => (float[] y) { y = Transpose(x) }")
    assert [list(output.shape) for output in model.ir.graph.outputs] == [[3, 2]]
