"""A way to run a float model and its quantized variant, and to compare them."""

import numpy as np
import pytest

from edgeopt.backends import backend_named
from edgeopt.data.samples import Samples
from edgeopt.graph.accuracy import compare_outputs

EQUAL_DB = 150.0


@pytest.fixture(scope="session")
def conv_samples():
    images = np.random.default_rng(5).standard_normal((24, 3, 16, 16)).astype(np.float32)
    return Samples({"x": images}, {"x": 4})


@pytest.fixture
def answers():
    """What a model file answers to single samples, and to a batch of three of them."""

    def run(path, samples, backend="onnxruntime-cpu"):
        session = backend_named(backend).load(path, {})
        try:
            single = [session.run(samples.feeds(k)) for k in range(len(samples))]
            batch = session.run({name: array[:3] for name, array in samples.arrays.items()})
        finally:
            session.close()
        return single, batch

    return run


@pytest.fixture
def sound(answers):
    """Loads both files, checks the batch, and returns the variant's signal-to-noise ratio."""

    def compare(model, variant, samples, backend="onnxruntime-cpu"):
        wanted, _ = answers(model, samples)
        got, batch = answers(variant, samples, backend)
        apart = np.concatenate([run["y"] for run in got[:3]])
        assert batch["y"].shape == apart.shape
        accuracy = compare_outputs(wanted, got)
        assert accuracy.problem is None
        assert accuracy.snr_db < EQUAL_DB, "nothing was quantized"
        return accuracy.snr_db

    return compare
