"""A model that eight bits make faster, with data for it, and the answers of a request."""

import numpy as np
import pytest

from edgeopt.graph.model import load
from edgeopt.quant.layers import find_layers
from edgeopt.quant.measured.records import QuantizeRequest
from edgeopt.quant.measured.sample_sets import ModelRuns, read_samples
from edgeopt.quant.measured.study import begin
from edgeopt.quant.records import QuantSettings
from tests.conftest import seeded, write_onnx

ROWS, WIDTH = 64, 512


@pytest.fixture(scope="session")
def stack_model(models):
    """Three products, wide enough that a kernel takes longer than what surrounds it."""
    nodes = [
        ("MatMul", ["x", "first"], ["a"], {}),
        ("Relu", ["a"], ["b"], {}),
        ("MatMul", ["b", "second"], ["c"], {}),
        ("Relu", ["c"], ["d"], {}),
        ("MatMul", ["d", "third"], ["y"], {}),
    ]
    weights = {name: seeded(WIDTH, WIDTH, seed=k) for k, name in enumerate(("first", "second", "third"))}
    return write_onnx(models / "stack.onnx", nodes, weights, {"x": [ROWS, WIDTH]}, {"y": [ROWS, WIDTH]})


@pytest.fixture(scope="session")
def stack_data(models):
    path = models / "stack.npz"
    np.savez(path, x=np.random.default_rng(7).standard_normal((24, ROWS, WIDTH)).astype(np.float32))
    return path


@pytest.fixture(scope="session")
def stack_layers(stack_model):
    return find_layers(load(stack_model).ir, {"x": (ROWS, WIDTH)})


def answers_of(model, data):
    """The samples, and what the source answers to those that plan and prove."""
    with ModelRuns() as runs:
        inputs = runs.inputs(model)
        given = read_samples(QuantizeRequest(model, data=data), inputs, None, calibrates=True)
        return given, runs.reference(model, given)


@pytest.fixture(scope="session")
def stack_answers(stack_model, stack_data):
    return answers_of(stack_model, stack_data)


@pytest.fixture
def study(stack_model, stack_answers, tmp_path):
    given, reference = stack_answers
    return begin(load(stack_model).ir, given, reference, QuantSettings(), tmp_path / "study")
