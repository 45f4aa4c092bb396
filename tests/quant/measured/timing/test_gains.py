import numpy as np
import pytest

from edgeopt.errors import EdgeoptError
from edgeopt.quant.measured.timing.gains import time_forms
from tests.families.stack import ROWS, WIDTH

FEEDS = {"x": np.random.default_rng(3).standard_normal((ROWS, WIDTH)).astype(np.float32)}


@pytest.fixture
def quantized_stack(study):
    study.calibrated()
    path = study.folder / "all.onnx"
    study.save_written({layer.name: "int8" for layer in study.layers}, "onnxruntime-cpu", path)
    return path


def test_kernels_are_timed_by_layer(study, quantized_stack):
    timed = time_forms(study.path, {"int8": quantized_stack}, study.layers, "onnxruntime-cpu", {}, FEEDS)

    assert {gain.layer for gain in timed.gains} == {"MatMul_0", "MatMul_2", "MatMul_4"}
    assert all(gain.basis == "measured" and gain.float_ms > 0 and gain.form_ms > 0 for gain in timed.gains)
    # Nothing of this model is outside its layers.
    assert sum(gain.float_ms for gain in timed.gains) == pytest.approx(timed.float_ms, rel=0.5)
    assert {(each.first, each.second) for each in timed.borders} == {
        ("MatMul_0", "MatMul_2"),
        ("MatMul_2", "MatMul_4"),
    }


def test_only_what_the_form_changed_has_a_gain(study):
    study.calibrated()
    path = study.folder / "one.onnx"
    study.save_written({"MatMul_2": "int8"}, "onnxruntime-cpu", path)

    found = time_forms(study.path, {"int8": path}, study.layers, "onnxruntime-cpu", {}, FEEDS).gains

    assert [gain.layer for gain in found] == ["MatMul_2"]
    assert found[0].boundary_ms > 0


def test_a_form_that_does_not_run_is_left_out_and_said(study, quantized_stack, tmp_path):
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(study.path.read_bytes())
    import onnx

    model = onnx.load(broken)
    model.graph.node[0].op_type = "NoSuchOperator"
    model.graph.node[0].domain = "nowhere"
    model.opset_import.add(domain="nowhere", version=1)
    onnx.save(model, broken)

    files = {"int8": quantized_stack, "int8-dynamic": broken}
    timed = time_forms(study.path, files, study.layers, "onnxruntime-cpu", {}, FEEDS)

    assert {gain.form for gain in timed.gains} == {"int8"}
    assert "int8-dynamic" in timed.warnings[0]


def test_without_times_of_kernels_the_roofline_estimates(study, quantized_stack):
    timed = time_forms(study.path, {"int8": quantized_stack}, study.layers, "onnxruntime-cuda", {}, FEEDS)

    assert {gain.basis for gain in timed.gains} == {"estimated"}
    assert all(gain.saves_ms > 0 for gain in timed.gains)
    assert "estimated" in timed.warnings[0]


def test_the_float_model_must_be_there(study):
    with pytest.raises(EdgeoptError):
        time_forms(study.folder / "none.onnx", {}, study.layers, "onnxruntime-cpu", {}, FEEDS)
