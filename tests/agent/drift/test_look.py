"""What the worker notes of a request."""

import time

import numpy as np
import pytest

from edgeopt_agent.drift.figures import MAX_TENSORS, STATISTICS
from edgeopt_agent.drift.look import MAX_VALUES, SHARE, TensorSampler, figures_of, open_axes, some_of
from edgeopt_agent.workers.frames import Port


def test_the_statistics_are_those_of_the_finite_values():
    values = np.array([[0.0, 1.0, 3.0, np.nan]], np.float32)
    (found,) = figures_of({"x": values, "text": np.array(["a"], object)}, {})
    told = dict(zip(STATISTICS, found.values, strict=True))
    mean, std = 4 / 3, np.std([0.0, 1.0, 3.0])
    assert told == pytest.approx(
        {"mean": mean, "std": std, "min": 0.0, "max": 3.0, "zeros": 0.25, "not_finite": 0.25}
    )


def test_an_empty_output_has_a_size_and_no_statistics():
    outputs = {"boxes": np.zeros((0, 4), np.float32), "labels": np.zeros(3, object), "rest": np.zeros(0)}
    boxes, labels = figures_of({}, outputs, {"boxes": [0], "labels": [0]})
    assert (boxes.values, boxes.sizes) == ((), {0: 0})
    assert (labels.values, labels.sizes) == ((), {0: 3})


def test_dimensions_of_the_inputs_are_not_those_that_the_model_decides():
    x = Port("x", "float32", ("batch", 3, None))
    outputs = (
        *(Port("y", "float32", ("batch", 10)), Port("boxes", "float32", ("found", None, 4))),
        *(Port("any", "float32", (), rank_known=False), Port("number", "int64", ())),
    )
    axes = {name: list(found) for name, found in open_axes((x,), outputs).items()}
    assert axes == {"y": [], "boxes": [0, 1], "any": list(range(32)), "number": []}
    (found,) = figures_of({}, {"any": np.ones((2, 3))}, axes)
    assert found.sizes == {0: 2, 1: 3}


@pytest.mark.parametrize("value", [np.nan, np.inf, 3e38, 1.7e308])
def test_statistics_are_always_finite(value):
    (found,) = figures_of({}, {"y": np.full((4, 4), value)})
    assert np.isfinite(found.values).all()
    assert found.output


def test_statistics_are_numbers_that_can_be_sent():
    values = np.array([0.0, 1.0, np.nan], np.float32)
    for array in (values, values[:2], values[:1], values[2:]):
        (found,) = figures_of({"x": array}, {})
        assert {type(each) for each in found.values} == {float}


def test_a_tensor_that_cannot_be_looked_at_ends_the_looking_and_nothing_else(capfd):
    class Odd(np.ndarray):
        def reshape(self, *_):
            raise ValueError("an odd tensor")

    sampler = TensorSampler(0.0)
    sampler.take({"x": np.ones(3).view(Odd)}, {})
    sampler.look()
    sampler.take({"x": np.ones(3)}, {})
    sampler.look()
    assert sampler.found() == ()
    assert "an odd tensor" in capfd.readouterr().err


def test_few_values_of_a_large_tensor_come_of_all_its_channels():
    picture = np.zeros((1, 300, 300, 3), np.float32)
    picture[..., 2] = 1.0
    some = some_of(picture)
    assert some.size <= MAX_VALUES
    assert some.mean() == pytest.approx(1 / 3, abs=0.01)


def test_a_part_of_the_tensors_is_looked_at_where_there_are_many():
    many = {f"y{k}": np.ones(3, np.float32) for k in range(40)}
    found = figures_of({"x": np.ones(2, np.float32)}, many)
    assert len(found) == MAX_TENSORS
    assert not found[0].output


def test_looking_takes_no_more_than_its_share_of_the_time():
    sampler = TensorSampler(0.0)
    feeds = {"x": np.random.default_rng(0).random((1, 3, 224, 224), np.float32)}
    looked, spent_s, start_s = 0, 0.0, time.perf_counter()
    while time.perf_counter() - start_s < 0.3:
        sampler.take(feeds, feeds)
        before_s = time.thread_time()
        sampler.look()
        if sampler.found():
            spent_s += time.thread_time() - before_s
            looked += 1
    # The pause of the last one is not over yet; the clock of the sampler has its own noise.
    assert looked >= 1
    assert spent_s * (looked - 1) / looked <= 2 * SHARE * (time.perf_counter() - start_s)


def test_two_looks_are_as_far_apart_as_asked():
    sampler = TensorSampler(3600.0)
    for _ in range(3):
        sampler.take({"x": np.ones(2)}, {})
        sampler.look()
    assert sampler.found()
    sampler.take({"x": np.ones(2)}, {})
    sampler.look()
    assert not sampler.found()
