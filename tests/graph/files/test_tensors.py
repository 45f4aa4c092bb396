import os

import numpy as np
import onnx
import pytest

from edgeopt.errors import ModelError
from edgeopt.graph.files.tensors import make_dense, tensor_fault
from edgeopt.graph.model import load


def relocate(path, **entries):
    proto = onnx.load(path, load_external_data=False)
    for entry in proto.graph.initializer[0].external_data:
        if entry.key in entries:
            entry.value = entries[entry.key]
    path.write_bytes(proto.SerializeToString())


def test_the_digest_covers_the_external_data(external_model, folder):
    before = load(external_model)
    assert before.external == (folder / "weights.bin",)
    data = bytearray((folder / "weights.bin").read_bytes())
    data[0] ^= 1
    (folder / "weights.bin").write_bytes(data)
    assert load(external_model).digest != before.digest


def test_weights_are_read_from_the_file(external_model):
    weight = load(external_model).ir.graph.initializers["w"].const_value
    np.testing.assert_array_equal(weight.numpy(), np.arange(400))


def missing(path):
    (path.parent / "weights.bin").unlink()


def short(path):
    os.truncate(path.parent / "weights.bin", 100)


def linked(path):
    (path.parent / "weights.bin").rename(path.parent / "real.bin")
    (path.parent / "weights.bin").symlink_to(path.parent / "real.bin")


def linked_folder(path):
    (path.parent / "weights.bin").rename(path.parent.parent / "weights.bin")
    (path.parent / "data").symlink_to(path.parent.parent)
    relocate(path, location="data/weights.bin")


def hard_linked(path):
    (path.parent / "other.bin").hardlink_to(path.parent / "weights.bin")


BAD_PLACES = (
    (missing, "is missing"),
    (hard_linked, "has several hard links"),
    (short, "is too short: the weight 'w' ends at byte 1,600, the file at 100"),
    (linked, "is a symbolic link"),
    (linked_folder, "is a symbolic link"),
    (lambda path: relocate(path, location="../weights.bin"), "is outside the model's folder"),
    (lambda path: relocate(path, location="/etc/hostname"), "is outside the model's folder"),
    (lambda path: relocate(path, location="..\\weights.bin"), "is outside the model's folder"),
    (lambda path: relocate(path, location=""), "is outside the model's folder"),
    (lambda path: relocate(path, location="*/_ORT_MEM_ADDR_/*"), "refers to ONNX Runtime's own memory"),
    (lambda path: relocate(path, offset="-8"), "is too short"),
    (lambda path: relocate(path, length="many"), "has no valid offset"),
)


@pytest.mark.parametrize(
    ("spoil", "said"), BAD_PLACES, ids=[f"{k}-{said}" for k, (_, said) in enumerate(BAD_PLACES)]
)
def test_bad_external_data_gets_one_sentence_and_a_hint(external_model, spoil, said):
    spoil(external_model)
    with pytest.raises(ModelError) as caught:
        load(external_model)
    assert said in caught.value.message
    assert caught.value.hint


def test_an_output_without_a_shape_is_no_hindrance(external_model):
    proto = onnx.load(external_model, load_external_data=False)
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    external_model.write_bytes(proto.SerializeToString())
    assert list(load(external_model).ir.graph.outputs[0].shape) == [400]


def test_an_unsorted_model_is_sorted(external_model):
    proto = onnx.load(external_model, load_external_data=False)
    proto.graph.node[0].input[0] = "late"
    proto.graph.node.append(onnx.helper.make_node("Neg", ["x"], ["late"]))
    external_model.write_bytes(proto.SerializeToString())
    assert [node.op_type for node in load(external_model).ir.graph] == ["Neg", "Add"]


helper = onnx.helper
ADD = "g (float[2,3] x) => (float[2,3] y) { y = Add(x, w) }"


def with_weight(write_model, tensor):
    path = write_model(ADD)
    proto = onnx.load(path)
    proto.graph.initializer.append(tensor)
    return path, proto


TYPES = sorted({*onnx.TensorProto.DataType.keys()} - {"UNDEFINED", "STRING"})


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("name", TYPES)
def test_every_data_type_in_both_forms_holds_what_it_promises(write_model, name, raw):
    type_ = getattr(onnx.TensorProto, name)
    tensor = helper.make_tensor("w", type_, [5], [1] * 5)
    if raw:
        tensor = onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor), "w")
    proto = with_weight(write_model, tensor)[1]
    assert tensor_fault(proto) is None


def spoiled(**changes):
    def spoil(tensor):
        for key, value in changes.items():
            setattr(tensor, key, value)

    return spoil


BAD = (
    (spoiled(raw_data=b"1234"), "its weight 'w' has 4 bytes; its type and shape need 24"),
    (lambda tensor: tensor.ClearField("raw_data"), "has 0 values; its type and shape need 6"),
    (spoiled(data_type=99), "has the unknown data type 99"),
    (lambda tensor: tensor.dims.__setitem__(0, -2), "has a negative dimension"),
)


@pytest.mark.parametrize(("spoil", "said"), BAD, ids=[said for _, said in BAD])
def test_a_damaged_weight_is_named(write_model, spoil, said):
    proto = with_weight(write_model, onnx.numpy_helper.from_array(np.ones((2, 3), np.float32), "w"))[1]
    spoil(proto.graph.initializer[0])
    assert said in tensor_fault(proto)


@pytest.mark.parametrize(("places", "shape"), [([1, 5], [2]), ([0, 1, 1, 2], [2, 2])])
def test_sparse_weights_become_dense_and_the_model_says_so(write_model, results, places, shape):
    """onnx-ir would drop them without a word."""
    path, proto = with_weight(write_model, helper.make_tensor("unused", 1, [1], [0.0]))
    values, indices = helper.make_tensor("w", 1, [2], [3.0, 4.0]), helper.make_tensor("i", 7, shape, places)
    proto.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [2, 3]))
    path.write_bytes(proto.SerializeToString())
    model = load(path)
    assert model.repairs == ("converted sparse weights to dense: 'w'",)
    (sum_,) = results(model.ir, x=np.zeros((2, 3), np.float32))
    np.testing.assert_array_equal(sum_, [[0, 3, 0], [0, 0, 4]])


def test_sparse_constants_in_subgraphs_too(write_model):
    proto = onnx.load(
        write_model("""g (bool c, float[3] x) => (float[3] y) {
        y = If (c) <then_branch = t () => (float[3] p) { w = Identity(x) p = Add(x, w) },
                    else_branch = e () => (float[3] q) { q = Neg(x) }> }""")
    )
    branch = next(a.g for a in proto.graph.node[0].attribute if a.name == "then_branch")
    sparse = helper.make_sparse_tensor(
        helper.make_tensor("v", 1, [1], [3.0]), helper.make_tensor("i", 7, [1], [1]), [3]
    )
    branch.node[0].CopyFrom(helper.make_node("Constant", [], ["w"], sparse_value=sparse))
    assert make_dense(proto) == ["w"]
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(branch.node[0].attribute[0].t), [0, 3, 0])
