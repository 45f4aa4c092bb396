import numpy as np
import pytest

from edgeopt.backends.base import TensorInfo
from edgeopt.data.judging.goals import Goal, goal_from
from edgeopt.errors import DataError
from edgeopt.quant.measured.given import read_given
from edgeopt.quant.measured.records import QuantizeRequest

DEFAULT = Goal()
INPUTS = (TensorInfo("x", "float32", ("batch", 4)),)


def given_of(path, samples, goal=DEFAULT, most=None, calibrates=True, **more):
    data = path / "data.npz"
    np.savez(data, x=np.random.default_rng(0).standard_normal((samples, 4)).astype(np.float32), **more)
    request = QuantizeRequest(path / "model.onnx", data=data, goal=goal, samples=most)
    return read_given(request, INPUTS, None, calibrates)


def test_no_sample_does_two_things(tmp_path):
    given = given_of(tmp_path, 48)

    parts = [set(given.calibrate), set(given.plan), set(given.prove)]
    assert not parts[0] & parts[1]
    assert not parts[1] & parts[2]
    assert not parts[0] & parts[2]
    assert set().union(*parts) == set(range(48))
    assert (given.use.calibrated, given.use.planned, given.use.proved) == (24, 12, 12)
    assert not given.use.shared
    assert given.use.given == 48


def test_the_last_samples_prove(tmp_path):
    given = given_of(tmp_path, 200)

    assert given.prove == range(184, 200)
    assert given.plan.stop <= given.prove.start


def test_counted_answers_are_proved_on_many(tmp_path):
    """One answer in sixteen is six points: a drop of half a point needs hundreds."""
    goal = goal_from("top1-labels", None, "0.4%")
    given = given_of(tmp_path, 500, goal, label=np.arange(500) % 3)

    assert len(given.prove) >= 200
    assert given.labels_of(given.prove).tolist() == [k % 3 for k in given.prove]


def test_fewer_calibrate_on_request(tmp_path):
    given = given_of(tmp_path, 48, most=5)

    assert given.calibrate == range(5)
    assert given.plan.start >= 5


def test_too_few_samples_are_shared_and_it_is_said(tmp_path):
    given = given_of(tmp_path, 6)

    assert given.use.shared
    assert len(given.prove)
    assert any("6 samples" in warning for warning in given.warnings)


def test_one_sample_cannot_calibrate(tmp_path):
    with pytest.raises(DataError, match="one sample"):
        given_of(tmp_path, 1)


def test_one_sample_can_judge_what_calibrates_nothing(tmp_path):
    assert len(given_of(tmp_path, 1, calibrates=False).prove) == 1


def test_without_data_inputs_are_made_up(stack_model):
    inputs = (TensorInfo("x", "float32", (64, 512)),)
    given = read_given(QuantizeRequest(stack_model), inputs, None, False)

    assert given.use.generated
    assert not len(given.calibrate)
    assert given.samples.feeds(given.prove[0])["x"].shape == (64, 512)
    for which in (given.plan, given.prove):
        loudness = [level for (level,) in given.levels.of(which)]
        assert len(which) > 8
        assert min(loudness) == 0
        assert any(0 < level < 1e-4 for level in loudness)
        assert sum(level > 0.5 for level in loudness) >= 8
    assert not np.array_equal(given.feeds(given.plan)[0]["x"], given.feeds(given.prove)[0]["x"])


def test_labels_cannot_be_made_up(stack_model):
    request = QuantizeRequest(stack_model, goal=goal_from("top1-labels", None, "1%"))
    with pytest.raises(DataError, match="needs labels"):
        read_given(request, INPUTS, None, False)
