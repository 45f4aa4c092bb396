"""Plans for boards that are not here, from their records: the built-in sample, and what its bundles say."""

import io
import json
import shutil
from contextlib import redirect_stdout
from pathlib import Path

import msgspec
import numpy as np
import pytest
from rich.console import Console

from edgeopt.bundle.golden import answer_golden
from edgeopt.bundle.read import read_bundle
from edgeopt.bundle.runtime.check import check
from edgeopt.bundle.runtime.session import load
from edgeopt.cli.main import run
from edgeopt.cli.optimize import show_plan
from edgeopt.commands.analyze.analyze import deployment_row
from edgeopt.commands.predict.latency import Latency
from edgeopt.commands.predict.plan import optimize_for, ranked
from edgeopt.commands.predict.records import PredictedOutcome
from edgeopt.commands.predict.variants import PredictedVariant
from edgeopt.data import demo as samples
from edgeopt.errors import UsageError
from edgeopt.events import Result, ignore
from edgeopt.graph.accuracy import compare_outputs
from edgeopt.pipeline.outcome import Candidate
from edgeopt.pipeline.request import OptimizeRequest
from edgeopt.profiles import shipped_profiles
from edgeopt.quant.inventory import inventory_of
from edgeopt.views.terminal import write
from tests.commands.predict.conftest import ORIN, PI_5


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("plans")


@pytest.fixture(scope="module")
def pi_5_plan(folder, pi_5_with_peaks):
    record = folder / "pi5.json"
    record.write_bytes(msgspec.json.encode(Result("probe", msgspec.to_builtins(pi_5_with_peaks))) + b"\n")
    data = folder / "data.npz"
    with np.load(samples.DATA) as held:
        np.savez(data, **{name: held[name][:48] for name in held.files})
    model = Path(shutil.copy(samples.MODEL, folder))
    tokenizer = model.with_suffix(".text") / "tokenizer.json"
    tokenizer.parent.mkdir()
    tokenizer.write_text("{}")
    return optimize_for(OptimizeRequest(model, folder / "pi5.edgeopt", data), record)


@pytest.fixture(scope="module")
def orin_plan(folder):
    """As the command line makes it, and tells it to programs."""
    told = io.StringIO()
    with redirect_stdout(told):
        assert run([*command(folder / "orin.edgeopt"), "--json"]) == 0
    event = json.loads(told.getvalue().splitlines()[-1])
    assert event["kind"] == "optimize-device"
    return msgspec.convert(event["data"], PredictedOutcome)


def command(out):
    return ["optimize", str(samples.MODEL), "-o", str(out), "--device", str(ORIN)]


def test_a_plan_for_a_pi_5_predicts_and_never_says_measured(pi_5_plan):
    assert (pi_5_plan.verdict, pi_5_plan.target) == ("predicted", "arm-dotprod")
    assert pi_5_plan.summary.startswith("Predicted, not measured: ")
    assert pi_5_plan.latency.predicted_ms < pi_5_plan.baseline_ms
    assert pi_5_plan.speedup == pytest.approx(pi_5_plan.baseline_ms / pi_5_plan.latency.predicted_ms)
    times = [row.latency.predicted_ms for row in pi_5_plan.candidates if row.status in {"chosen", "behind"}]
    assert times == sorted(times)
    assert any("must be installed on the device" in warning for warning in pi_5_plan.warnings)


def test_its_accuracy_is_real_and_kept(pi_5_plan):
    assert pi_5_plan.accuracy_db >= pi_5_plan.floor_db
    assert (pi_5_plan.samples, pi_5_plan.set_aside) == (12, True)
    rounded = [row for row in pi_5_plan.candidates if row.candidate.variant == "int8"]
    # The sample does not stand eight bits everywhere: some layers are given back, or it is out.
    assert rounded
    assert all("kept float" in row.reason or row.status == "below the floor" for row in rounded)


def test_its_eight_bits_are_those_of_the_target(folder, pi_5_plan):
    from edgeopt.graph.model import load as load_model

    bundle = read_bundle(folder / "pi5.edgeopt")
    assert (bundle.folder / "text/tokenizer.json").read_text() == "{}"
    last = bundle.deployment.steps[-1]
    wanted = next(p for p in shipped_profiles() if p.name == "arm-dotprod").quantization
    assert last.recipe == pi_5_plan.winner.variant == "int8"
    assert last.parameters["activation_type"] == wanted.activation_type
    assert bundle.deployment.quantization is not None  # so that the device can make and measure it again
    assert set(inventory_of(load_model(bundle.model).ir).activation_types) == {wanted.activation_type}


def test_its_bundle_says_what_it_is_and_runs(folder, pi_5_plan):
    bundle = read_bundle(folder / "pi5.edgeopt")
    told = bundle.deployment.predicted
    assert bundle.deployment.evidence is None
    assert (told.verdict, told.floor_db) == ("predicted", 30.0)
    assert told.latency_low_ms < told.latency_ms < told.latency_high_ms
    assert "edgeopt optimize digits_cnn.onnx --data data.npz" in told.finish[0]
    row = deployment_row(bundle.deployment)
    assert (row.verdict, row.latency_ms, row.speedup) == ("predicted", None, None)
    with load(folder / "pi5.edgeopt") as session:
        assert session.backend == "onnxruntime-cpu"
        answer = answer_golden(bundle, session)
    assert answer.sentence("it") is None
    assert answer.floor_db > 20
    assert compare_outputs(bundle.golden("reference"), bundle.golden("outputs")).snr_db > 25
    assert json.loads((folder / "pi5.edgeopt" / "prediction.json").read_text())["verdict"] == "predicted"


def test_verifying_it_does_not_say_proved(folder, pi_5_plan):
    found = check(folder / "pi5.edgeopt", ignore)
    assert found.predicted
    assert "not measured" in found.evidence


def test_a_plan_for_an_orin_follows_its_profile_and_predicts_no_time(folder, orin_plan):
    assert (orin_plan.target, orin_plan.latency, orin_plan.speedup) == ("gpu-tensorrt", None, None)
    assert orin_plan.winner.backend == "onnxruntime-tensorrt"
    assert orin_plan.basis.startswith("No latency can be predicted: ")
    assert {row.candidate.variant for row in orin_plan.candidates} == {"source", "cleaned", "fp16"}
    assert any("is judged" in warning or "are judged" in warning for warning in orin_plan.warnings)
    told = read_bundle(folder / "orin.edgeopt").deployment
    assert told.predicted.device.startswith("NVIDIA Jetson Orin")
    assert (told.predicted.latency_ms, told.predicted.judged_with) == (None, "onnxruntime-cpu")


@pytest.mark.parametrize("board", ["pi5", "orin"])
def test_people_are_told_that_nothing_was_measured_and_how_to_finish(board, pi_5_plan, orin_plan):
    console = Console(file=io.StringIO(), width=200)
    write(show_plan({"pi5": pi_5_plan, "orin": orin_plan}[board]), console)
    text = console.file.getvalue()
    assert ("Predicted, not measured: " in text) == (board == "pi5")
    assert ("Planned, not measured: " in text) == (board == "orin")
    assert ("No latency can be predicted" in text) == (board == "orin")
    assert (" ms " in text) == (board == "pi5")
    assert f"edgeopt replay {board}.edgeopt digits_cnn.onnx" in text


def test_what_only_measuring_could_keep_is_refused(tmp_path, capsys):
    assert run([*command(tmp_path / "orin.edgeopt"), "--time-limit", "30", "--json"]) == 2
    error = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert "--time-limit" in error["message"]
    assert list(tmp_path.iterdir()) == []


def test_a_target_that_its_record_cannot_run_is_refused(folder):
    with pytest.raises(UsageError, match="There is no target"):
        optimize_for(OptimizeRequest(samples.MODEL, folder / "none.edgeopt", target="gpu-tensor"), PI_5)
    assert not Path(folder / "none.edgeopt").exists()


LADDER = ("source", "cleaned", "int8-groups", "int8", "w8")
CPU, GPU = "onnxruntime-cpu", "onnxruntime-cuda"


def made(*names, backend=CPU):
    return [PredictedVariant(Candidate(name, backend), Path("model.onnx")) for name in names]


def taking(ms):
    return Latency(ms, ms / 2, ms * 2, 0.5, "")


def order(found):
    return [place.made.candidate.variant for place in found.places]


def test_the_quickest_as_predicted_comes_first():
    found = ranked(made("source", "cleaned", "int8"), (CPU,), LADDER, {0: taking(3), 1: taking(1), 2: taking(2)})
    assert found.by_time
    assert order(found) == ["cleaned", "int8", "source"]


def test_without_predictions_the_ladder_decides():
    some = made("source", "cleaned", "w8", "int8", "int8-groups")
    found = ranked(some, (CPU,), LADDER, dict.fromkeys(range(5), "no peaks"))
    assert not found.by_time
    # What saves memory alone comes behind what saves time for sure.
    assert order(found) == ["int8-groups", "int8", "cleaned", "w8", "source"]


def test_fewer_bits_that_may_gain_nothing_are_not_risked_unmeasured():
    some = made("cleaned", "int8")
    some[1].doubt = "this processor has no instruction for products of bytes"
    assert order(ranked(some, (CPU,), LADDER, dict.fromkeys(range(2), "no peaks"))) == ["cleaned", "int8"]
    assert order(ranked(some, (CPU,), LADDER, {0: taking(2), 1: taking(1)})) == ["int8", "cleaned"]


def test_one_time_that_is_not_known_leaves_it_to_the_order_of_the_profile():
    some = [*made("cleaned"), *made("cleaned", backend=GPU)]
    found = ranked(some, (GPU, CPU), LADDER, {0: taking(1), 1: "not the processor"})
    assert [place.made.candidate.backend for place in found.in_line()] == [GPU, CPU]


@pytest.mark.parametrize("below", [True, False])
def test_what_is_out_is_last_and_not_in_line(below):
    some = made("source", "int8")
    some[1].failure, some[1].below = "12 dB", below
    found = ranked(some, (CPU,), LADDER, {0: taking(2), 1: taking(1)})
    assert order(found) == ["source", "int8"]
    assert [place.made.candidate.variant for place in found.in_line()] == ["source"]
