import numpy as np
import pytest

from edgeopt.backends.base import TensorInfo
from edgeopt.data.judging.metrics import labels_for, metric_named
from edgeopt.data.read import load_data
from edgeopt.errors import DataError

TOP1 = metric_named("top1-labels")


@pytest.fixture
def read(tmp_path):
    """Writes data of six samples with these arrays beside the input, and reads the labels from it."""

    def write(name="", metric=TOP1, folder=False, **arrays):
        arrays = {"x": np.zeros((6, 2), np.float32), **arrays}
        path = tmp_path / "data"
        if folder:
            path.mkdir()
            for each, array in arrays.items():
                np.save(path / f"{each}.npy", array)
        else:
            path = tmp_path / "data.npz"
            np.savez(path, **arrays)
        samples = load_data(path, (TensorInfo("x", "float32", (None, 2)),))
        return labels_for(metric, path, samples, name)

    return write


@pytest.mark.parametrize("name", ["label", "labels"])
@pytest.mark.parametrize("folder", [False, True])
def test_labels_are_found_by_their_usual_names(read, name, folder):
    assert read(folder=folder, **{name: np.arange(6)}).tolist() == [0, 1, 2, 3, 4, 5]


def test_another_name_can_be_given(read):
    assert read("truth", truth=np.ones(6), label=np.zeros(6)).tolist() == [1] * 6


def test_floats_that_are_whole_numbers_will_do(read):
    assert read(label=np.arange(6.0)[:, None]).dtype.kind == "i"


def test_a_metric_that_takes_no_labels_gets_none(read):
    assert read(metric=metric_named("top1"), label=np.arange(6)) is None


def test_a_metric_of_the_users_own_gets_whatever_there_is(read, tmp_path):
    (tmp_path / "mine.py").write_text("def score(outputs, reference, labels):\n    return 1\n")
    mine = metric_named(f"{tmp_path / 'mine.py'}:score")
    assert read(metric=mine, label=np.array(list("abcdef"))).tolist() == list("abcdef")
    assert read(metric=mine) is None


WRONG = (
    ("", {}, "no array 'label' or 'labels'; it has only the model's inputs"),
    ("", {"truth": np.zeros(6)}, "besides the inputs it has 'truth'"),
    ("truth", {"label": np.zeros(6)}, "no array 'truth'; besides the inputs it has 'label'"),
    ("x", {"label": np.zeros(6)}, "'x' is an input of the model"),
    ("", {"label": np.zeros(5)}, "holds 5 labels for 6 samples"),
    ("", {"label": np.array(3)}, "for 6 samples"),
    ("", {"label": np.array(list("abcdef"))}, "not numbers"),
    ("", {"label": np.full(6, 0.5)}, "not all whole numbers from 0"),
    ("", {"label": np.full(6, np.nan)}, "not all whole numbers from 0"),
    ("", {"label": np.full(6, -1)}, "not all whole numbers from 0"),
)


@pytest.mark.parametrize(("name", "arrays", "said"), WRONG)
def test_labels_that_are_missing_or_wrong_are_said(read, name, arrays, said):
    with pytest.raises(DataError, match=said) as raised:
        read(name, **arrays)
    assert raised.value.hint
