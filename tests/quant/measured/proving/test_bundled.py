import json
import os
import subprocess
import sys

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

import numpy as np
import pytest

import edgeopt
from edgeopt import events
from edgeopt.bundle.read import read_bundle
from edgeopt.bundle.runtime.check import check
from edgeopt.commands.quantize.quantize import quantize_model
from edgeopt.commands.replay.replay import replay
from edgeopt.commands.replay.request import ReplayRequest
from edgeopt.errors import UsageError
from edgeopt.events import ignore
from edgeopt.fleet.client import Agent
from edgeopt.graph.accuracy import compare_outputs
from edgeopt.quant.measured.records import QuantizeRequest


def ask(model, out, data, **wishes):
    options = {"threads": 1}
    given = {"method": "int8", "backend": "onnxruntime-cpu", "options": options, "time_limit_s": 8.0}
    return quantize_model(QuantizeRequest(model, out, data, **given, **wishes))


@pytest.fixture(scope="module")
def made(stack_model, stack_data, tmp_path_factory):
    out = tmp_path_factory.mktemp("made") / "stack.edgeopt"
    return ask(stack_model, out, stack_data, check_targets=("cpu-avx2",), single_file=True), out


def test_the_bundle_runs_as_the_result_was_proved(made, stack_data):
    found, out = made
    bundle = read_bundle(out)
    assert found.files[0].path == str(out)
    assert bundle.deployment.run.backend == "onnxruntime-cpu"
    assert bundle.deployment.run.options == {"threads": 1}
    assert out.is_file()
    assert [file.name for file in (bundle.folder / "model").iterdir()] == ["stack.onnx"]
    check(out, ignore)
    samples = np.load(stack_data)["x"][-found.proof.samples :]
    with edgeopt.load(out) as session:
        answers = [session.run({"x": x}) for x in samples[:4]]
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
    assert evidence.verdict == ("faster" if found.source_speedup.low > 1 else "not proved faster")
    assert (deployment.source.name, deployment.source.size_bytes) == ("stack.onnx", found.source_bytes)
    assert len(deployment.steps[1].forms["int8"]) == 3
    assert deployment.budget.goal == "at least 30 dB (transparent)"
    assert deployment.machine["cpu"]
    assert json.loads((bundle.folder / "evidence.json").read_bytes())["summary"] == deployment.summary
    assert [entry["applied"] for entry in json.loads((bundle.folder / "ledger.json").read_bytes())] != [[]]


def test_it_can_be_replayed(made, stack_model, tmp_path):
    _, out = made
    assert replay(ReplayRequest(out, stack_model, tmp_path / "again.edgeopt")).same_files


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
