import json
import subprocess
import sys

import numpy as np
import pytest

from edgeopt.backends import backend_named

# Nothing of edgeopt may be imported, wherever it is installed.
RUN = """
import runpy, sys
sys.path.insert(0, {folder!r})
sys.argv = ["runner.py", *{arguments!r}]
try:
    runpy.run_path({folder!r} + "/runner.py", run_name="__main__")
finally:
    assert not [name for name in sys.modules if name.startswith("edgeopt")]
"""


def run(folder, *arguments):
    script = RUN.format(folder=str(folder), arguments=[str(each) for each in arguments])
    return subprocess.run([sys.executable, "-I", "-c", script], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("runtime", ["onnxruntime", "openvino"])
def test_the_script_gives_what_the_bundle_gives_without_edgeopt(exported, conv_model, runtime, tmp_path):
    _, out = exported(runtime, "runner")
    data = tmp_path / "data.npz"
    # Two samples in one, as the model allows: OpenVINO's fixed shapes must not be in the way.
    samples = np.random.default_rng(3).standard_normal((2, 2, 3, 16, 16)).astype(np.float32)
    np.savez(data, x=samples)
    done = run(out, "--check", data, "-o", tmp_path / "results.npz")
    assert done.returncode == 0, done.stderr
    assert "golden samples: " in done.stdout
    session = backend_named("onnxruntime-cpu").load(conv_model, {})
    wanted = np.stack([session.run({"x": sample})["y"] for sample in samples])
    np.testing.assert_allclose(np.load(tmp_path / "results.npz")["y"], wanted, atol=1e-5)


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        ({"z": np.zeros((2, 3, 16, 16), np.float32)}, "has the arrays z; the model needs x."),
        ({"x": np.zeros((0, 3, 16, 16), np.float32)}, "at least one; it has: x 0."),
        ({"x": np.float32(1)}, "at least one; it has: x 0."),
        ({}, "has the arrays (none); the model needs x."),
        (None, "cannot be read as an .npz file"),
    ],
)
def test_data_that_does_not_fit_is_a_sentence(exported, tmp_path, arrays, says):
    _, out = exported("onnxruntime", "runner")
    data = tmp_path / "data.npz"
    (tmp_path / "data").mkdir()  # a folder of this name is not the file
    np.savez(data, **arrays) if arrays is not None else data.write_bytes(b"")
    done = run(out, data, "-o", tmp_path / "results.npz")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
    assert says in done.stderr
    assert not (tmp_path / "results.npz").exists()


def test_it_says_when_the_device_answers_otherwise(exported, tmp_path):
    _, out = exported("onnxruntime", "runner")
    settings = json.loads((out / "settings.json").read_text())
    assert settings["session"]["intra_op_num_threads"] == 1
    assert (out / "requirements.txt").read_text().startswith("onnxruntime==")
    here = tmp_path / "copy"
    here.mkdir()
    for file in out.rglob("*"):
        if file.is_file():
            (here / file.relative_to(out)).parent.mkdir(parents=True, exist_ok=True)
            (here / file.relative_to(out)).write_bytes(file.read_bytes())
    wrong = dict(np.load(here / "golden" / "reference.npz"))
    np.savez(here / "golden" / "reference.npz", **{name: -array for name, array in wrong.items()})
    done = run(here, "--check")
    assert done.returncode == 1
    assert "is needed" in done.stdout
    assert run(here).returncode == 2


def test_the_container_has_all_it_needs_and_no_rights(exported):
    _, out = exported("openvino", "docker")
    lines = (out / "Dockerfile").read_text().replace("\\\n", "").splitlines()
    steps = [line.split(maxsplit=1) for line in lines if line and not line.startswith("#")]
    assert steps[0][0] == "FROM"
    image, tag = steps[0][1].split(":")
    assert image == "python"
    assert tag.count(".") == 2
    copied = [name for step, rest in steps if step == "COPY" for name in rest.split()[:-1]]
    assert sorted(copied) == ["golden", "model", "requirements.txt", "runner.py", "settings.json"]
    sent = {line[1:] for line in (out / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert sent == set(copied)
    assert all((out / name).exists() for name in copied)
    assert [rest for step, rest in steps if step == "USER"] == ["10001"]
    assert "openvino==" in (out / "requirements.txt").read_text()
