"""`edgeopt quantize` as its users run it; the bad data and the wrong words before any long work."""

import json
import shlex
import sys

import numpy as np
import onnx
import pytest

from edgeopt.backends.intended import intended
from tests.conftest import seeded, write_onnx

pytest.importorskip("onnxruntime", reason="the source model runs first")

GOOD = np.random.default_rng(5).standard_normal((32, 3, 16, 16)).astype(np.float32)


def not_an_archive(path):
    path.write_bytes(b"PK\x03\x04 this was an archive once")


def pickled(path):
    np.savez(path, x=np.array([{"a": 1}], dtype=object))


def with_nan():
    array = GOOD.copy()
    array[7, 0, 0, 0] = np.nan
    return array


# What the user gives, what is said, and a word of what to do.
BAD_DATA = {
    "empty": ({"x": GOOD[:0]}, "contains no samples", "samples along the first axis"),
    "NaN": ({"x": with_nan()}, r"holds NaN or infinity \(first in sample 7\)", "Remove these samples"),
    "wrong name": ({"image": GOOD}, "no array for the model's input 'x'; it has: image", "inputs are: x"),
    "wrong rank": ({"x": GOOD[:, 0]}, r"has 3 dimensions \[32, 16, 16\]; the input has 4", "samples along"),
    "one sample": ({"x": GOOD[:1]}, "holds one sample", "12 or more"),
    "constant": ({"x": np.repeat(GOOD[:1], 32, 0)}, "All 32 samples of the data are equal", "12 or more"),
    "unreadable": (not_an_archive, "cannot be read as data", "npz"),
    "Python objects": (pickled, "cannot be read as data|Python objects", "npz"),
    "not there": (None, "There is no data at", "Check its path"),
}


@pytest.mark.parametrize("case", BAD_DATA)
def test_bad_data_is_one_sentence_and_exit_3(case, edgeopt_here, conv_model, tmp_path):
    given, said, hint = BAD_DATA[case]
    data = tmp_path / "data.npz"
    if callable(given):
        given(data)
    elif given is not None:
        np.savez(data, **given)
    code, output, errors = edgeopt_here("quantize", conv_model, "-o", "out.onnx", "--data", data)
    last = [line for line in errors.splitlines() if line.startswith("edgeopt: ")]
    assert (code, output, len(last)) == (3, "", 1)
    assert_matches(last[0], said)
    assert hint in errors
    assert not (tmp_path / "out.onnx").exists()
    assert "Traceback" not in errors


def assert_matches(text, pattern):
    import re

    assert re.search(pattern, text), text


WRONG_WORDS = (
    ((), "The quantized model has no output path", "--sensitivity"),
    (("-o", "o.onnx", "--method", "int9"), "no method 'int9'", "int8"),
    (("-o", "o.onnx", "--floor", "aggressive"), "with a task metric", "top1-labels"),
    (("-o", "o.onnx", "--no-floor"), "A plan needs a goal", "--method int8"),
    (("-o", "o.onnx", "--method", "int8", "--no-floor", "--floor", "20dB"), "--no-floor and --floor exclude", ""),
    (("-o", "o.onnx", "--floor", "loud"), "not an accuracy floor", "transparent"),
    (("-o", "o.onnx", "--metric", "top2", "--floor", "1"), "no metric 'top2'", "top"),
    (("-o", "o.onnx", "--metric", "no.py:f", "--floor", "1"), "The file 'no.py'", "outputs, reference, labels"),
    (("-o", "o.onnx", "--calibration", "guess"), "no method of calibration", "minmax"),
    (("-o", "o.onnx", "--backend", "onnx"), "no backend", "onnxruntime-cpu"),
    (("-o", "o.onnx", "--backend", "onnxruntime-cpu", "--option", "thread=1"), "no option 'thread'", "threads"),
    (("-o", "o.onnx", "--check-targets", "cpu-avx2,abacus"), "no target 'abacus'", ""),
    (("-o", "no/folder/o.onnx"), "does not exist", "Create it first"),
    (("-o", "."), "", ""),
    (("-o", "o.onnx", "--shape", "x"), "not a shape", "image=1x3x224x224"),
    (("-o", "o.onnx", "--time-limit", "0"), "from 5 to 86400", "--time-limit"),
)


@pytest.mark.parametrize(("words", "said", "hint"), WRONG_WORDS)
def test_wrong_words_are_wrong_usage(words, said, hint, edgeopt_here, conv_model, conv_data):
    code, _, errors = edgeopt_here("quantize", conv_model, "--data", conv_data, *words)
    assert code == 2, errors
    assert said in errors
    assert hint in errors


@pytest.mark.parametrize(
    ("extra", "metric", "said"),
    [
        ({}, "top1-labels", "no array 'label' or 'labels'; it has only the model's inputs"),
        ({"label": np.zeros(31, int)}, "top1-labels", "holds 31 labels for 32 samples"),
        ({"label": np.full(32, 10)}, "top1-labels", "go up to 10"),
        ({"label": np.full(32, 0.5)}, "top1-labels", "not all whole numbers"),
        ({}, "bad.py:f", "failed in line 2 of bad.py: KeyError: 'nothing'"),
    ],
)
def test_a_metric_that_cannot_be_is_exit_3(extra, metric, said, edgeopt_here, conv_model, tmp_path):
    (tmp_path / "bad.py").write_text("def f(outputs, reference, labels):\n    return outputs['nothing']\n")
    np.savez(tmp_path / "d.npz", x=GOOD, **extra)
    words = ("--metric", metric, "--max-drop", "1%", "--data", "d.npz")
    code, _, errors = edgeopt_here("quantize", conv_model, "-o", "out.onnx", *words)
    assert code == 3, errors
    assert said in errors


def test_the_source_is_never_overwritten(edgeopt_here, conv_model, conv_data):
    before = conv_model.read_bytes()
    code, _, errors = edgeopt_here("quantize", conv_model, "-o", conv_model, "--data", conv_data)
    assert code == 2
    assert "would be replaced" in errors
    assert conv_model.read_bytes() == before


def test_help_names_every_method_and_metric(edgeopt_here):
    from edgeopt.data.judging.metrics import METRICS
    from edgeopt.quant.measured.records import METHODS

    code, text, _ = edgeopt_here("quantize", "--help")
    assert code == 0
    words = " ".join(text.split())
    layered = [metric.name for metric in METRICS if metric.name != "kl"]  # which is of decoders
    for name in (*METHODS, *layered):
        assert name in words


def test_a_form_for_all_layers_is_written_and_told_in_json(edgeopt_here, conv_model, conv_data, tmp_path):
    words = (
        "--method",
        "int8",
        "--backend",
        "onnxruntime-cpu",
        "--time-limit",
        "5",
        "--report",
        "r.json",
        "--json",
    )
    code, output, errors = edgeopt_here("quantize", conv_model, "-o", "out.onnx", "--data", conv_data, *words)
    assert code == 0, errors
    last = json.loads(output.splitlines()[-1])
    assert (last["event"], last["kind"]) == ("result", "quantize")
    found = last["data"]
    assert found["outcome"] == "written"
    assert found["proof"]["set_aside"]
    assert found["proof"]["snr_db"] > 15
    assert found["files"] == [{"path": "out.onnx", "size_bytes": (tmp_path / "out.onnx").stat().st_size}]
    assert json.loads((tmp_path / "r.json").read_bytes())["summary"] == found["summary"]
    operators = [node.op_type for node in onnx.load(tmp_path / "out.onnx").graph.node]
    assert "QuantizeLinear" in operators
    assert intended(tmp_path / "out.onnx").backend == "onnxruntime-cpu"


def test_the_result_ends_with_the_lines_that_use_and_measure_it(edgeopt_here, conv_model, conv_data):
    words = ("--method", "int8", "--backend", "openvino-cpu", "--time-limit", "5", "--no-floor")
    code, output, errors = edgeopt_here("quantize", conv_model, "-o", "my out.onnx", "--data", conv_data, *words)
    assert code == 0, errors
    *_, used, _, measured = (line.strip() for line in output.splitlines() if line.strip())
    assert used == 'session = edgeopt.load("my out.onnx")'
    _, command, made, against, source, data, given = shlex.split(measured)
    assert (command, made, against, data, given) == ("bench", "my out.onnx", "--against", "--data", str(conv_data))
    assert source.startswith(f"{conv_model}@")
    again = ("bench", made, against, source, data, given, "--rounds", "6")
    code, output, errors = edgeopt_here(*again)
    assert code == 0, errors
    assert "my out.onnx · openvino-cpu" in output
    code, output, errors = edgeopt_here("bench", f"{made}@onnxruntime-cpu", "--rounds", "6")
    assert code == 0, errors
    assert "was made for openvino-cpu" in errors
    assert "this side runs on onnxruntime-cpu. There it reaches " in errors


def test_a_form_below_the_default_goal_is_exit_4_with_what_was_reached(edgeopt_here, conv_model, tmp_path):
    x = GOOD.copy()
    x[:16] *= 1000
    np.savez(tmp_path / "d.npz", x=x)
    words = ("--data", "d.npz", "--method", "int8", "--backend", "onnxruntime-cpu")
    code, output, errors = edgeopt_here("quantize", conv_model, "-o", "out.edgeopt", *words)
    assert code == 4, errors
    said = " ".join(output.split())
    assert_matches(said, r"^Keep float: int8 reaches .* and the goal is at least 30 dB \(transparent\)\. Try ")
    assert "--no-floor writes it anyway" in said
    assert not (tmp_path / "out.edgeopt").exists()


def test_what_gains_nothing_stays_float_with_exit_4(edgeopt_here, relu_model, tmp_path):
    np.savez(tmp_path / "d.npz", x=np.random.default_rng(0).standard_normal((32, 4)).astype(np.float32))
    code, output, _ = edgeopt_here("quantize", relu_model, "-o", "out.onnx", "--data", "d.npz")
    assert code == 4
    assert output.startswith("Keep float: ")
    assert not (tmp_path / "out.onnx").exists()


def test_a_backend_that_is_not_here_is_exit_5(edgeopt_here, conv_model, conv_data):
    """No machine has both of them."""
    absent = "onnxruntime-coreml" if sys.platform != "darwin" else "onnxruntime-directml"
    code, _, errors = edgeopt_here(
        "quantize", conv_model, "--sensitivity", "--data", conv_data, "--backend", absent
    )
    assert code == 5
    assert f"The backend {absent} is not available" in errors


def test_a_model_that_draws_random_numbers_is_refused(edgeopt_here, tmp_path):
    nodes = [
        ("RandomNormalLike", ["x"], ["n"], {}),
        ("Add", ["x", "n"], ["s"], {}),
        ("MatMul", ["s", "w"], ["y"], {}),
    ]
    model = write_onnx(tmp_path / "m.onnx", nodes, {"w": seeded(4, 4)}, {"x": [1, 4]}, {"y": [1, 4]})
    np.savez(tmp_path / "d.npz", x=np.random.default_rng(0).standard_normal((32, 1, 4)).astype(np.float32))
    code, _, errors = edgeopt_here("quantize", model, "-o", "out.onnx", "--data", "d.npz")
    assert code == 3, errors
    assert "draws random numbers: 1 RandomNormalLike" in errors
    assert not (tmp_path / "out.onnx").exists()


def test_all_calibrations_are_compared(edgeopt_here, conv_model, conv_data):
    code, output, errors = edgeopt_here("compare-calibrations", conv_model, "--data", conv_data)
    assert code == 0, errors
    assert output.startswith("The most accurate calibration of int8: ")
    for name in ("minmax", "moving-average", "percentile", "entropy", "mse", "distribution"):
        assert f"\n{name} " in output


def test_to_compare_calibrations_there_must_be_something_to_calibrate(edgeopt_here, relu_model, tmp_path):
    np.savez(tmp_path / "d.npz", x=np.random.default_rng(0).standard_normal((32, 4)).astype(np.float32))
    code, _, errors = edgeopt_here("compare-calibrations", relu_model, "--data", "d.npz")
    assert code == 3
    assert "nothing to calibrate" in errors


def test_a_model_is_seen_from_the_sides_of_other_targets(edgeopt_here, conv_model, conv_data, tmp_path):
    pytest.importorskip("edgeopt.quant.provider_rules")
    words = ("--data", conv_data, "--check-targets", "cpu-avx2,arm-dotprod")
    code, output, errors = edgeopt_here("quantize", conv_model, *words)
    assert code == 0, errors
    assert "On other targets" in output
    for target in ("cpu-avx2", "arm-dotprod"):
        assert f"\n{target} " in output
    assert list(tmp_path.glob("*.onnx")) == []
