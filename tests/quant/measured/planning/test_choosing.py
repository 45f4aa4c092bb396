import numpy as np
import onnx
import onnx.parser
import pytest

from edgeopt.data.judging.goals import goal_from
from edgeopt.errors import ModelError
from edgeopt.events import ignore
from edgeopt.pipeline import quantize
from edgeopt.quant.measured.planning import choosing
from edgeopt.quant.measured.planning.choosing import Chooser, plan_configs, promising_configs, proven
from edgeopt.quant.measured.planning.entry import write_entry
from edgeopt.quant.measured.records import QuantizeRequest
from edgeopt.quant.measured.sample_sets import ModelRuns
from edgeopt.quant.measured.timing.configs import ExecutionConfig
from edgeopt.quant.measured.timing.gains import ConfigGains, TimedKernels, measure_gains, worth
from edgeopt.quant.measured.work import prepare
from edgeopt.quant.records import FLOAT, FrontierPoint, LayerGain, PrecisionPlan
from tests.conftest import seeded, write_onnx
from tests.families.stack import ROWS, WIDTH

ROWS_CHOOSING, WIDTH_CHOOSING = 16, 32


@pytest.fixture(params=[1.0])
def work(request, models, tmp_path):
    """Two products with weights, and one of what they give."""
    nodes = [
        ("MatMul", ["x", "first"], ["a"], {}),
        ("MatMul", ["x", "second"], ["b"], {}),
        ("Transpose", ["b"], ["t"], {"perm": [1, 0]}),
        ("MatMul", ["a", "t"], ["y"], {}),
    ]
    weights = {name: seeded(WIDTH_CHOOSING, WIDTH_CHOOSING, seed=k) for k, name in enumerate(("first", "second"))}
    model = write_onnx(
        models / "scores.onnx",
        nodes,
        weights,
        {"x": [ROWS_CHOOSING, WIDTH_CHOOSING]},
        {"y": [ROWS_CHOOSING, ROWS_CHOOSING]},
    )
    data, quiet = tmp_path / "data.npz", request.param
    x = np.random.default_rng(3).standard_normal((16, ROWS_CHOOSING, WIDTH_CHOOSING)) * np.resize(
        (1.0, quiet), (16, 1, 1)
    )
    np.savez(data, x=x.astype(np.float32))
    request = QuantizeRequest(model, data=data, backend="onnxruntime-cpu", goal=goal_from(None, "15dB"))
    with ModelRuns() as runs:
        work = prepare(request, tmp_path, runs, lambda _: None)
        work.study.calibrated()
        yield work


def test_one_form_is_also_tried_on_the_layers_with_weights_alone(work):
    """Of each layer the times may say that it gains; what happens around attention they do not say."""
    layers = {layer.name: layer for layer in work.study.layers}
    weighted = {name for name, layer in layers.items() if layer.weight}
    assert len(weighted) == 2 < len(layers) == 3
    # One layer gains by another form, so that the plan itself is neither.
    saves = {name: 0.5 if name in weighted else 0.2 for name in layers}
    gains = [LayerGain(name, "int8", 1.0, 1.0 - ms) for name, ms in saves.items()]
    timed = TimedKernels((*gains, LayerGain(min(weighted), "int8-dynamic", 1.0, 0.4)), 3.0, {"int8": 1.8})

    chooser = Chooser(
        work, config_gains := ConfigGains(work.configs[0], timed, worth(timed)), config_gains.schemes
    )
    entries = chooser.entries()

    chosen = [dict(entry.choices) for entry in entries]
    assert dict.fromkeys(layers, "int8") in chosen
    assert dict.fromkeys(weighted, "int8") in chosen
    (alone,) = (each for each in entries if dict(each.choices) == dict.fromkeys(weighted, "int8"))
    (product,) = (verdict for verdict in alone.plan.verdicts if verdict.layer not in weighted)
    assert product.scheme == FLOAT
    assert "makes the whole model faster" in product.reason


@pytest.mark.parametrize("work", [0.01], indirect=True)
def test_a_plan_that_a_quiet_level_refuses_says_so(work):
    """Over all samples together the quiet ones hardly count."""
    gains = tuple(LayerGain(layer.name, "int8", 1.0, 0.5) for layer in work.study.layers)
    timed = TimedKernels(gains, 3.0, {"int8": 1.5})
    chooser = Chooser(
        work, config_gains := ConfigGains(work.configs[0], timed, worth(timed)), config_gains.schemes
    )

    (entry, *_) = chooser.entries()

    assert dict(entry.choices) != {layer.name: "int8" for layer in work.study.layers}
    assert chooser.held_back.pooled_low_db > 15 > chooser.held_back.low_db
    (warning,) = [each for each in work.warnings if "the weakest decides" in each]
    assert "Of 2 levels of input" in warning
    assert "of the loudest" in warning


def test_a_loose_floor_has_what_a_stricter_one_would_give_as_a_rival(work):
    """Times of single layers do not tell all: more room for error must not end in something slower."""
    gains = tuple(LayerGain(layer.name, "int8", 1.0, 0.5) for layer in work.study.layers)
    timed = TimedKernels(gains, 3.0, {})
    chooser = Chooser(
        work, config_gains := ConfigGains(work.configs[0], timed, worth(timed)), config_gains.schemes
    )

    main, *rivals = chooser.entries()

    assert main.plan.chosen.low_db < 30
    assert [each for each in rivals if each.plan.chosen.low_db >= 30 and not each.is_float]


@pytest.fixture
def two_configs(work, monkeypatch):
    """The work and two configurations with equal gains, of which the first cannot be planned."""
    timed = TimedKernels(tuple(LayerGain(each.name, "int8", 1.0, 0.5) for each in work.study.layers), 3.0, {})
    configs = ExecutionConfig("openvino-cpu", {"precision": "f32"}), work.configs[0]
    bad, good = (ConfigGains(config, timed, worth(timed)) for config in configs)

    def planner(work, gains, *more):
        if gains is bad:
            raise ModelError("Its kernels are missing.")
        return Chooser(work, gains, *more)

    monkeypatch.setattr(choosing, "Chooser", planner)
    monkeypatch.setattr(choosing, "measure_gains", lambda _: [bad, good])
    return work, bad


def test_a_configuration_that_fails_leaves_the_plans_of_the_others(two_configs):
    work, bad = two_configs
    plans = plan_configs(work, 1.0)
    assert {entry.config.backend for entry in plans.entries} == {"onnxruntime-cpu"}
    assert plans.unplanned == {"openvino-cpu"}
    assert f"No plan for {bad.config.name}: Its kernels are missing." in work.warnings


def test_configuration_that_seems_to_save_more_than_its_time_is_planned(work):
    """Times of a few microseconds are not exact, so the sum of the gains may be larger than the whole."""
    layers = [each.name for each in work.study.layers]
    timed = TimedKernels(tuple(LayerGain(each, "int8", 0.0021, 0.0) for each in layers), 0.004, {})
    slow = TimedKernels(tuple(LayerGain(each, "int8", 0.0001, 0.0) for each in layers), 0.0072, {})
    config_gains = [ConfigGains(work.configs[0], each, worth(each)) for each in (timed, slow)]
    said = []
    object.__setattr__(work, "emit", said.append)
    assert promising_configs(work, config_gains) == config_gains[:1]
    assert "at best 6.90 µs, while another reaches 0 µs" in said[0].message


def test_reason_for_no_plan_says_which_configurations_gain(work, monkeypatch):
    layers = [each.name for each in work.study.layers]
    quick = TimedKernels(tuple(LayerGain(each, "int8", 0.001, 0.001) for each in layers), 0.003, {})
    slow = TimedKernels(tuple(LayerGain(each, "int8", 0.005, 0.002) for each in layers), 0.015, {})
    openvino = ExecutionConfig("openvino-cpu", {"precision": "f32"})
    gains = [ConfigGains(openvino, quick, worth(quick)), ConfigGains(work.configs[0], slow, worth(slow))]
    monkeypatch.setattr(choosing, "measure_gains", lambda _: gains)
    assert plan_configs(work, 1.0).why_none == (
        "no layer is clearly faster in any scheme on openvino-cpu (precision=f32), and the best plan for "
        "onnxruntime-cpu is estimated to be slower than openvino-cpu (precision=f32)"
    )
    monkeypatch.setattr(choosing, "measure_gains", lambda _: gains[1:])
    assert plan_configs(work, 1.0, until=0.0).why_none == "the time limit left no time to plan onnxruntime-cpu"


def test_where_no_configuration_can_be_planned_the_error_is_raised(two_configs, monkeypatch):
    work, bad = two_configs
    monkeypatch.setattr(choosing, "measure_gains", lambda _: [bad])
    with pytest.raises(ModelError, match="kernels are missing"):
        quantize.planned(work)


DARING = {"MatMul_0": "int8", "MatMul_2": "int8-dynamic"}
CAREFUL = {"MatMul_2": "int8-dynamic"}


@pytest.fixture
def planned_work(stack_model, tmp_path):
    """Of samples whose last ones, which prove, are ten times as large as those that calibrate."""
    x = np.random.default_rng(7).standard_normal((24, ROWS, WIDTH)).astype(np.float32)
    x[18:] *= 10
    data = tmp_path / "data.npz"
    np.savez(data, x=x)
    request = QuantizeRequest(stack_model, data=data, backend="onnxruntime-cpu", goal=goal_from(None, "25dB"))
    told = []
    with ModelRuns() as runs:
        work = prepare(request, tmp_path, runs, told.append)
        work.study.calibrated()
        yield work, told


def entry_of(work, choices, points):
    entry = write_entry(work.study, work.configs[0], choices, work.folder / "plan.onnx")
    chosen = FrontierPoint(choices, 1.0, 30.0)
    entry.plan = PrecisionPlan("onnxruntime-cpu", {}, 25.0, chosen, (*points, chosen), ())
    entry.points = points
    return entry


def test_a_plan_that_fails_on_unseen_samples_steps_back_to_the_next_more_exact_one(planned_work):
    planned_work, told = planned_work
    careful = FrontierPoint(CAREFUL, 2.0, 40.0)

    found = proven(planned_work, entry_of(planned_work, DARING, [careful, FrontierPoint({}, 3.0, 200.0)]))

    assert found.choices == CAREFUL
    assert found.plan.chosen == careful
    assert found.proof.steps_back == 1
    assert found.proof.low_db >= 25
    assert any("one step back" in getattr(event, "message", "") for event in told)


def test_where_no_point_holds_the_model_stays_float(planned_work):
    planned_work, _ = planned_work
    found = proven(planned_work, entry_of(planned_work, DARING, []))

    assert found.is_float
    assert found.path == planned_work.study.path
    assert found.proof.low_db < 25, "the proof of the plan that failed is kept, to be shown"


def test_a_runtime_that_cannot_run_the_model_is_not_planned_by_estimates(tmp_path):
    pytest.importorskip("openvino", reason="the runtime that has no LabelEncoder")
    text = """<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 2]> g (float[1,64] x) => (string[1] y)
        { m = MatMul(x, w)  a = ArgMax<axis = 1, keepdims = 0>(m)
          y = ai.onnx.ml.LabelEncoder<keys_int64s = [0, 1], values_strings = ["cat", "dog"]>(a) }"""
    proto = onnx.parser.parse_model(text)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(seeded(64, 64), "w"))
    onnx.save(proto, tmp_path / "words.onnx")
    np.savez(tmp_path / "data.npz", x=np.random.default_rng(1).standard_normal((16, 1, 64)).astype(np.float32))
    request = QuantizeRequest(tmp_path / "words.onnx", data=tmp_path / "data.npz", backend="openvino-cpu")
    with ModelRuns() as runs:
        work = prepare(request, tmp_path, runs, ignore)
        work.study.calibrated()
        assert measure_gains(work) == []
        skipped = [each for each in work.warnings if "openvino-cpu (precision=f32) was skipped" in each]
        assert skipped, work.warnings
