"""Bad input through the command line: one sentence with a next step, the right exit code, never a traceback."""

import gzip
import json
import os
import pickle
import shutil
import subprocess
import sys
import zipfile

import numpy as np
import onnx
import onnx.parser
import pytest

from edgeopt.bundle.manifest import write_manifest
from edgeopt.cli.main import run

GRAPH = "g (float[2] x) => (float[2] y) { a = Relu(x) y = Abs(a) }"
ADD = "g (float[2] x) => (float[2] y) { y = Add(x, x) }"


def parsed(graph=GRAPH, opset=17):
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> {graph}')


def with_external(folder, location):
    proto = parsed("g (float[600] x) => (float[600] y) { y = Add(x, w) }")
    weight = proto.graph.initializer.add(name="w", data_type=1, dims=[600], data_location=1)
    weight.external_data.add(key="location", value=location)
    return proto.SerializeToString()


def outside(folder):
    (folder.parent / "secret.bin").write_bytes(b"\0" * 2400)
    return with_external(folder, "../secret.bin")


def external_short(folder):
    (folder / "weights.bin").write_bytes(b"\0" * 100)
    return with_external(folder, "weights.bin")


def external_linked(folder):
    (folder / "real.bin").write_bytes(b"\0" * 2400)
    (folder / "weights.bin").symlink_to("real.bin")
    return with_external(folder, "weights.bin")


def damaged_weight(folder):
    proto = parsed(ADD)
    proto.graph.initializer.add(name="w", data_type=1, dims=[2], raw_data=b"1234")
    return proto.SerializeToString()


def twice(folder):
    return parsed("g (float[2] x) => (float[2] y) { y = Relu(x) y = Abs(x) }").SerializeToString()


def zipped(folder):
    with zipfile.ZipFile(folder / "made.zip", "w") as archive:
        archive.writestr("model.onnx", b"")
    return (folder / "made.zip").read_bytes()


def outputless():
    proto = parsed()
    del proto.graph.output[:]
    return proto


def cyclic(folder):
    proto = parsed()
    proto.graph.node[0].input[0] = "y"
    return proto.SerializeToString()


def torch_zip(folder):
    with zipfile.ZipFile(folder / "made.zip", "w") as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02}.")
    return (folder / "made.zip").read_bytes()


def safetensors(folder):
    head = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    return len(head).to_bytes(8, "little") + head + b"\0" * 4


# What lies in the place of the model, and what the sentence must say of it.
MODELS = {
    "missing": (None, "There is no file"),
    "a folder": ("folder", "is a folder, not a model"),
    "text": (b"not found\n", "a text file"),
    "an error page": (b"<!DOCTYPE html><html>", "an HTML page"),
    "an OpenVINO model": (b'<?xml version="1.0"?><net name="m">', "an OpenVINO model"),
    "ONNX as text": (b"ir_version: 8\ngraph {\n}\n", "an ONNX model as text"),
    "ONNX as JSON": (b'{"irVersion": "8", "graph": {}}', "an ONNX model as JSON"),
    "a TensorRT engine": (b"ftrt" + b"\0" * 40, "a TensorRT engine"),
    "a zip archive": (zipped, "a zip archive"),
    "a tar archive": (b"m.onnx".ljust(257, b"\0") + b"ustar\0" + b"00" * 100, "a tar archive"),
    "a Git LFS pointer": (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS"),
    "truncated": (lambda _: parsed().SerializeToString()[:-7], "cut short"),
    "a PyTorch checkpoint": (torch_zip, "a PyTorch checkpoint"),
    "a pickle": (lambda _: pickle.dumps({"w": [1.0] * 9}), "Python pickle"),
    "TensorFlow Lite": (b"\x1c\0\0\0TFL3" + b"\0" * 40, "TensorFlow Lite"),
    "Keras": (b"\x89HDF\r\n\x1a\n" + b"\0" * 40, "Keras"),
    "GGUF": (b"GGUF\x03\0\0\0" + b"\0" * 40, "GGUF"),
    "gzip": (lambda _: gzip.compress(parsed().SerializeToString()), "gzip"),
    "safetensors": (safetensors, "safetensors"),
    "empty": (b"", "0 bytes"),
    "garbage": (bytes(np.random.default_rng(0).integers(0, 256, 4000, np.uint8)), "not an ONNX model"),
    "external data missing": (lambda folder: with_external(folder, "weights.bin"), "weights.bin"),
    "external data outside": (outside, "secret.bin"),
    "external data cut short": (external_short, "is too short"),
    "external data behind a link": (external_linked, "is a symbolic link"),
    "a weight cut short": (damaged_weight, "has 4 bytes; its type and shape need 8"),
    "an opset before 7": (lambda _: parsed(ADD, opset=6).SerializeToString(), "uses opset 6, where Add"),
    "a name computed twice": (twice, "computes 'y' twice"),
    "an opset of the future": (lambda _: parsed(opset=999).SerializeToString(), "opset 999"),
    "a cyclic graph": (cyclic, "has a cycle"),
    "no graph": (lambda _: onnx.ModelProto(ir_version=8).SerializeToString(), "no graph"),
    "no output": (lambda _: outputless().SerializeToString(), "has no outputs"),
    "no input": (
        lambda _: parsed("g () => (float[1] y) { y = Constant<value_floats = [1.0]>() }").SerializeToString(),
        "no input",
    ),
}  # fmt: skip


def arrays(**named):
    return lambda path: np.savez(path, **named)


def single_array(path):
    with path.open("wb") as file:
        np.save(file, right())


def right(count=4):
    return np.ones((count, 3, 16, 16), np.float32)


# What lies in the place of the data (for the input x [batch, 3, 16, 16]), and what must be said of it.
DATA = {
    "missing": (lambda _: None, "There is no data at"),
    "wrong name": (arrays(image=right()), "'x'"),
    "wrong rank": (arrays(x=np.ones((4, 3), np.float32)), "2 dimensions"),
    "wrong size": (arrays(x=np.ones((4, 3, 16, 17), np.float32)), "16, 17"),
    "wrong type": (arrays(x=np.full((4, 3, 16, 16), "a")), "type"),
    "not a number": (arrays(x=right() * np.nan), "NaN"),
    "infinite": (arrays(x=right() * np.inf), "infinity"),
    "no samples": (arrays(x=right(0)), "no sample"),
    "objects": (arrays(x=np.array([{"a": 1}] * 4, dtype=object)), "cannot be read"),
    "not an npz": (lambda path: path.write_bytes(b"x,y\n1,2\n"), "cannot be read"),
    "empty": (lambda path: path.write_bytes(b""), "cannot be read"),
    "a damaged npz": (lambda path: path.write_bytes(b"PK\x03\x04 and no more"), "cannot be read"),
    "a single array": (single_array, "single array"),
    "an empty folder": (lambda path: path.mkdir(), "no .npy file"),
}  # fmt: skip


def damaged(name):
    def damage(bundle):
        content = bytearray((bundle / name).read_bytes())
        content[len(content) // 2] ^= 1
        (bundle / name).write_bytes(content)

    return damage


def without(name):
    return lambda bundle: (bundle / name).unlink()


def not_a_model(bundle):
    (bundle / "model/conv.onnx").write_bytes(b"garbage")
    write_manifest(bundle)


# What was done to a bundle, and what must be said of it.
BUNDLES = {
    "missing": (shutil.rmtree, "no bundle at"),
    "a changed model": (damaged("model/conv.onnx"), "model/conv.onnx was changed"),
    "a changed deployment": (damaged("deployment.toml"), "deployment.toml was changed"),
    "a changed manifest": (damaged("manifest.json"), "manifest"),
    "no manifest": (without("manifest.json"), "no manifest.json"),
    "no deployment": (without("deployment.toml"), "deployment.toml is missing"),
    "a file too many": (lambda bundle: (bundle / "x").write_text(""), "holds x"),
    "a model that is none": (not_a_model, "conv.onnx"),
}


@pytest.fixture
def refused(capsys):
    """Runs a command for programs and, where that does not take long, for people: refused in the same words."""

    def check(arguments, code, says, for_people=True):
        arguments = [str(argument) for argument in arguments]
        assert run([*arguments, "--json"]) == code
        out = capsys.readouterr().out.splitlines()
        event = json.loads(out[-1])
        assert event["event"] == "error"
        assert event["code"]
        assert event["hint"]
        assert says in event["message"]
        assert event["message"].count("\n") == 0
        assert len(event["message"]) < 500
        if not for_people:
            return
        assert run(arguments) == code
        told = capsys.readouterr()
        assert not told.out
        assert f"edgeopt: {event['message']}" in told.err
        assert "Traceback" not in told.err

    return check


@pytest.mark.parametrize("kind", MODELS)
def test_models(kind, tmp_path, refused):
    folder = tmp_path / "models"
    folder.mkdir()
    content, says = MODELS[kind]
    content = content(folder) if callable(content) else content
    if content == "folder":
        (folder / "m.onnx").mkdir()
    elif content is not None:
        (folder / "m.onnx").write_bytes(content)
    refused(["optimize", folder / "m.onnx", "-o", tmp_path / "out.edgeopt"], 3, says, for_people=kind == "text")
    assert not (tmp_path / "out.edgeopt").exists()


@pytest.mark.parametrize("command", ["analyze", "simplify"])
@pytest.mark.parametrize(
    "kind", ["missing", "a folder", "empty", "truncated", "garbage", "a cyclic graph", "no output", "text"]
)
def test_models_given_to_what_looks_at_graphs(command, kind, tmp_path, refused):
    folder = tmp_path / "models"
    folder.mkdir()
    content, says = MODELS[kind]
    content = content(folder) if callable(content) else content
    if content == "folder":
        (folder / "m.onnx").mkdir()
    elif content is not None:
        (folder / "m.onnx").write_bytes(content)
    out = ["-o", tmp_path / "out.onnx"] if command == "simplify" else []
    refused([command, folder / "m.onnx", *out], 3, says, for_people=kind == "text")
    assert not (tmp_path / "out.onnx").exists()


def test_a_model_without_outputs_is_not_measured(tmp_path, refused):
    onnx.save(outputless(), tmp_path / "m.onnx")
    refused(["bench", tmp_path / "m.onnx"], 3, "has no outputs", for_people=False)


@pytest.mark.parametrize("kind", DATA)
def test_data(kind, tmp_path, conv_model, refused):
    write, says = DATA[kind]
    write(tmp_path / "d.npz")
    refused(["bench", conv_model, "--data", tmp_path / "d.npz"], 3, says, for_people=kind == "wrong name")


@pytest.mark.parametrize("kind", ["wrong name", "a damaged npz"])
def test_data_of_a_search(kind, tmp_path, conv_model, refused):
    write, says = DATA[kind]
    write(tmp_path / "d.npz")
    out = tmp_path / "out.edgeopt"
    refused(["optimize", conv_model, "--data", tmp_path / "d.npz", "-o", out], 3, says, for_people=False)
    assert not out.exists()


def test_different_counts(tmp_path, models, refused):
    onnx.save(parsed("g (float[n] a, float[n] b) => (float[n] y) { y = Add(a, b) }"), tmp_path / "m.onnx")
    np.savez(tmp_path / "d.npz", a=np.ones((3, 2), np.float32), b=np.ones((4, 2), np.float32))
    refused(["bench", tmp_path / "m.onnx", "--data", tmp_path / "d.npz"], 3, "a: 3, b: 4")


@pytest.mark.parametrize("command", ["verify", "bench"])
@pytest.mark.parametrize("kind", BUNDLES)
def test_bundles(kind, command, bundle, refused):
    damage, says = BUNDLES[kind]
    damage(bundle)
    if kind == "missing" and command == "bench":
        says = "no model or bundle at"
    refused([command, bundle], 3, says)


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (["-o", "{}/mine"], 2, "is not a bundle"),
        (["-o", "{}/nowhere/out"], 2, "does not exist"),
        (["-o", "{}/out", "--target", "cpu-avx3"], 2, "no target 'cpu-avx3'"),
        (["-o", "{}/out", "--floor", "loud"], 2, "not an accuracy floor"),
        (["-o", "{}/out", "--profile", "{}/nowhere.toml"], 3, "nowhere.toml"),
        (["-o", "{}/out", "--profile", "{}/bad.toml"], 3, "no key 'colour'"),
        (["-o", "{}/out", "--time-limit", "0.5"], 2, "time-limit"),
        (["-o", "{}/out", "--colour", "red"], 2, "--colour"),
        (["-o", "{}/out", "--time-limit", "inf"], 2, "--time-limit must be"),
        ([], 2, "--out"),
    ],
)
def test_options(options, code, says, tmp_path, relu_model, refused):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/notes.txt").write_text("mine")
    (tmp_path / "bad.toml").write_text('name = "x"\ntitle = "X"\nextends = "generic-cpu"\ncolour = "red"\n')
    refused(["optimize", relu_model, *(o.format(tmp_path) for o in options)], code, says)
    assert (tmp_path / "mine/notes.txt").read_text() == "mine"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["optimize", "nowhere.onnx", "-o", "out"], 3),
        (["verify", "nowhere.edgeopt"], 3),
        (["bench", "nowhere.onnx"], 3),
        (["optimize", "nowhere.onnx"], 2),
        (["toast"], 2),
    ],
)
def test_the_same_through_a_real_process(arguments, code, tmp_path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run(
        [sys.executable, "-m", "edgeopt", *arguments],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == code
    assert not done.stdout
    assert [line for line in done.stderr.splitlines() if line.startswith("edgeopt: ")]
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())
