"""What is delivered and what stays float, with contests whose results are planted."""

import json
import os
import shutil
import subprocess
import sys

import msgspec
import numpy as np
import pytest

import edgeopt
from edgeopt import events
from edgeopt.bundle.read import read_bundle
from edgeopt.bundle.request import ReplayRequest
from edgeopt.bundle.runtime.check import check
from edgeopt.cli.quantize import proved
from edgeopt.commands.quantize import QuantizeOptions, request_from
from edgeopt.data.judging.goals import goal_from
from edgeopt.data.samples import Samples, save_samples
from edgeopt.errors import UsageError
from edgeopt.events import Progress, ignore
from edgeopt.fleet.client import Agent
from edgeopt.graph.accuracy import compare_outputs
from edgeopt.measure.schedules import PROOF
from edgeopt.measure.stats import Interval
from edgeopt.pipeline.prove import quantized as module
from edgeopt.pipeline.prove.quantized import finish
from edgeopt.pipeline.quantize import quantize_model
from edgeopt.pipeline.replay import replay
from edgeopt.quant.measured.planning.choosing import proven
from edgeopt.quant.measured.planning.entry import Entry, precision_plan, write_entry
from edgeopt.quant.measured.proof import (
    FLOAT,
    SOURCE,
    ContestResult,
    ContestSide,
    Speed,
    compared,
    ranked,
    with_one_float,
)
from edgeopt.quant.measured.records import QuantizeRequest
from edgeopt.quant.measured.sample_sets import ModelRuns
from edgeopt.quant.measured.timing.configs import ExecutionConfig
from edgeopt.quant.measured.work import prepare
from edgeopt.quant.records import FrontierPoint
from tests.conftest import seeded, write_onnx

FASTER = Speed(Interval(1.31, 1.25, 1.38, 11, 0.99), "faster", 1.0, 1.31)
SLOWER = Speed(Interval(0.9, 0.823, 0.985, 11, 0.99), "slower", 1.0, 0.9)
UNCLEAR = Speed(Interval(1.01, 0.98, 1.03, 11, 0.99), "no difference seen", 1.0, 1.01)
DYNAMIC = {"MatMul_0": "int8-dynamic"}


@pytest.fixture
def working(stack_model, stack_data, tmp_path):
    """Makes the work of a request, without what it was found to need."""
    with ModelRuns() as runs:

        def make(**wishes):
            given = {"backend": "onnxruntime-cpu", "goal": goal_from(None, "20dB"), **wishes}
            request = QuantizeRequest(stack_model, tmp_path / "out.edgeopt", stack_data, **given)
            return prepare(request, tmp_path, runs, lambda _: None)

        yield make


def measuring(monkeypatch, speeds):
    """Plants what the contest finds, by the end of the names of those who take part."""

    def compared(runners, *_):
        names = [each.name for each in runners]
        found = {name: speed for name in names[1:] for end, speed in speeds.items() if name.endswith(end)}
        return ContestResult(found)

    monkeypatch.setattr(module, "compared", compared)


def entry_of(work, choices=DYNAMIC):
    return proven(work, write_entry(work.study, work.configs[0], choices, work.folder / "plan.onnx"))


def test_a_plan_that_is_slower_than_the_source_stays_float(working, monkeypatch):
    work = working()
    measuring(monkeypatch, {FLOAT: FASTER, "onnxruntime-cpu": FASTER, SOURCE: SLOWER})

    found = finish(work, entry_of(work))

    assert found.outcome == "keep float"
    assert found.summary.startswith(
        "Keep float: the best plan has no gain. It is slower than float on onnxruntime"
    )
    assert found.speedup.median == 0.9
    assert not work.request.out.exists()


def test_summary_agrees_with_a_frontier_that_estimates_a_gain(working, monkeypatch):
    work = working()
    measuring(monkeypatch, {})
    planned = entry_of(work)
    chosen = FrontierPoint(DYNAMIC, 1.0, planned.proof.snr_db, planned.proof.snr_db, planned.proof.low_db)
    frontier = (FrontierPoint({}, 1.2, 200.0), chosen)
    entry = Entry(work.configs[0], {}, work.study.path, proof=planned.proof)
    entry.plan = precision_plan(planned, work.request.goal, chosen, (), frontier)

    found = finish(work, entry)

    assert found.summary == (
        "Keep float: plans meet the goal (at least 20 dB), but in interleaved runs, float on onnxruntime-cpu was "
        "faster. The times of the frontier are estimates."
    )


def test_a_plan_must_be_faster_than_the_float_model_of_the_other_runtime(working, monkeypatch):
    work = working()
    work.configs = (*work.configs, ExecutionConfig("openvino-cpu", {"precision": "f32"}))
    measuring(monkeypatch, {"onnxruntime-cpu": FASTER, "(precision=f32)": UNCLEAR, SOURCE: FASTER})

    found = finish(work, entry_of(work))

    assert found.outcome == "keep float"
    assert found.float_on == "openvino-cpu (precision=f32)"
    assert "It is not proved faster than float on" in found.summary
    assert ": 1.01" in found.summary


def test_a_plan_that_beats_every_float_model_is_written_with_evidence(working, monkeypatch):
    work = working()
    measuring(monkeypatch, {FLOAT: FASTER, "onnxruntime-cpu": FASTER, SOURCE: FASTER})

    found = finish(work, entry_of(work))

    assert found.outcome == "written"
    assert "1.31 times as fast as float on onnxruntime-cpu" in found.summary
    assert read_bundle(work.request.out).deployment.evidence.verdict == "faster"


def test_options_of_the_user_hold_for_floats_too_and_the_plain_source_only_informs(working, monkeypatch):
    work = working(options={"threads": 1})
    measuring(monkeypatch, {"(threads=1)": FASTER, SOURCE: SLOWER})

    found = finish(work, entry_of(work))

    assert found.outcome == "written"
    assert found.float_on == "onnxruntime-cpu (threads=1)"
    assert found.source_speedup.median == 0.9


def test_a_form_asked_for_by_name_is_written_though_it_is_slower_and_says_so(working, monkeypatch):
    work = working(method="int8-dynamic")
    measuring(monkeypatch, {"onnxruntime-cpu": SLOWER, SOURCE: SLOWER})

    assert finish(work, entry_of(work)).outcome == "written"
    assert any("slower than float on onnxruntime-cpu" in warning for warning in work.warnings)


def test_floats_that_are_rounded_are_proved_and_delivered_with_their_accuracy(working, monkeypatch):
    work = working()
    rounded = ExecutionConfig("openvino-cpu", {"precision": "bf16"})
    monkeypatch.setattr(type(work.runs), "outputs", outputs_of_the_judge(work))
    measuring(monkeypatch, {FLOAT: FASTER, "f32)": FASTER, "onnxruntime-cpu": FASTER, SOURCE: FASTER})

    found = finish(work, proven(work, Entry(rounded, {}, work.study.path)))

    assert found.summary.startswith("All layers in bf16 on openvino-cpu (precision=bf16): ")
    assert " dB on " in found.summary or "equal to the source model on" in found.summary
    evidence = read_bundle(work.request.out).deployment.evidence
    assert evidence.accuracy_db == pytest.approx(found.proof.snr_db, abs=0.06)
    assert evidence.samples == found.proof.samples


def outputs_of_the_judge(work, factor=1.0):
    """No machine need have bf16, nor OpenVINO."""
    real = type(work.runs).outputs

    def outputs(runs, path, _backend, _options, feeds):
        answers = real(runs, path, runs.judge, {}, feeds)
        return [{name: factor * array for name, array in answer.items()} for answer in answers]

    return outputs


def test_floats_that_are_rounded_too_far_are_not_delivered(working, monkeypatch):
    work = working()
    rounded = ExecutionConfig("openvino-cpu", {"precision": "bf16"})
    monkeypatch.setattr(type(work.runs), "outputs", outputs_of_the_judge(work, factor=0.8))
    measuring(monkeypatch, {FLOAT: FASTER, "f32)": FASTER, "onnxruntime-cpu": FASTER, SOURCE: FASTER})

    found = finish(work, proven(work, Entry(rounded, {}, work.study.path)))

    assert found.outcome == "keep float"
    assert found.summary.startswith("Keep float: the best plan reaches 14.0 dB")


def test_without_a_proof_nothing_is_delivered(working, monkeypatch):
    work = working(method="int8-dynamic")
    measuring(monkeypatch, {"onnxruntime-cpu": FASTER, SOURCE: FASTER})
    entry = entry_of(work)
    entry.proof = None

    assert finish(work, entry).outcome == "keep float"


def test_a_bundle_is_not_written_without_evidence(working, monkeypatch):
    work = working(method="int8-dynamic")
    measuring(monkeypatch, {})
    entry = entry_of(work)

    found = finish(work, entry)
    assert found.outcome == "keep float"
    assert "-o FILE.onnx" in found.summary

    work.request = msgspec.structs.replace(work.request, out=work.request.out.with_suffix(".onnx"))
    assert finish(work, entry).outcome == "written"


def test_of_several_float_models_the_one_that_is_hardest_to_beat_stays():
    speeds = {"a": FASTER, "b": UNCLEAR, SOURCE: FASTER}

    found, name = with_one_float(ContestResult(speeds), ("a", "b"))

    assert name == "b"
    assert found.speeds == {FLOAT: UNCLEAR, SOURCE: FASTER}


WIDTH, ROWS, COUNT = 128, 8, 48
QUIET = 0.013  # between two steps of 10 dB, so that noise moves no sample to another level


@pytest.fixture(scope="module")
def one_product(models):
    weights = {"w": seeded(WIDTH, WIDTH, seed=3)}
    nodes = [("MatMul", ["x", "w"], ["y"], {})]
    return write_onnx(models / "levels.onnx", nodes, weights, {"x": [ROWS, WIDTH]}, {"y": [ROWS, WIDTH]})


def data_of(path, levels):
    x = np.random.default_rng(11).standard_normal((COUNT, ROWS, WIDTH)) * np.resize(levels, (COUNT, 1, 1))
    np.savez(path, x=x.astype(np.float32))
    return path


def result(model, data, out, method, **more):
    return quantize_model(
        request_from(QuantizeOptions(model, out, data=data, method=method, backend="onnxruntime-cpu", **more))
    )


def test_quiet_samples_below_the_floor_refuse_what_loud_ones_carry(one_product, tmp_path):
    data = data_of(tmp_path / "levels.npz", (1.0, QUIET))
    found = result(one_product, data, tmp_path / "q.onnx", "int8", floor="30dB")

    assert found.outcome == "keep float"
    assert not (tmp_path / "q.onnx").exists()
    assert all(output.snr_db > found.proof.snr_db + 10 for output in found.proof.outputs)
    assert found.proof.snr_db < 20
    assert (found.proof.weakest.levels, found.proof.weakest.output) == (2, "y")
    assert found.proof.weakest.share == pytest.approx(QUIET, rel=0.2)
    assert "the weakest of 2 levels" in found.summary
    assert f"samples at {found.proof.weakest.share:.2g} of the loudest" in found.summary
    assert any("Of 2 levels of input the weakest decides" in line for line in proved(found, found.proof))
    assert b'"weakest":{"output":"y"' in msgspec.json.encode(found)


@pytest.mark.slow
def test_a_form_that_finds_its_ranges_in_each_run_holds_on_both(one_product, tmp_path):
    data = data_of(tmp_path / "levels.npz", (1.0, QUIET))
    found = result(one_product, data, tmp_path / "q.onnx", "int8-dynamic", floor="30dB")

    assert found.outcome == "written"
    assert found.proof.low_db >= 30
    assert found.proof.weakest.levels == 2


@pytest.mark.slow
def test_of_one_level_the_ratio_is_that_of_all_samples(one_product, tmp_path):
    data = data_of(tmp_path / "alike.npz", (1.0, 0.8))
    found = result(
        one_product, data, tmp_path / "q.onnx", "int8", floor="25dB"
    )  # 7 bits of weights, without VNNI, miss 30 dB

    assert found.outcome == "written"
    assert found.proof.weakest is None
    assert found.proof.snr_db == min(output.snr_db for output in found.proof.outputs)


LIMIT_S = 30.0


@pytest.fixture
def samples(tmp_path):
    folder = tmp_path / "samples"
    save_samples(Samples({"x": np.ones((2, 1, 8), np.float32)}, {"x": 2}), folder)
    return folder


@pytest.fixture
def runner(null_model):
    def make(name, latency_ms=1.0, **faults):
        return ContestSide(name, null_model(name, latency_ms=latency_ms, **faults), "null", {})

    return make


@pytest.mark.timing
def test_the_quicker_one_is_called_faster_with_an_interval(runner, samples, tmp_path):
    told = []
    found = compared([runner("quick", 2.0), runner("slow", 6.0)], samples, tmp_path, LIMIT_S, told.append)

    speed = found.speeds["slow"]
    assert speed.verdict == "faster"
    assert 1 < speed.speedup.low <= speed.speedup.median
    assert 1.3 < speed.speedup.median < 6
    assert 2 <= speed.first_ms < speed.other_ms
    assert speed.other_ms / speed.first_ms == pytest.approx(speed.speedup.median)
    assert any(isinstance(event, Progress) for event in told)
    assert found.processes >= 3, "a process may be lucky for its whole life"
    assert len(found.taken["quick"].slices_ms) >= PROOF.leg_rounds[0] * found.processes
    assert not found.warning


@pytest.mark.timing
def test_the_slower_one_is_called_slower(runner, samples, tmp_path):
    found = compared([runner("slow", 6.0), runner("quick", 2.0)], samples, tmp_path, LIMIT_S)

    assert found.speeds["quick"].verdict == "slower"


@pytest.mark.timing
def test_the_quickest_has_the_least_time(runner, samples, tmp_path):
    times = ranked([runner("a", 6.0), runner("b", 2.0), runner("c", 4.0)], samples, tmp_path)

    assert sorted(times, key=times.get) == [1, 2, 0]


def test_one_that_cannot_load_is_left_out_with_the_reason(runner, samples, tmp_path):
    missing = ContestSide("missing", tmp_path / "none.null.json", "null", {})

    assert list(ranked([missing, runner("a")], samples, tmp_path)) == [1]
    found = compared([runner("a"), missing], samples, tmp_path, LIMIT_S)
    assert not found.speeds
    assert "missing" in found.failures
    assert not ranked([missing], samples, tmp_path)


@pytest.mark.slow
def test_the_others_are_compared_where_one_cannot_load(runner, samples, tmp_path):
    found = compared(
        [runner("a", 2.0), runner("broken", fail="load"), runner("b", 6.0)], samples, tmp_path, LIMIT_S
    )

    assert list(found.speeds) == ["b"]
    assert found.speeds["b"].verdict == "faster"
    assert "as planted" in found.failures["broken"]
    assert compared([runner("broken", fail="load"), runner("b")], samples, tmp_path, LIMIT_S).speeds == {}


os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")


def ask(model, out, data, **wishes):
    options = {"threads": 1}
    given = {"method": "int8", "backend": "onnxruntime-cpu", "options": options, "time_limit_s": 8.0}
    # Processors without VNNI get weights of 7 bits, which stay below 30 dB here.
    given["goal"] = goal_from(None, "28dB")
    return quantize_model(QuantizeRequest(model, out, data, **given, **wishes))


@pytest.fixture(scope="module")
def made(stack_model, stack_data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    out = folder / "stack.edgeopt"
    model = shutil.copy(stack_model, folder / "stack.onnx")
    (folder / "stack.text").mkdir()
    (folder / "stack.text/tokenizer.json").write_text("{}")
    return ask(model, out, stack_data, check_targets=("cpu-avx2",), single_file=True), out


def test_the_bundle_runs_as_the_result_was_proved(made, stack_data):
    found, out = made
    bundle = read_bundle(out)
    assert found.files[0].path == str(out)
    assert bundle.deployment.run.backend == "onnxruntime-cpu"
    assert bundle.deployment.run.options == {"threads": 1}
    assert out.is_file()
    assert [file.name for file in (bundle.folder / "model").iterdir()] == ["stack.onnx"]
    assert (bundle.folder / "text/tokenizer.json").read_text() == "{}"
    check(out, ignore)
    given = {sample.tobytes() for sample in np.load(stack_data)["x"]}
    inputs = bundle.golden("inputs")
    assert all(feeds["x"].tobytes() in given for feeds in inputs)
    with edgeopt.load(out) as session:
        answers = [session.run(feeds) for feeds in inputs]
    stored = bundle.golden("outputs")
    assert compare_outputs(stored, answers).snr_db > 80
    assert compare_outputs(bundle.golden("reference"), answers).snr_db == pytest.approx(found.proof.snr_db, abs=3)


def test_other_targets_are_asked_about_the_model_in_it(made):
    found, _ = made
    assert [row.target for row in found.targets] == ["cpu-avx2"]
    assert found.targets[0].reason


def test_it_tells_what_was_proved_and_how_it_was_made(made):
    found, out = made
    bundle = read_bundle(out)
    deployment = bundle.deployment
    evidence = deployment.evidence
    assert evidence.accuracy_db == pytest.approx(found.proof.snr_db, abs=0.06)
    assert evidence.speedup == pytest.approx(found.source_speedup.median, rel=1e-3)
    assert evidence.verdict in {"faster", "not proved faster"}
    # On a busy machine an interval above 1 alone is no proof: too few rounds, or a gain too small to count.
    assert evidence.verdict == "not proved faster" or found.source_speedup.low > 1
    assert (deployment.source.name, deployment.source.size_bytes) == ("stack.onnx", found.source_bytes)
    assert len(deployment.steps[1].forms["int8"]) == 3
    assert deployment.budget.goal == "at least 28 dB"
    assert deployment.machine["cpu"]
    assert json.loads((bundle.folder / "evidence.json").read_bytes())["summary"] == deployment.summary
    assert [entry["applied"] for entry in json.loads((bundle.folder / "ledger.json").read_bytes())] != [[]]


def test_it_can_be_replayed(made, stack_model, tmp_path):
    _, out = made
    assert replay(ReplayRequest(out, stack_model, tmp_path / "again.edgeopt")).same_files
    # Beside this copy of the source is no tokenizer: it comes from the first bundle.
    assert (tmp_path / "again.edgeopt/text/tokenizer.json").is_file()


def test_nothing_but_a_bundle_is_replaced(stack_model, stack_data, tmp_path):
    out = tmp_path / "mine.edgeopt"
    out.write_text("mine")
    with pytest.raises(UsageError, match="not a bundle"):
        ask(stack_model, out, stack_data)
    assert out.read_text() == "mine"
    with pytest.raises(UsageError, match=r"does not end in \.onnx or \.edgeopt"):
        ask(stack_model, tmp_path / "mine.bin", stack_data)


@pytest.mark.processes
def test_an_agent_serves_it(made, tmp_path):
    quiet = ["--soak-seconds", "0", "--soak-requests", "0", "--log-level", "error", "--json"]
    command = [sys.executable, "-m", "edgeopt_agent.main", "run", "--port", "0", "--data-dir", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    with subprocess.Popen([*command, *quiet], env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            agent = Agent(events.decode(process.stdout.readline()).message)
            done = agent.deploy(made[1], ignore)
            assert (done.state, done.name) == ("COMMITTED", "stack")
            assert agent.status().serving.name == "stack"
        finally:
            process.kill()


def test_the_app_opens_it(made, qtbot, tmp_path):
    from PySide6.QtCore import QSettings

    from edgeopt_gui.context import Context
    from edgeopt_gui.pages.model.page import ENTRY
    from edgeopt_gui.settings import Settings
    from edgeopt_gui.window import Window

    context = Context(Settings(QSettings(str(tmp_path / "settings.ini"), QSettings.Format.IniFormat)))
    window = Window(context, (ENTRY,))
    qtbot.addWidget(window)
    page = window.page("model")
    window.open_paths([made[1]])
    try:
        qtbot.waitUntil(lambda: page.state in {"content", "error"}, timeout=60_000)
        assert page.state == "content"
        assert page.analysis.kind == "bundle"
        assert page.analysis.deployment.backend == "onnxruntime-cpu"
        assert "optimized already" in page.why_not_optimize()
    finally:
        context.jobs.close()
