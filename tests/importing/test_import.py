"""Imports with a real child process and a small framework: what is written, and what is refused."""

import json
import signal
import subprocess
import sys
import time
import venv
from pathlib import Path

import numpy as np
import onnx
import psutil
import pytest

import edgeopt
from edgeopt.errors import DataError
from edgeopt.graph.import_proof import PREFIX


def test_import_writes_the_model_its_proof_and_its_samples(imports, planted, tmp_path):
    code, last, left = imports(planted("none"), "--dynamic", "batch", "--samples", 5)
    assert (code, last["event"], left) == (0, "result", {"out.onnx", "out.npz"})
    proof = last["data"]["proof"]
    assert proof["equal"]
    assert proof["snr_db"] > 100
    assert [one["batch"] for one in proof["sizes"][:2]] == [2, 3]
    assert {7, 8, 9, 63, 64, 65} <= {one["batch"] for one in proof["sizes"]}
    about = {each.key: each.value for each in onnx.load(tmp_path / "out.onnx").metadata_props}
    assert float(about[f"{PREFIX}snr_db"]) == pytest.approx(proof["snr_db"], abs=0.1)
    assert about[f"{PREFIX}framework"] == "planted 1"
    assert json.loads(about[f"{PREFIX}sizes"]) == proof["sizes"]
    samples = np.load(tmp_path / "out.npz")["x"]
    assert samples.shape == (5, 1, 4, 4)
    with edgeopt.load(tmp_path / "out.onnx") as session:
        assert session.run({"x": samples[0]})["y"].shape == (1, 4, 4)


@pytest.mark.parametrize(("fault", "layer"), [("bias", "'first' (Linear)"), ("axes", "'second' (Linear)")])
def test_wrong_export_is_refused_with_its_first_differing_layer(imports, planted, fault, layer):
    code, last, left = imports(planted(fault))
    assert (code, last["code"], left) == (6, "verification-failed", set())
    assert "output 'y'" in last["message"]
    assert f"First differing layer: {layer}" in last["message"]


def test_export_that_is_right_for_one_size_alone_is_refused_with_the_size(imports, planted):
    code, last, left = imports(planted("size"), "--dynamic", "batch")
    assert (code, left) == (6, set())
    assert "[2, 4, 4] instead of [3, 4, 4]" in last["message"]


def test_dimension_that_the_original_does_not_take_in_other_sizes_is_named(imports, planted):
    code, last, left = imports(planted("fixed"), "--dynamic", "batch")
    assert (code, left) == (3, set())
    assert "fails for batch = 2: ValueError: one picture at a time" in last["message"]


def test_sizes_that_the_original_does_not_take_are_left_out_of_the_proof(imports, planted):
    """Networks that halve pictures were refused, because they take no picture of one pixel."""
    code, last, _ = imports(planted("halved"), "--dynamic", "batch", "--shape", "x=4x4x4")
    assert code == 0
    assert [one["batch"] for one in last["data"]["proof"]["sizes"]] == [8, 16, 24, 64, 128]
    (note,) = last["data"]["notes"]
    assert "Not proved for batch = 1, 2, 3, 5, 7, 9" in note
    assert "the original fails there (ValueError: sizes must match)" in note
    assert "limits" not in note


def test_dimension_is_limited_where_the_original_fails_and_other_sizes_are_refused(imports, planted, tmp_path):
    """A run with 49 positions of a model for 48 was not refused."""
    code, last, _ = imports(planted("short"), "--dynamic", "batch,seq", "--shape", "x=2x5x4")
    assert code == 0, last
    sizes = {one["seq"] for one in last["data"]["proof"]["sizes"] if len(one) == 1 and "seq" in one}
    assert max(sizes) == 48
    about = {each.key: each.value for each in onnx.load(tmp_path / "out.onnx").metadata_props}
    assert json.loads(about[f"{PREFIX}limits"]) == {"x": {"1": {"most": 48}}}
    with edgeopt.load(tmp_path / "out.onnx") as session:
        assert session.run({"x": np.ones((1, 48, 4), np.float32)})["y"].shape == (1, 48, 4)
        for given in ({"x": np.ones((1, 49, 4), np.float32)}, np.ones((1, 49, 4), np.float32)):
            with pytest.raises(DataError, match="the size 49 in dimension 1; the model is for 1 to 48"):
                session.run(given)


def test_values_that_no_sample_has_show_another_branch(imports, planted):
    code, last, left = imports(planted("loud"), "--shape", "x=2x4x4")
    assert (code, left) == (6, set())
    assert "at 32 times the values" in last["message"]


@pytest.mark.parametrize("allowed", [False, True])
def test_random_operators_are_named_and_refused(imports, planted, allowed):
    code, last, left = imports(planted("dropout"), *(["--allow-random"] if allowed else []))
    if allowed:
        assert code == 0, last
    else:
        assert (code, left) == (3, set())
        assert "draws random numbers: 1 Dropout; the first is 'dropping'" in last["message"]


def test_random_numbers_of_numpy_are_refused(imports, planted):
    code, last, left = imports(planted("drawn"), "--dynamic", "batch")
    assert (code, left) == (3, set())
    assert "random numbers of Python or NumPy" in last["message"]


def test_refused_import_keeps_the_model_of_an_earlier_one(imports, planted, tmp_path):
    assert imports(planted("none"))[0] == 0
    before = (tmp_path / "out.onnx").read_bytes(), (tmp_path / "out.npz").read_bytes()
    assert imports(planted("bias"))[0] == 6
    assert before == ((tmp_path / "out.onnx").read_bytes(), (tmp_path / "out.npz").read_bytes())


@pytest.mark.parametrize(
    ("fault", "code", "said"),
    [
        ("crash", 3, "SIGABRT"),
        ("package", 5, "no_such_package"),
        ("random", 3, "it counts its calls"),
    ],
)
def test_original_that_cannot_be_run_is_refused(imports, planted, fault, code, said):
    got, last, left = imports(planted(fault))
    assert (got, left) == (code, set())
    assert said in last["message"]
    assert last["hint"]


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"a": np.zeros((3, 4, 4)), "b": np.zeros(3)}, "no array for the input 'x'"),
        ({"x": np.zeros(4)}, "has 1 dimensions; the input has 3"),
        ({"x": np.zeros((0, 4, 4))}, "holds no samples"),
    ],
)
def test_data_that_does_not_fit_is_refused(imports, planted, tmp_path, arrays, said):
    np.savez(tmp_path / "data.npz", **arrays)
    code, last, left = imports(planted("none"), "--data", "data.npz")
    assert (code, last["code"], left) == (3, "bad-data", set())
    assert said in last["message"]


def test_given_samples_are_those_of_the_proof(imports, planted, tmp_path):
    data = np.random.default_rng(1).standard_normal((7, 1, 4, 4)).astype(np.float32)
    np.savez(tmp_path / "data.npz", x=data)
    _, last, _ = imports(planted("none"), "--data", "data.npz")
    assert "data" in last, last
    assert last["data"]["proof"]["samples"] == 7
    assert np.array_equal(np.load(tmp_path / "out.npz")["x"], data)


def test_output_over_the_data_is_refused(imports, planted, tmp_path):
    np.savez(tmp_path / "out.npz", x=np.zeros((2, 4, 4)))
    code, last, _ = imports(planted("none"), "--data", "out.npz")
    assert code == 2
    assert "would overwrite 'out.npz'" in last["message"]


def test_python_that_is_none_is_refused(imports, planted):
    code, last, left = imports(planted("none"), "--python", "no/python")
    assert (code, left) == (2, set())
    assert "'no/python' cannot be started" in last["message"]


@pytest.mark.skipif(sys.platform == "win32", reason="a shell script")
def test_python_of_the_user_runs_the_child(imports, planted, tmp_path):
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\ntouch "{tmp_path}/ran"\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    assert imports(planted("none"), "--python", python)[2] == {"out.onnx", "out.npz", "ran"}


def test_onnx_model_gets_a_newer_opset_and_fixed_shapes(imports, write_model, tmp_path):
    source = write_model("agraph (float[n,4] x) => (float[n,4] y) { y = Relu(x) }", opset=13)
    code, last, left = imports(source, "--opset", 17, "--shape", "x=2x4")
    assert (code, left) == (0, {"out.onnx", "out.npz"})
    assert last["data"]["opset"] == 17
    assert last["data"]["inputs"][0]["shape"] == [2, 4]
    assert last["data"]["proof"]["snr_db"] == 200
    code, last, _ = imports(source, "--shape", "y=2x4")
    assert code == 2


def test_a_python_without_numpy_is_told_what_to_install(imports, tmp_path):
    bare = tmp_path / "bare"
    venv.create(bare, with_pip=False)
    source = tmp_path / "model.pkl"
    source.write_bytes(b"\x80\x04N.")
    code, last, left = imports(source, "--trust", "--python", bare / "bin/python")
    assert (code, last["code"]) == (5, "missing")
    assert "needs numpy" in last["message"]
    assert "-m pip install numpy" in last["hint"]
    assert not left & {"out.onnx", "out.npz"}


STARTED = """
import sys
from edgeopt.cli.main import run
from edgeopt.importing import sources
sources.SOURCES += (sources.Source("planted", "planted model", (".planted",), sys.argv[1]),)
sys.exit(run(["import", "model.planted", "-o", "out.onnx"]))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_ended_import_leaves_no_files_and_no_child(imports, planted, tmp_path, number):
    script = Path(__file__).with_name("planted_child.py")
    planted("hang")
    process = subprocess.Popen([sys.executable, "-c", STARTED, script], stderr=subprocess.DEVNULL, process_group=0)
    try:
        wait_for(lambda: (tmp_path / "hanging").exists() or process.poll() is not None)
        child, folder = (tmp_path / "hanging").read_text().split(" ", 1)
        assert Path(folder).exists()
        process.send_signal(number)
        assert process.wait(60) != 0
        wait_for(lambda: not running(int(child)))
    finally:
        process.kill()
        process.wait()
    assert {path.name for path in tmp_path.iterdir()} == {"model.planted", "hanging"}
    if number == signal.SIGKILL:  # what it leaves in the temporary folder, the next one removes
        assert imports(planted("none"))[0] == 0
    assert not Path(folder).exists()


def running(pid):
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def wait_for(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)
