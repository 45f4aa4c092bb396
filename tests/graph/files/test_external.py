import os

import numpy as np
import onnx
import pytest

from edgeopt.errors import ModelError
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


BAD = (
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


@pytest.mark.parametrize(("spoil", "said"), BAD, ids=[f"{k}-{said}" for k, (_, said) in enumerate(BAD)])
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
