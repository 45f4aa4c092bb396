"""Requests from end to end; those that measure a speed run alone."""

import json
import os
import tempfile
from pathlib import Path

import numpy as np
import onnx
import pytest

import edgeopt
from edgeopt.backends import backend_named
from edgeopt.bundle.read import read_bundle
from edgeopt.bundle.runtime.check import check
from edgeopt.cli.quantize import about
from edgeopt.data.judging.goals import NO_FLOOR, goal_from
from edgeopt.data.split import spread
from edgeopt.errors import DataError, EdgeoptError, ModelError, UsageError
from edgeopt.events import Progress, ignore
from edgeopt.graph.accuracy import compare_outputs
from edgeopt.pipeline.quantize import quantize_model
from edgeopt.quant.measured.records import QuantizeRequest
from edgeopt.quant.records import FLOAT

SHORT_S = 8.0


def ask(model, out=None, data=None, emit=ignore, **wishes):
    wishes = {"backend": "onnxruntime-cpu", "options": {"threads": 1}, "time_limit_s": SHORT_S, **wishes}
    return quantize_model(QuantizeRequest(model, out, data, **wishes), emit)


def left_behind():
    return set(Path(tempfile.gettempdir()).glob(f"edgeopt-work-{os.getpid()}-*"))


@pytest.fixture(scope="module")
def planned(stack_model, stack_data, tmp_path_factory):
    """A plan, its file, and what was told on the way."""
    out = tmp_path_factory.mktemp("planned") / "stack_int8.onnx"
    told = []
    before = left_behind()
    found = ask(stack_model, out, stack_data, told.append, goal=goal_from(None, "balanced"))
    assert left_behind() == before
    return found, out, told


@pytest.mark.timing
def test_a_plan_is_written_when_it_is_faster(planned):
    found, out, _ = planned

    assert found.outcome == "written", found.summary
    assert [file.path for file in found.files] == [str(out)]
    assert found.files[0].size_bytes == out.stat().st_size < found.source_bytes / 2
    assert sorted(out.parent.iterdir()) == [out]
    assert found.speedup.low > 1
    assert found.quantized_share == 1.0
    assert "onnxruntime-cpu" in found.summary
    onnx.checker.check_model(onnx.load(out))


@pytest.mark.timing
def test_the_proof_is_what_the_file_does_on_samples_set_aside(planned, stack_model, stack_data):
    found, out, _ = planned
    samples = np.load(stack_data)["x"][-found.proof.samples :]
    answers = []
    for path in (stack_model, out):
        session = backend_named(found.backend).load(path, found.options)
        answers.append([session.run({"x": x}) for x in samples])
        session.close()

    assert found.proof.set_aside
    assert found.proof.snr_db == pytest.approx(compare_outputs(*answers).snr_db, abs=0.5)
    assert found.proof.low_db >= 20


@pytest.mark.timing
def test_the_frontier_goes_from_float_to_all_layers(planned):
    found, _, _ = planned
    frontier = found.plan.frontier

    assert not frontier[0].choices
    assert [point.expected_ms for point in frontier] == sorted((p.expected_ms for p in frontier), reverse=True)
    assert found.plan.chosen in frontier
    assert found.plan.chosen.speedup == found.speedup.median
    assert {verdict.layer for verdict in found.plan.verdicts} == {"MatMul_0", "MatMul_2", "MatMul_4"}
    assert all(verdict.form != FLOAT and verdict.reason for verdict in found.plan.verdicts)
    assert {each.layer for each in found.plan.sensitivities} == {each.layer for each in found.plan.gains}


@pytest.mark.timing
def test_progress_names_the_phases(planned):
    found, _, told = planned
    phases = list(dict.fromkeys(event.phase for event in told if isinstance(event, Progress)))

    wanted = ["reading the model", "reading the data", "calibrating", "timing the layers", "proving"]
    assert [phase for phase in phases if phase in wanted] == wanted
    assert set(found.phases_s) >= {"preparing", "calibrating", "timing the layers", "measuring the speed"}


def unlike_calibration(kind, x):
    """Samples that calibrate well and prove badly, or that eight bits cannot hold."""
    x, order = x.copy(), spread(len(x), 1)
    calibrate, judge, prove = order[:12], order[12:], order[18:]
    if kind == "quiet then loud":
        x[calibrate] *= 0.01
    elif kind == "outlier channels":
        x[prove, :, ::97] *= 300
    elif kind == "signs never seen":
        x[calibrate] = np.abs(x[calibrate])
    else:
        x[judge] += 40
    return x


@pytest.mark.parametrize("kind", ["quiet then loud", "outlier channels", "signs never seen", "offset never seen"])
def test_one_form_below_the_default_goal_is_refused_with_what_to_do(stack_model, stack_data, tmp_path, kind):
    data, out = tmp_path / "data.npz", tmp_path / "stack.edgeopt"
    np.savez(data, x=unlike_calibration(kind, np.load(stack_data)["x"]))

    found = ask(stack_model, out, data, method="int8")

    assert found.outcome == "keep float"
    assert found.proof.low_db < 30
    assert found.summary.startswith("Keep float: int8 reaches ")
    assert f"(lower bound for others {found.proof.low_db:.1f} dB)" in found.summary
    assert "the goal is at least 30 dB (transparent)." in found.summary
    assert "--no-floor" in found.summary
    assert found.files == ()
    assert not out.exists()


@pytest.mark.slow
def test_one_form_is_written_whatever_its_accuracy_where_no_floor_is_asked_for(stack_model, stack_data, tmp_path):
    data, out = tmp_path / "data.npz", tmp_path / "stack.edgeopt"
    np.savez(data, x=unlike_calibration("quiet then loud", np.load(stack_data)["x"]))
    wishes = {"method": "int8", "keep_float": ("MatMul_2",), "goal": NO_FLOOR, "time_limit_s": 1.0}

    found = ask(stack_model, out, data, **wishes)
    assert found.outcome == "written"
    assert found.proof.snr_db < 20
    assert found.goal is None
    bundle = read_bundle(out)
    assert bundle.deployment.budget.goal == ""
    assert bundle.deployment.evidence.accuracy_db == pytest.approx(found.proof.snr_db, abs=0.06)
    assert json.loads((bundle.folder / "evidence.json").read_bytes())["goal"] is None
    assert not any(line.startswith("Goal") for line in about(found))
    check(out, ignore)
    by_layer = {verdict.layer: verdict for verdict in found.plan.verdicts}
    assert by_layer["MatMul_2"].form == FLOAT
    assert by_layer["MatMul_2"].reason == "kept float: requested with --keep-float"
    assert found.quantized_share == pytest.approx(2 / 3)


@pytest.mark.slow
def test_without_data_forms_that_calibrate_nothing_are_judged_on_made_up_inputs(stack_model, tmp_path):
    out = tmp_path / "stack.onnx"
    found = ask(stack_model, out, method="int8-dynamic", time_limit_s=1.0)

    assert found.outcome == "written"
    assert found.use.generated
    assert not found.proof.set_aside
    assert "generated inputs" in found.warnings[0]
    assert found.proof.snr_db > 25


def test_static_forms_need_data(stack_model, tmp_path):
    with pytest.raises(DataError, match="int8 calibrates activation ranges on samples") as error:
        ask(stack_model, tmp_path / "stack.onnx", method="int8")
    assert "--data" in error.value.hint


def test_a_model_without_layers_stays_float(relu_model, tmp_path):
    data = tmp_path / "data.npz"
    np.savez(data, x=np.random.default_rng(0).standard_normal((16, 1, 4)).astype(np.float32))
    found = ask(relu_model, tmp_path / "out.onnx", data)

    assert found.outcome == "keep float"
    assert found.summary == "Keep float: it has no product with weights (Conv, MatMul, Gemm)."
    assert not (tmp_path / "out.onnx").exists()


def test_what_is_cancelled_leaves_nothing_behind(stack_model, stack_data, tmp_path):
    def cancel(event):
        if isinstance(event, Progress) and event.phase == "calibrating":
            raise KeyboardInterrupt

    before = left_behind()
    with pytest.raises(KeyboardInterrupt):
        ask(stack_model, tmp_path / "stack.onnx", stack_data, cancel)
    assert left_behind() == before
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("wishes", "kind", "said"),
    [
        ({"method": "int3"}, UsageError, "no method 'int3'"),
        ({"out": "stack.tflite"}, UsageError, "does not end in .onnx or .edgeopt"),
        ({"out": "nowhere/stack.onnx"}, UsageError, "does not exist"),
        ({"out": "source.onnx"}, UsageError, "would be replaced"),
        ({"model": "none.onnx"}, ModelError, "none.onnx"),
        ({"backend": "tpu", "options": {}}, UsageError, "no backend 'tpu'"),
        ({"samples": 0}, UsageError, "At least one sample"),
    ],
)
def test_what_is_wrong_with_a_request_is_said_before_any_work(
    stack_model, stack_data, tmp_path, wishes, kind, said
):
    source = tmp_path / "source.onnx"
    source.write_bytes(stack_model.read_bytes())
    wishes = {"model": "source.onnx", "out": "out.onnx", **wishes}
    model, out = tmp_path / wishes.pop("model"), tmp_path / wishes.pop("out")
    phases = []

    with pytest.raises(EdgeoptError) as error:
        ask(model, out, stack_data, phases.append, **wishes)
    assert type(error.value) is kind
    assert said in error.value.message
    assert not phases


pytest.importorskip("onnxruntime", reason="the source model runs first")


def feeds(count):
    random = np.random.default_rng(0)
    return ({"x": random.standard_normal((1, 4)).astype(np.float32)} for _ in range(count))


def test_data_may_be_any_iterable_of_feeds(relu_model, tmp_path):
    found = edgeopt.quantize(relu_model, tmp_path / "out.onnx", data=feeds(32))
    assert found.outcome == "keep float"
    assert found.use.given == 32
    assert list(tmp_path.glob("out*")) == []


def test_an_iterable_that_yields_nothing_is_bad_data(relu_model):
    with pytest.raises(DataError, match="contains no samples"):
        edgeopt.quantize(relu_model, data=feeds(0))


def test_wishes_are_checked_as_on_the_command_line(relu_model):
    with pytest.raises(UsageError, match="no method 'int9'") as raised:
        edgeopt.quantize(relu_model, method="int9")
    assert "int8" in raised.value.hint
    with pytest.raises(UsageError, match="A plan needs a goal"):
        edgeopt.quantize(relu_model, no_floor=True)
    with pytest.raises(UsageError, match="not an accuracy floor"):
        edgeopt.quantize(relu_model, floor=500)
