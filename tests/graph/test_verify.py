import json

import pytest

from edgeopt.backends import null
from edgeopt.graph.verify import generate_feeds, verify_models
from edgeopt.hw.device import Unavailable


@pytest.fixture
def null_model(folder):
    def write(name, **fields):
        path = folder / f"{name}.null.json"
        inputs = [{"name": "x", "dtype": "float32", "shape": ["batch", 4]}]
        outputs = [{"name": "y", "dtype": "float32", "shape": ["batch", 8]}]
        path.write_text(json.dumps({"inputs": inputs, "outputs": outputs, "behaviour": "mix"} | fields))
        return path

    return write


def test_a_model_agrees_with_itself(null_model):
    path = null_model("source")
    session = null.BACKEND.load(path, {})
    feeds = generate_feeds(session.inputs, None, 3, seed=0)
    assert not isinstance(null.BACKEND.available(), Unavailable)
    assert verify_models(path, path, feeds, null.BACKEND).snr_db == 200.0


def test_another_model_is_told_apart_by_how_much(null_model):
    source, noisy = null_model("source"), null_model("noisy", noise=0.01)
    feeds = generate_feeds(null.BACKEND.load(source, {}).inputs, None, 3, seed=0)
    accuracy = verify_models(source, noisy, feeds, null.BACKEND)
    assert 30 < accuracy.snr_db < 50
    assert len(accuracy.outputs[0].noise_power) == 3
