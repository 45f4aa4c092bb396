import json

import pytest

from edgeopt.backends import null
from edgeopt.backends.base import run_all
from edgeopt.graph.accuracy import compare_outputs
from edgeopt.graph.feeds import generate_feeds
from edgeopt.hw.device import Unavailable


@pytest.fixture
def null_model(tmp_path):
    def write(name, **fields):
        path = tmp_path / f"{name}.null.json"
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
    answers = run_all(path, feeds, null.BACKEND)
    assert compare_outputs(answers, run_all(path, feeds, null.BACKEND)).snr_db == 200.0


def test_another_model_is_told_apart_by_how_much(null_model):
    source, noisy = null_model("source"), null_model("noisy", noise=0.01)
    feeds = generate_feeds(null.BACKEND.load(source, {}).inputs, None, 3, seed=0)
    accuracy = compare_outputs(run_all(source, feeds, null.BACKEND), run_all(noisy, feeds, null.BACKEND))
    assert 30 < accuracy.snr_db < 50
    assert len(accuracy.outputs[0].noise_power) == 3
