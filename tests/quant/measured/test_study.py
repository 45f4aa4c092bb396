import dataclasses

import msgspec
import numpy as np
import onnx
import pytest
from onnx import helper

from edgeopt.backends.base import TensorInfo
from edgeopt.data.judging.goals import Goal, goal_from
from edgeopt.data.samples import Samples
from edgeopt.errors import DataError, ModelError, UsageError, VerificationError
from edgeopt.graph.model import load
from edgeopt.quant.measured.records import QuantizeRequest
from edgeopt.quant.measured.sample_sets import ModelRuns, read_samples
from edgeopt.quant.measured.study import KEPT, begin, schemes_for
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
    rows = study.sample_sets.samples.arrays["x"].copy()
    rows[..., 3] *= 100
    study.sample_sets = dataclasses.replace(
        study.sample_sets, samples=Samples({"x": rows}, study.sample_sets.samples.ranks)
    )
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
        made = begin(study.model, study.sample_sets, {}, QuantSettings(), tmp_path / "other", patterns)
        return [layer.name for layer in made.layers if layer.reason == KEPT]

    assert kept("MatMul_2") == ["MatMul_2"]
    assert kept("MatMul_*") == ["MatMul_0", "MatMul_2", "MatMul_4"]
    with pytest.raises(UsageError, match="No layer matches --keep-float 'head'"):
        kept("head")


def test_what_stays_float_fits_no_form(study):
    kept = tuple(msgspec.structs.replace(layer, reason=KEPT) for layer in study.layers[:1])
    study.known = msgspec.structs.replace(study.known, layers=(*kept, *study.layers[1:]))
    study.calibrated()

    fitting = study.fitting_schemes("onnxruntime-cpu", schemes_for("onnxruntime-cpu", True))
    assert set(fitting) == {"MatMul_2", "MatMul_4"}


def test_without_ranges_no_form_that_needs_them(study):
    assert "int8" in {form.name for form in schemes_for("onnxruntime-cpu", True)}
    assert not any(form.needs_ranges for form in schemes_for("onnxruntime-cpu", False))


def test_the_written_model_loads_and_the_float_one_stays(study):
    study.calibrated()
    before = study.path.read_bytes()
    path = study.folder / "written.onnx"
    study.save_written({"MatMul_0": "int8"}, "onnxruntime-cpu", path)

    operators = [node.op_type for node in load(path).ir.graph]
    assert "QuantizeLinear" in operators
    assert study.path.read_bytes() == before
    assert "QuantizeLinear" not in [node.op_type for node in study.model.graph]


DEFAULT = Goal()
INPUTS = (TensorInfo("x", "float32", ("batch", 4)),)


def given_of(path, samples, goal=DEFAULT, maximum=None, calibrates=True, **more):
    data = path / "data.npz"
    np.savez(data, x=np.random.default_rng(0).standard_normal((samples, 4)).astype(np.float32), **more)
    request = QuantizeRequest(path / "model.onnx", data=data, goal=goal, samples=maximum)
    return read_samples(request, INPUTS, None, calibrates)


def test_no_sample_does_two_things(tmp_path):
    given = given_of(tmp_path, 48)

    parts = [set(given.calibrate), set(given.plan), set(given.prove)]
    assert not parts[0] & parts[1]
    assert not parts[1] & parts[2]
    assert not parts[0] & parts[2]
    assert set().union(*parts) == set(range(48))
    assert (given.use.calibrated, given.use.planned, given.use.proved) == (24, 12, 12)
    assert not given.use.shared
    assert given.use.given == 48


def test_the_last_samples_prove(tmp_path):
    given = given_of(tmp_path, 200)

    assert given.prove == range(124, 200)
    assert given.plan.stop <= given.prove.start


def test_counted_answers_are_proved_on_many(tmp_path):
    """One answer in sixteen is six points: a drop of half a point needs hundreds."""
    goal = goal_from("top1-labels", None, "0.4%")
    given = given_of(tmp_path, 500, goal, label=np.arange(500) % 3)

    assert len(given.prove) >= 200
    rows = np.load(tmp_path / "data.npz")["x"]
    label_of = {row.tobytes(): k % 3 for k, row in enumerate(rows)}
    proving = given.samples.arrays["x"][given.prove.start :]
    assert given.labels_of(given.prove).tolist() == [label_of[row.tobytes()] for row in proving]
    counts = np.bincount(given.labels_of(given.prove))
    assert counts.max() - counts.min() <= 1, "classes stay in proportion"


def test_fewer_calibrate_on_request(tmp_path):
    given = given_of(tmp_path, 48, maximum=5)

    assert given.calibrate == range(5)
    assert given.plan.start >= 5


def test_too_few_samples_are_shared_and_it_is_said(tmp_path):
    given = given_of(tmp_path, 6)

    assert given.use.shared
    assert len(given.prove)
    assert any("6 samples" in warning for warning in given.warnings)


def test_one_sample_cannot_calibrate(tmp_path):
    with pytest.raises(DataError, match="one sample"):
        given_of(tmp_path, 1)


def test_one_sample_can_judge_what_calibrates_nothing(tmp_path):
    assert len(given_of(tmp_path, 1, calibrates=False).prove) == 1


def test_without_data_inputs_are_made_up(stack_model):
    inputs = (TensorInfo("x", "float32", (64, 512)),)
    given = read_samples(QuantizeRequest(stack_model), inputs, None, False)

    assert given.use.generated
    assert not len(given.calibrate)
    assert given.samples.feeds(given.prove[0])["x"].shape == (64, 512)
    for which in (given.plan, given.prove):
        loudness = [level for (level,) in given.levels.of(which)]
        assert len(which) > 8
        assert min(loudness) == 0
        assert any(0 < level < 1e-4 for level in loudness)
        assert sum(level > 0.5 for level in loudness) >= 8
    assert not np.array_equal(given.feeds(given.plan)[0]["x"], given.feeds(given.prove)[0]["x"])


def test_labels_cannot_be_made_up(stack_model):
    request = QuantizeRequest(stack_model, goal=goal_from("top1-labels", None, "1%"))
    with pytest.raises(DataError, match="needs labels"):
        read_samples(request, INPUTS, None, False)


X = {"x": np.ones((1, 4), np.float32)}


def test_a_model_that_does_not_answer_twice_alike_cannot_be_judged(tmp_path):
    nodes = [
        helper.make_node("RandomNormalLike", ["x"], ["noise"]),
        helper.make_node("Add", ["x", "noise"], ["y"]),
    ]
    ports = [[helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, 4])] for name in "xy"]
    graph = helper.make_graph(nodes, "random", *ports)
    path = tmp_path / "random.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)

    with ModelRuns() as runs:
        runs.inputs(path)
        with pytest.raises(VerificationError, match="Two runs on the same inputs differ"):
            runs.source_outputs(path, [X, X])


def test_what_no_runtime_loads_is_a_reason(tmp_path, relu_model):
    path = tmp_path / "foreign.onnx"
    model = onnx.load(relu_model)
    model.graph.node[0].domain = "nowhere"
    model.opset_import.add(domain="nowhere", version=1)
    onnx.save(model, path)

    with ModelRuns() as runs, pytest.raises(ModelError, match="No installed runtime can load the model"):
        runs.inputs(path)


def test_the_judge_is_onnx_runtime_where_it_loads_the_model(relu_model):
    with ModelRuns() as runs:
        (info,) = runs.inputs(relu_model)
        (answer,) = runs.source_outputs(relu_model, [X])

    assert info.name == "x"
    assert runs.judge == "onnxruntime-cpu"
    assert answer["y"].tolist() == [[1, 1, 1, 1]]
