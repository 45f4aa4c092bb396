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


@pytest.fixture(scope="session")
def row_samples():
    return Samples({"x": np.random.default_rng(6).standard_normal((24, 32)).astype(np.float32)}, {"x": 2})


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


@pytest.fixture
def stored_types():
    """How many weights of each type a file holds, without the vectors."""

    def count(path):
        import onnx

        types = [onnx.TensorProto.DataType.Name(w.data_type) for w in onnx.load(path).graph.initializer
                 if len(w.dims) > 1]  # fmt: skip
        return {name: types.count(name) for name in set(types)}

    return count


@pytest.fixture
def ir_types():
    """The types of the larger constants of an OpenVINO model."""

    def found(path):
        import openvino

        constants = [n for n in openvino.Core().read_model(path).get_ops() if n.get_type_name() == "Constant"]
        return {
            str(node.get_output_element_type(0).get_type_name())
            for node in constants
            if np.prod(node.get_output_shape(0)) >= 64
        }

    return found
