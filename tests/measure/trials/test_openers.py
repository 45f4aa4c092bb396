import numpy as np
import pytest

from edgeopt.errors import UsageError
from edgeopt.measure.trials.openers import answers, in_batches

SAMPLES = [{"x": np.float32([[k, k]])} for k in range(5)]


def doubled(feeds):
    return {"y": 2 * feeds["x"]}


def test_batches_are_made_of_different_samples_and_go_on_with_the_first():
    found = in_batches(SAMPLES, 4)
    assert [each["x"][:, 0].tolist() for each in found] == [[0, 1, 2, 3], [4, 0, 1, 2]]
    assert in_batches(SAMPLES, 1) == SAMPLES


def test_each_sample_has_an_answer_of_its_own_all_the_same():
    asked = []
    found = answers(lambda feeds: asked.append(len(feeds["x"])) or doubled(feeds), SAMPLES, 4)
    assert asked == [4, 4]
    assert [each["y"].tolist() for each in found] == [[[2 * k, 2 * k]] for k in range(5)]


def test_what_is_no_row_for_each_sample_cannot_be_taken_apart():
    with pytest.raises(UsageError, match="'y' of 2 samples together has the shape"):
        answers(lambda feeds: {"y": feeds["x"].sum(keepdims=True)}, SAMPLES, 2)
