import io
import json
import tarfile
import zipfile

import numpy as np
import onnx
import onnx.parser
import onnx.printer
import pytest
from google.protobuf import json_format, text_format
from hypothesis import given
from hypothesis import strategies as st

from edgeopt.errors import ModelError
from edgeopt.graph.files.sniff import is_cut_short, what_is
from edgeopt.graph.model import load

PROTO = onnx.parser.parse_model(
    '<ir_version: 8, opset_import: ["" : 17], producer_name: "test"> '
    "g (float[2] x) => (float[2] y) { a = Relu(x)  b = Neg(a)  y = Exp(b) }"
)
MODEL = PROTO.SerializeToString()


@pytest.mark.parametrize("ir_version", range(1, 14))
def test_a_model_is_nothing_else(ir_version):
    model = onnx.ModelProto(ir_version=ir_version, producer_name="an exporter", graph=PROTO.graph)
    assert what_is(model.SerializeToString()) is None
    assert what_is(onnx.ModelProto(graph=PROTO.graph).SerializeToString()) is None
    assert not is_cut_short(MODEL)


def archive(*names):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name in names:
            file.writestr(name, b"content")
    return buffer.getvalue()


def tar():
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as file:
        file.addfile(tarfile.TarInfo("model.onnx"))
    return buffer.getvalue()


def npz():
    buffer = io.BytesIO()
    np.savez(buffer, x=np.ones(3))
    return buffer.getvalue()


def length(data):
    return bytes([len(data) & 0x7F | 0x80, len(data) >> 7]) if len(data) > 0x7F else bytes([len(data)])


def field(number, data):
    return bytes([number << 3 | 2]) + length(data) + data


FILES = {
    "a tar archive": tar(),
    "an xz archive": b"\xfd7zXZ\0\0\4",
    "a bzip2 archive": b"BZh91AY",
    "a Zstandard archive": b"\x28\xb5\x2f\xfd\x24",
    "a TensorRT engine": b"ftrt\0\0\0\0",
    "a NumPy array": b"\x93NUMPY\1\0",
    "a NumPy archive": npz(),
    "a PyTorch exported program": archive("model/archive_format"),
    "a Keras model": archive("metadata.json", "model.weights.h5"),
    "an edgeopt bundle": archive("deployment.toml"),
    "an ExecuTorch program": b"\x30\0\0\0ET12",
    "an HTML page": "<!DOCTYPE html>\n<html><body>Zugriff nicht möglich</body>".encode(),
    "an OpenVINO model (XML)": b'\xef\xbb\xbf<?xml version="1.0"?>\n<net name="m">',
    "a text file": "höher als 3".encode(),
    "a TensorFlow graph": field(1, field(1, b"input/x") + field(2, b"Placeholder")) * 3,
    "a Git LFS pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n",
}


@pytest.mark.parametrize("what", FILES)
def test_what_is_given_by_mistake(what):
    assert what_is(FILES[what]).what.startswith(what)


def test_a_saved_model_of_tensorflow():
    assert what_is(b"\x08\x01\x12" + length(b"x" * 5000) + b"x" * 5000).what == "a TensorFlow graph"


FORMATS = {
    "onnxtxt": onnx.printer.to_text(PROTO),
    "textproto": text_format.MessageToString(PROTO),
    "json": json_format.MessageToJson(PROTO),
}


@pytest.mark.filterwarnings("ignore:The onnxtxt format is experimental")
@pytest.mark.parametrize("format_", FORMATS)
def test_the_hint_for_onnx_as_text_converts_it(format_, tmp_path):
    path = tmp_path / "model.txt"
    path.write_text(FORMATS[format_])
    sighting = what_is(path.read_bytes())
    assert sighting.what.startswith("an ONNX model as ")
    assert f"format='{format_}'" in sighting.hint
    assert onnx.load(path, format=format_).graph.node == PROTO.graph.node


def test_other_json_is_a_text_file():
    assert what_is(json.dumps({"a": 1}).encode()).what == "a text file"


@given(st.binary(min_size=1, max_size=64))
def test_any_bytes_get_an_answer(data):
    sighting = what_is(data)
    assert sighting is None or (sighting.what and (sighting.hint or sighting.suffixes))
    assert is_cut_short(data) in {True, False}


@given(st.integers(min_value=len(MODEL) // 2, max_value=len(MODEL) - 25))
def test_a_model_without_its_end_is_told_as_that(length):
    assert is_cut_short(MODEL[:length])


RELU = "g (float[2] x) => (float[2] y) { y = Relu(x) }"
NEWEST = onnx.defs.onnx_opset_version()


@pytest.mark.parametrize("opset", [6, 7, 13, 21, NEWEST])
def test_old_and_new_models_are_taken(write_model, opset):
    assert load(write_model(RELU, opset=opset, ir_version=onnx.IR_VERSION)).ir.opset_imports[""] == opset


def test_an_opset_before_7_whose_operators_have_changed_since(write_model):
    path = write_model("g (float[2] x) => (float[2] y) { y = Add(x, x) }", opset=6)
    with pytest.raises(ModelError, match="uses opset 6, where Add has another meaning than in 7"):
        load(path)


def test_an_opset_of_the_future_says_which_is_the_newest_known(write_model):
    with pytest.raises(ModelError, match=f"uses opset 999; the newest supported is {NEWEST}"):
        load(write_model(RELU, opset=999))


def changed(path, change):
    proto = onnx.load(path)
    change(proto)
    path.write_bytes(proto.SerializeToString())
    return path


def test_a_domain_of_the_future(write_model):
    path = changed(write_model(RELU), lambda p: p.opset_import.add(domain="ai.onnx.ml", version=99))
    with pytest.raises(ModelError, match=r"uses opset 99 of ai\.onnx\.ml"):
        load(path)


def test_operators_of_other_domains_need_not_be_known(write_model):
    path = changed(write_model(RELU), lambda p: p.opset_import.add(domain="com.microsoft", version=1))
    changed(path, lambda p: p.graph.node[0].MergeFrom(onnx.NodeProto(domain="com.microsoft", op_type="QuickGelu")))
    assert load(path).repairs == ()


def test_a_domain_that_nobody_imports_is_imported(write_model):
    path = changed(write_model(RELU), lambda p: setattr(p.graph.node[0], "domain", "own"))
    model = load(path)
    assert model.repairs == ("added missing imports of 'own'",)
    assert model.ir.opset_imports["own"] == 1
