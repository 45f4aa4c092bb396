import dataclasses

import msgspec
import pytest

from edgeopt.data.samples import Samples
from edgeopt.errors import UsageError
from edgeopt.graph.model import load
from edgeopt.quant.measured.study import KEPT, begin, forms_for
from edgeopt.quant.records import QuantSettings


def test_ranges_and_sensitivities_are_found_once_and_kept(study):
    study.calibrated()
    forms = {layer.name: ("int8",) for layer in study.layers}
    found = study.sensitivities("onnxruntime-cpu", forms, 30.0)

    assert {"x", "b", "d"} <= set(study.known.ranges)
    assert [each.layer for each in found] == ["MatMul_0", "MatMul_2", "MatMul_4"]
    assert all(20 < each.snr_db < 70 for each in found)

    phases = dict(study.phases_s)
    study.calibrated()
    assert study.sensitivities("onnxruntime-cpu", forms) == found
    assert study.phases_s == phases, "it was measured again"


def test_large_channels_are_evened_out(study):
    rows = study.given.samples.arrays["x"].copy()
    rows[..., 3] *= 100
    study.given = dataclasses.replace(study.given, samples=Samples({"x": rows}, study.given.samples.ranks))
    study.calibrated()
    assert study.smoothing["MatMul_0"].tensor in study.context("openvino-cpu").ranges


def test_what_was_not_asked_before_is_added(study):
    study.calibrated()
    study.sensitivities("onnxruntime-cpu", {"MatMul_0": ("int8",)})
    found = study.sensitivities("onnxruntime-cpu", {layer.name: ("int8",) for layer in study.layers})

    assert len(found) == 3
    (kept,) = study.known.sensitivities.values()
    assert len(kept) == 3


def test_layers_stay_float_by_name_and_by_pattern(study, tmp_path):
    def kept(*patterns):
        made = begin(study.model, study.given, {}, QuantSettings(), tmp_path / "other", patterns)
        return [layer.name for layer in made.layers if layer.reason == KEPT]

    assert kept("MatMul_2") == ["MatMul_2"]
    assert kept("MatMul_*") == ["MatMul_0", "MatMul_2", "MatMul_4"]
    with pytest.raises(UsageError, match="No layer matches --keep-float 'head'"):
        kept("head")


def test_what_stays_float_fits_no_form(study):
    kept = tuple(msgspec.structs.replace(layer, reason=KEPT) for layer in study.layers[:1])
    study.known = msgspec.structs.replace(study.known, layers=(*kept, *study.layers[1:]))
    study.calibrated()

    fitting = study.forms("onnxruntime-cpu", forms_for("onnxruntime-cpu", True))
    assert set(fitting) == {"MatMul_2", "MatMul_4"}


def test_without_ranges_no_form_that_needs_them(study):
    assert "int8" in {form.name for form in forms_for("onnxruntime-cpu", True)}
    assert not any(form.needs_ranges for form in forms_for("onnxruntime-cpu", False))


def test_the_written_model_loads_and_the_float_one_stays(study):
    study.calibrated()
    before = study.path.read_bytes()
    path = study.folder / "written.onnx"
    study.save_written({"MatMul_0": "int8"}, "onnxruntime-cpu", path)

    operators = [node.op_type for node in load(path).ir.graph]
    assert "QuantizeLinear" in operators
    assert study.path.read_bytes() == before
    assert "QuantizeLinear" not in [node.op_type for node in study.model.graph]
