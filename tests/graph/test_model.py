import hashlib
import os
import pickle
import zipfile

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from edgeopt.errors import ModelError
from edgeopt.graph.model import load, save
from edgeopt.graph.shapes.infer import infer_shapes
from edgeopt.graph.structure import fault, signature

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


def write_sparse(path, size):
    path.write_bytes(b"\x08\x08")
    os.truncate(path, size)


def sound(path):
    node = onnx.helper.make_node("Relu", ["x"], ["y"])
    values = [onnx.helper.make_tensor_value_info(n, 1, [2]) for n in "xy"]
    graph = onnx.helper.make_graph([node], "g", values[:1], values[1:])
    return onnx.helper.make_model(graph, ir_version=8, opset_imports=[onnx.helper.make_opsetid("", 17)])


def altered(change):
    def write(path):
        proto = sound(path)
        change(proto)
        path.write_bytes(proto.SerializeToString().replace(b"@@", b"\xf2\xf2"))

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


def twice(proto):
    proto.graph.node.append(onnx.helper.make_node("Neg", ["x"], ["y"], name="late"))


def calls_itself(proto):
    proto.opset_import.add(domain="own", version=1)
    node = onnx.helper.make_node("f", ["u"], ["v"], domain="own")
    proto.functions.append(onnx.helper.make_function("own", "f", ["u"], ["v"], [node], proto.opset_import))


def too_little(proto):
    proto.graph.initializer.append(onnx.TensorProto(name="w", data_type=1, dims=[2], raw_data=b"1234"))


def line_break(proto):
    proto.graph.node[0].input[0] = "no\nbody"


def not_utf8(proto):
    proto.graph.node[0].name = "@@"


def unknown_operator(proto):
    proto.graph.node[0].op_type = "Frobnicate"


BAD = (
    # (how the file is made, what the sentence says)
    (lambda _: None, "There is no file"),
    (lambda path: path.mkdir(), "is a folder, not a model"),
    (lambda path: path.write_bytes(b""), "is empty (0 bytes)"),
    (lambda path: path.write_text("<html>404 not found</html>"), "is an HTML page"),
    (os.mkfifo, "is a device or a pipe"),
    (lambda path: write_sparse(path, 2 << 30), "protobuf, the file format, is 2 GiB"),
    (lambda path: path.write_text("version https://git-lfs.github.com/spec/v1\n"), "is a Git LFS pointer"),
    (lambda path: path.write_bytes(b"\xff\xfe\xfd" * 99), "is not an ONNX model: it cannot be parsed"),
    (lambda path: zipped(path, "archive/data.pkl", "archive/version"), "is a PyTorch model"),
    (lambda path: zipped(path, "readme"), "is a zip archive"),
    (lambda path: path.write_bytes(pickle.dumps({"state_dict": 1})), "is a Python pickle"),
    (lambda path: path.write_bytes(b"\x1c\x00\x00\x00TFL3" + bytes(40)), "is a TensorFlow Lite model"),
    (lambda path: path.write_text('<?xml version="1.0"?><net name="m"/>'), "is an OpenVINO model (XML)"),
    (lambda path: path.write_bytes((9).to_bytes(8, "little") + b'{"a": {}}'), "is a safetensors file"),
    (lambda path: path.write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(40)), "is a Keras HDF5 file"),
    (cut, "is cut short"),
    (altered(lambda proto: proto.ClearField("graph")), "contains no graph"),
    (altered(lambda proto: setattr(proto.opset_import[0], "version", 999)), "uses opset 999"),
    (altered(lambda proto: setattr(proto, "ir_version", 999)), "has IR version 999"),
    (altered(cycle), "has a cycle: Add 'first' needs 'b'"),
    (altered(twice), "computes 'y' twice, in Relu 'y' and in Neg 'late'"),
    (altered(calls_itself), "has a function that calls itself: 'f'"),
    (altered(too_little), "is damaged: its weight 'w' has 4 bytes; its type and shape need 8"),
    (altered(line_break), "reads 'no body' in Relu 'y'"),
    (altered(not_utf8), "is not a valid ONNX model"),
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


def test_an_output_without_a_shape_gets_the_one_that_follows(make_model):
    model = make_model("g (float[2,3] x) => (float[] y) { y = Transpose(x) }")
    assert [list(output.shape) for output in model.ir.graph.outputs] == [[3, 2]]


def test_an_unsorted_model_is_sorted_and_says_so(folder):
    altered(unsorted)(folder / "model.onnx")
    model = load(folder / "model.onnx")
    assert [node.op_type for node in model.ir.graph] == ["Neg", "Relu"]
    assert model.repairs == ("sorted the nodes into an order in which they can run",)


def leave_training(proto):
    proto.training_info.add().algorithm.name = "sgd"


def leave_out_types(proto):
    proto.graph.output[0].ClearField("type")
    proto.graph.input[0].type.tensor_type.ClearField("shape")


def test_what_training_left_behind_is_left_out(folder):
    altered(leave_training)(folder / "model.onnx")
    assert load(folder / "model.onnx").repairs == ("removed the training information",)


def test_an_output_without_a_type_gets_the_one_that_follows(folder):
    altered(leave_out_types)(folder / "model.onnx")
    model = load(folder / "model.onnx")
    assert str(model.ir.graph.outputs[0].type) == "FLOAT"
    assert model.ir.graph.inputs[0].shape is None
    assert fault(model.ir, signature(model.ir)) is None


ODD = {
    "sequences": "g (seq(float[N]) s) => (int64 n) { n = SequenceLength(s) }",
    "optionals": "g (optional(float[2]) o) => (float[2] y) { y = OptionalGetElement(o) }",
    "texts": "g (string[2] s) => (string[2] y) { y = Identity(s) }",
    "no node": "g (float[2] x) => (float[2] x) { }",
    "loops": """g (int64 n, bool c, float[2] x) => (float[2] y) {
        y = Loop(n, c, x) <body = b (int64 i, bool d, float[2] v) => (bool e, float[2] w) {
            e = Identity(d)  w = Relu(v) }> }""",
    "training mode": """g (float[1,2,4] x, float[2] s) => (float[1,2,4] y) {
        y, m, v = BatchNormalization<training_mode = 1>(x, s, s, s, s) }""",
}


@pytest.mark.parametrize("what", ODD)
def test_what_models_may_hold_survives_loading_and_saving(what, make_model, folder):
    model = make_model(ODD[what], opset=18)
    save(model.ir, folder / "copy.onnx")
    before, after = (onnx.load(path).graph for path in (model.path, folder / "copy.onnx"))
    assert (after.input, after.output) == (before.input, before.output)
    assert [n.op_type for n in after.node] == [n.op_type for n in before.node]
    assert [n.attribute[0].name for n in after.node if n.attribute] == [
        n.attribute[0].name for n in before.node if n.attribute
    ]


HOSTILE = """g (float[N,4] x, int64[3] s, bool c) => (float[M,K] y, float[A,B,C] z) {
    h = Shape(x)  a = Gather(h, zero)  t = Concat<axis = 0>(a, four)  r = Reshape(x, t)  q = own.f<k = 1>(r)
    y = If (c) <then_branch = t () => (float[M,K] p) { p = MatMul(q, w) },
                else_branch = e () => (float[M,K] p2) { p2 = Neg(q) }>
    z = Expand(x, s) }"""
OWN = '<domain: "own", opset_import: ["" : 17]> f <k> (u) => (v) { e = Softmax<axis: int = @k>(u) v = Exp(e) }'


@pytest.fixture
def hostile(write_model):
    weights = {"w": np.ones((4, 4), np.float32), "zero": np.int64([0]), "four": np.int64([4])}
    return write_model(HOSTILE, functions=OWN, **weights)


def spoiled(data, seed):
    """The same bytes always: cut somewhere, or with some of them changed."""
    random = np.random.default_rng(seed)
    if seed % 5 == 0:
        return data[: random.integers(len(data))]
    content = bytearray(data)
    for place in random.integers(len(data), size=random.choice([1, 1, 2, 4, 16])):
        content[place] = random.integers(256)
    return bytes(content)


def test_damaged_bytes_are_refused_in_one_sentence_or_read(hostile):
    data, refused = hostile.read_bytes(), []
    for seed in range(500):
        hostile.write_bytes(spoiled(data, seed))
        try:
            infer_shapes(load(hostile).ir)
        except ModelError as error:
            refused.append(error)
    assert 300 < len(refused) < 500
    assert all(e.message.isprintable() and len(e.message) <= 400 and e.hint for e in refused)


def test_every_cut_is_told(write_model):
    path = write_model(RELU)
    data = path.read_bytes()
    for size in range(len(data)):
        path.write_bytes(data[:size])
        with pytest.raises(ModelError):
            load(path)


def test_an_operator_that_an_opset_took_back_is_loaded_as_exporters_write_it(make_model):
    text = "g (float[1,4,8,8] x) => (float[1,4,8,8] y) { y = GroupNormalization <num_groups = 2> (x, s, b) }"
    numbers = {name: np.ones(2, np.float32) for name in "sb"}
    assert make_model(text, opset=18, **numbers).ir.graph[0].op_type == "GroupNormalization"


def test_weights_that_are_no_inputs_raise_the_old_ir_version(write_model):
    path = write_model(
        "g (float[2] x) => (float[2] y) { y = Add(x, w) }", opset=8, ir_version=3, w=np.float32([1, 2])
    )
    model = load(path)
    assert model.ir.ir_version == 4
    assert "raised the IR version from 3" in model.repairs[0]


def test_sizes_that_stand_for_any_are_open_and_need_not_be_equal(folder):
    """As Paddle's exporter writes them: the batch -1, height and width both '?'."""
    relu = helper.make_node("Relu", ["x"], ["y"])
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [-1, 3, "?", "?"]) for name in "xy"]
    path = folder / "odd.onnx"
    onnx.save(helper.make_model(helper.make_graph([relu], "g", ports[:1], ports[1:])), path)
    model = load(path)
    shape = model.ir.graph.inputs[0].shape
    assert [getattr(size, "value", size) for size in shape] == [None, 3, None, None]
    assert "sizes of -1" in model.repairs[0]
