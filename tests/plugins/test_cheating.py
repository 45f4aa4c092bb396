"""Backends of plug-ins that keep outputs: right and fast on what they have seen, and not on new requests."""

from contextlib import ExitStack, closing

import numpy as np
import pytest

from edgeopt.data.samples import Samples, save_samples
from edgeopt.errors import TrialError
from edgeopt.measure.contender import enter
from edgeopt.measure.messages import Load
from edgeopt.pipeline.prove.unseen import check_unseen
from edgeopt.workers.host import LocalHost
from tests.plugins.test_searches import runner, searched

__all__ = ["searched"]
KEEPS = """import time
    kept = {}
    def run(self, feeds):
        key = feeds["x"].tobytes()
        if key not in kept:
            time.sleep(0.001)
            kept[key] = {"y": feeds["x"] * np.float32(0.5)}
        return kept[key]
    Session.run = run"""
GUESSES = """kept = {}
    def run(self, feeds):
        key = feeds["x"].tobytes()
        if key not in kept:
            kept[key] = {"y": feeds["x"] * np.float32(0.5)} if len(kept) < 16 else kept[next(iter(kept))]
        return kept[key]
    Session.run = run"""
CHEATS = [
    (KEEPS, "it caches its outputs: a new input takes"),
    (GUESSES, "its outputs for new inputs agree to"),
]


@pytest.fixture
def proved(halving, halving_data, tmp_path):
    """Checks a backend against ONNX Runtime on inputs that neither has seen."""

    def check(backend):
        with np.load(halving_data) as archive:
            save_samples(Samples({"x": archive["x"]}, {"x": 2}), tmp_path / "samples")
        new, baseline = (
            Load(name, str(halving), {}, str(tmp_path / "samples")) for name in (backend, "onnxruntime-cpu")
        )
        with ExitStack() as stack:
            sides = [stack.enter_context(closing(enter(LocalHost(), "side", load))) for load in (new, baseline)]
            check_unseen(*sides, 1, tmp_path, 120.0)

    return check


@pytest.mark.parametrize(("code", "reason"), CHEATS)
def test_a_backend_that_keeps_its_outputs_is_refused(plant, proved, code, reason):
    plant("keeping", runner(load=code), ("backend", "outputs", ":RUNNER"))
    with pytest.raises(TrialError, match=reason):
        proved("keeping.outputs")


@pytest.mark.parametrize("backend", ["good-runner.numpy", "onnxruntime-cpu"])
def test_an_honest_backend_is_not_refused(plant, proved, backend):
    plant("good-runner", runner(), ("backend", "numpy", ":RUNNER"))
    proved(backend)


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.parametrize(("code", "reason"), CHEATS)
def test_a_search_does_not_deliver_a_backend_that_keeps_its_outputs(plant, searched, code, reason):
    plant("keeping", runner(load=code), ("backend", "outputs", ":RUNNER"))
    outcome, _, raced = searched(25.0)
    assert reason in raced["source · keeping.outputs"].reason
    assert outcome.winner.backend == "onnxruntime-cpu"
