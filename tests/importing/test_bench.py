"""Models of frameworks as sides of `edgeopt bench`: a small one of these tests, scikit-learn and PyTorch."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest

import edgeopt
from edgeopt.cli.main import run
from edgeopt.errors import UsageError
from edgeopt.importing.importer import child_command, run_child, saved_runs
from edgeopt.importing.request import SourceOptions
from edgeopt.importing.sources import recognize
from tests.importing.test_frameworks import NETWORKS, forest, forest_files, sklearn, torch  # noqa: F401 - fixtures

QUICK = {"rounds": 6, "time_limit_s": 60}


@pytest.fixture
def benches(imports, capfd):
    """Runs `edgeopt bench`: its exit code and its last record."""

    def measured(*arguments):
        code = run(["bench", *map(str, arguments), "--rounds", "6", "--json"])
        return code, json.loads(capfd.readouterr().out.splitlines()[-1])

    return measured


def test_original_is_measured_beside_its_model_and_their_outputs_are_compared(imports, planted, benches):
    source = planted("none")
    assert imports(source)[0] == 0
    code, last = benches("out.onnx", "--against", source, "--data", "out.npz", "--threads", 1)
    assert code == 0, last
    report = last["data"]
    assert [side["name"] for side in report["sides"]] == ["out.onnx", "model.planted"]
    assert all(side["figures"]["runs"] > 50 for side in report["sides"])
    (original,) = report["originals"]
    assert (original["side"], original["framework"], original["threads"]) == ("model.planted", "planted 1", 1)
    (agreement,) = original["agreements"]
    assert (agreement["side"], agreement["samples"]) == ("out.onnx", 16)
    assert agreement["snr_db"] > 100


def test_original_can_be_the_first_side_or_the_only_one(imports, planted, benches):
    source = planted("none")
    assert imports(source)[0] == 0
    code, last = benches(f"{source}@threads=1", "--against", "out.onnx")
    assert code == 0, last
    assert last["data"]["comparisons"][0]["first"] == "model.planted · threads=1"
    code, last = benches(source, "--data", "out.npz")
    assert code == 0, last
    assert last["data"]["sides"][0]["figures"]["runs"] > 50


def test_original_with_other_outputs_is_told(imports, planted, benches, tmp_path):
    source = planted("none")
    assert imports(source)[0] == 0
    import onnx

    model = onnx.load("out.onnx")
    model.graph.node[-1].op_type = "Sub"
    model.graph.node[-1].input[1] = model.graph.node[-1].input[0]
    onnx.save(model, tmp_path / "other.onnx")
    code, last = benches("other.onnx", "--against", source)
    assert code == 0, last
    assert last["data"]["originals"][0]["agreements"][0]["snr_db"] < 1


@pytest.mark.parametrize(
    ("fault", "code", "said"),
    [("package", 5, "needs no_such_package"), ("crash", 3, "SIGABRT"), ("fixed", 3, "one picture at a time")],
)
def test_original_that_does_not_run_ends_the_measurement_at_once(imports, planted, benches, fault, code, said):
    assert imports(planted("none"), "--dynamic", "batch")[0] == 0
    source = planted(fault)

    np.savez("two.npz", x=np.zeros((3, 2, 4, 4), np.float32))
    got, last = benches("out.onnx", "--against", source, "--data", "two.npz")
    assert got == code, last
    assert said in last["message"]
    assert last["hint"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("out.onnx", "--python", sys.executable), "--python is for models of other frameworks"),
        (("out.onnx", "--trust"), "--trust is for models of other frameworks"),
        (("model.planted@compile", "--data", "out.npz"), "has no @compile"),
        (("model.planted", "--backend", "onnxruntime-cpu", "--data", "out.npz"), "without backends"),
        (("model.planted@graph_level=none", "--data", "out.npz"), "without backends"),
        (("model.planted", "--task", "fill-mask", "--data", "out.npz"), "has no --task"),
    ],
)
def test_wrong_use_of_a_source_is_refused(planted, benches, relu_model, arguments, said):
    planted("none")
    shutil.copy(relu_model, "out.onnx")
    np.savez("out.npz", x=np.ones((3, 1, 4), np.float32))
    code, last = benches(*arguments)
    assert (code, last["code"]) == (2, "usage"), last
    assert said in last["message"]


@pytest.mark.slow
def test_forest_is_measured_by_its_probabilities(imports, sklearn, forest):  # noqa: F811
    assert imports("forest.joblib", "--trust", "--python", sklearn)[0] == 0
    with pytest.raises(UsageError, match="is a pickle"):
        edgeopt.bench("out.onnx", against="forest.joblib", python=sklearn)
    found = edgeopt.bench("out.onnx", against="forest.joblib", python=sklearn, trust=True, data="out.npz", **QUICK)
    (original,) = found.originals
    assert original.mode == "predict_proba"
    assert original.framework.startswith("scikit-learn")
    assert original.agreements[0].snr_db > 90
    assert not any(side.failure for side in found.sides)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_module_runs_eager_and_compiled(imports, torch, tmp_path):  # noqa: F811
    assert imports("networks.py:Net", "--python", torch, "--shape", "image=1x3x8x8")[0] == 0
    against = ["networks.py:Net", "script.pt", *(["networks.py:Net@compile"] if shutil.which("g++") else [])]
    found = edgeopt.bench(
        "out.onnx", against=against, python=torch, data="out.npz", threads=1, load_timeout_s=300, **QUICK
    )
    assert not any(side.failure for side in found.sides)
    modes = ["eager", "TorchScript", "torch.compile"][: len(against)]
    assert [(each.mode, each.threads) for each in found.originals] == [(mode, 1) for mode in modes]
    same = [each.agreements[0].snr_db for each in found.originals if each.mode != "TorchScript"]
    assert min(same) > 60
    assert not list(tmp_path.glob("torchinductor*"))


THREADS = """
import torch
class Counting(torch.nn.Module):
    def forward(self, x):
        return x * 0 + torch.get_num_threads(), torch.is_inference_mode_enabled() + x * 0
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("threads", [1, 3])
def test_module_runs_in_inference_mode_with_the_threads_of_the_other_side(frameworks, tmp_path, threads):
    (tmp_path / "counting.py").write_text(THREADS)
    subprocess.run(
        [frameworks, "-c", f"import numpy; numpy.savez({str(tmp_path / 'x.npz')!r}, x=numpy.zeros((1, 2), 'f4'))"],
        check=True,
    )
    source = recognize(f"{tmp_path / 'counting.py'}:Counting")
    job = {"threads": threads, "data": str(tmp_path / "x.npz"), "shapes": {"x": [2]}}
    command = child_command(source, SourceOptions(frameworks), tmp_path, work="answer", job=job)
    outputs = run_child(command, source, tmp_path, lambda _: None)["outputs"]
    (answer,) = saved_runs(tmp_path / "outputs.npz", tuple(outputs))
    assert [float(array[0]) for array in answer.values()] == [threads, 1.0]
