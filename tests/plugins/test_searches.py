"""Plug-ins in whole searches: good ones are candidates like others, and bad ones lose with their reason."""

import sys
from pathlib import Path

import numpy as np
import pytest

import edgeopt
from edgeopt.bundle.read import read_bundle
from edgeopt.commands.optimize import optimize
from edgeopt.errors import MissingError
from edgeopt.pipeline.outcome import in_order
from tests.conftest import limited, still

PROFILE = still(
    """
name = "plugged"
title = "The source model alone"
extends = "generic-cpu"
[precision]
ladder = ["source"]
[backends]
order = ["onnxruntime-cpu"]
"""
)

CRASH = "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)"
SHORTEN = """
import onnx
from pathlib import Path


def halve(path, out, samples, factor=0.5, names=("x", "y")):
    shape = [1, 4096]
    ports = [onnx.helper.make_tensor_value_info(name, 1, shape) for name in names]
    weight = onnx.numpy_helper.from_array(__import__("numpy").float32([factor]), "factor")
    node = onnx.helper.make_node("Mul", [names[0], "factor"], [names[1]])
    graph = onnx.helper.make_graph([node], "g", ports[:1], ports[1:], [weight])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), out)
    return f"one product instead, with {len(samples)} samples seen"
"""
PAIRS = """
from edgeopt.graph.passes.base import Notes, Pass, is_op, nodes_of, replace_value


def cancel(model, context):
    model, notes = context.copy(model), Notes()
    for node in list(nodes_of(model)):
        inner = node.inputs[0].producer() if is_op(node, "Tanh") else None
        if inner is not None and is_op(inner, "Atanh") and replace_value(node.outputs[0], inner.inputs[0]) is None:
            node.graph.remove(node, safe=True)
            inner.graph.remove(inner, safe=True)
            notes.did("Tanh(Atanh(x)) is x")
    print("a pass that talks")
    return notes.result(model)


CANCEL = Pass("whatever", "cancels", cancel, tolerance_db=60.0)
"""
RUNNER = """
import numpy as np
from edgeopt.backends.base import Backend, Available, Coverage, TensorInfo
from edgeopt.backends.null import NullOptions


class Session:
    inputs = (TensorInfo("x", "float32", (1, 4096)),)
    outputs = (TensorInfo("y", "float32", (1, 4096)),)
    placement = None

    def run(self, feeds):
        return {"y": ANSWER}

    def close(self):
        pass


def load(path, options, *, strict=False, custom_ops=()):
    LOAD
    return Session()


HERE, ALL = Available("1"), Coverage(1, 1)
RUNNER = Backend("whatever", "runs", (".onnx",), lambda: HERE, lambda path: ALL, load, NullOptions)
"""


def runner(answer='feeds["x"] * np.float32(0.5)', load="print('a backend that talks')"):
    return RUNNER.replace("ANSWER", answer).replace("LOAD", load)


@pytest.fixture
def searched(tmp_path, halving, halving_data):
    """A search for a few seconds; its outcome, and what each variant and candidate came to."""

    def search(seconds=12.0, **options):
        profile = tmp_path / "plugged.toml"
        profile.write_text(limited(PROFILE, 40, seconds))
        outcome = optimize(
            halving, tmp_path / "out.edgeopt", data=halving_data, profile=profile, time_limit_s=seconds, **options
        )
        unmade = {one.name: one.failure for one in outcome.variants if one.failure}
        raced = {one.candidate.name: one for one in in_order(outcome)}
        return outcome, unmade, raced

    return search


def test_plugins_are_candidates_and_bad_ones_say_why_they_lost(
    plant, searched, no_plugin_code, capfd, monkeypatch
):
    plant("good-pass", PAIRS, ("pass", "cancel", ":CANCEL"))
    plant("good-recipe", SHORTEN, ("recipe", "halve", ":halve", "needs_data = true"))
    slow = runner(load="import time; Session.run = lambda self, f: (time.sleep(0.02), {'y': f['x'] / 2})[1]")
    plant("slow-runner", slow, ("backend", "numpy", ":RUNNER"))
    plant("crashing", CRASH, ("pass", "now", ":X"))
    plant("newer", "", ("pass", "soon", ":X"), interface=2)
    plant("needy", "", ("backend", "gpu", ":X"), needs=["no-such-package"])
    outcome, unmade, raced = searched()
    assert capfd.readouterr().out == ""
    assert unmade["crashing.now"] == "crashed: SIGSEGV"
    assert unmade["newer.soon"].endswith(
        "it is for version 2 of the plug-in interface, and this edgeopt has version 1"
    )
    assert any("needs no-such-package, which is not installed" in said for said in outcome.warnings)
    assert outcome.winner.variant in {"good-pass.cancel", "good-recipe.halve"}
    assert outcome.winner.backend == "onnxruntime-cpu"
    loser = next(one for name, one in raced.items() if name.endswith("source · slow-runner.numpy"))
    assert loser.status == "lost"
    assert loser.accuracy_db > 100
    monkeypatch.setattr(sys, "path", [place for place in sys.path if "/site/" not in place])
    with pytest.raises(ModuleNotFoundError):
        __import__("good_recipe")
    x = np.float32([[0.5] * 4096])
    with edgeopt.load(outcome.bundle) as session:
        assert session.run({"x": x})["y"] == pytest.approx(x / 2, abs=1e-5)


def test_search_without_plugins_tries_none(plant, searched, no_plugin_code):
    plant("crashing", CRASH, ("pass", "now", ":X"), ("backend", "too", ":X"))
    outcome, unmade, raced = searched(3.0, plugins=False)
    assert (set(unmade), set(raced)) == (set(), {"source · onnxruntime-cpu"})
    assert outcome.verdict != "faster"


_SAVE = "def make(path, out, samples):\n    "


@pytest.mark.slow
@pytest.mark.processes
def test_faults_of_plugins_are_told_and_the_search_has_its_usual_winner(plant, searched, no_plugin_code, capfd):
    plant("hanging", "import time\ntime.sleep(600)", ("pass", "slow", ":X"))
    plant("leaving", "import sys\nsys.exit(3)", ("pass", "exit", ":X"))
    plant("wrong", SHORTEN + "make = lambda p, o, s: halve(p, o, s, 0.4)", ("recipe", "values", ":make"))
    plant(
        "other", SHORTEN + "make = lambda p, o, s: halve(p, o, s, names=('z', 'y'))", ("recipe", "inputs", ":make")
    )
    plant("garbage", _SAVE + "out.write_bytes(b'no model at all')", ("recipe", "bytes", ":make"))
    plant("nothing", _SAVE + "return ''", ("recipe", "done", ":make"))
    plant("raising", _SAVE + "raise ValueError('no luck')", ("recipe", "now", ":make"))
    plant("untyped", "X = 3", ("pass", "number", ":X"), ("backend", "figure", ":X"))
    wait = "import time; Session.run = lambda self, feeds: time.sleep(600)"
    plant("waiting", runner(load=wait), ("backend", "run", ":RUNNER"))
    plant("crashing", runner(load=CRASH.replace("\n", "; ")), ("backend", "load", ":RUNNER"))
    plant("false", runner('feeds["x"]'), ("backend", "values", ":RUNNER"))
    plant("plain", runner("3"), ("backend", "number", ":RUNNER"))
    outcome, unmade, raced = searched(60.0)
    assert capfd.readouterr().out == ""
    expected = {
        "hanging.slow": "it was not ready after 10 s, the limit of a plug-in",
        "leaving.exit": "ended with exit code 1",
        "other.inputs": "it changed the inputs from x to z",
        "garbage.bytes": "model.onnx",
        "nothing.done": "it wrote no model.onnx",
        "raising.now": "it failed with ValueError: no luck",
        "untyped.number": "offers 'untyped.number' as a pass, which is a int",
    }
    assert {name: said in unmade[name] for name, said in expected.items()} == dict.fromkeys(expected, True), unmade
    reasons = {name.replace("source · ", ""): one.reason for name, one in raced.items() if "source" in name}
    assert raced["wrong.values · onnxruntime-cpu"].status == "below the floor"
    assert "SIGSEGV" in reasons["crashing.load"]
    assert "hung" in reasons["waiting.run"]
    assert raced["source · false.values"].status == "below the floor"
    assert "which is a int" in reasons["untyped.figure"]
    assert raced["source · plain.number"].status == "failed"
    assert outcome.winner.variant == "source"
    assert outcome.winner.backend == "onnxruntime-cpu"


@pytest.mark.slow
@pytest.mark.processes
def test_bundle_of_a_plugin_backend_says_what_it_needs(plant, searched, no_plugin_code, monkeypatch):
    plant("good-runner", runner(), ("backend", "numpy", ":RUNNER"))
    outcome, _, _ = searched()
    assert outcome.winner.backend == "good-runner.numpy"
    assert read_bundle(Path(outcome.bundle)).deployment.run.plugin == "good-runner 1.0"
    monkeypatch.setattr(sys, "path", [place for place in sys.path if "/site/" not in place])
    with pytest.raises(MissingError, match=r"needs the plug-in good-runner 1\.0, which is not installed"):
        edgeopt.load(outcome.bundle, fallback=False)
