"""The table of bad data: a sentence with a next step for each row, and exit code 3, before any long work."""

import numpy as np
import pytest

from edgeopt.backends.base import TensorInfo
from edgeopt.data.read import load_data
from edgeopt.data.samples import Samples, check_samples, from_feeds
from edgeopt.errors import DataError
from edgeopt.quant.checks import check_data

INPUTS = (TensorInfo("image", "float32", (1, 3, 4, 4)), TensorInfo("length", "int64", (1,)))


def good(count=24):
    images = np.random.default_rng(0).standard_normal((count, 3, 4, 4)).astype(np.float32)
    return {"image": images, "length": np.arange(count)[:, None]}


def with_nan():
    arrays = good()
    arrays["image"][5, 0, 0, 0] = np.nan
    return arrays


BAD_FILES = {
    "empty": ({name: array[:0] for name, array in good().items()}, "contains no samples"),
    "NaN": (with_nan(), r"holds NaN or infinity \(first in sample 5\)"),
    "wrong name": (
        {"picture": good()["image"], "length": good()["length"]},
        "no array for the model's input 'image'",
    ),
    "wrong rank": ({**good(), "image": np.zeros((24, 4), np.float32)}, "has 2 dimensions"),
    "wrong shape": ({**good(), "image": np.zeros((24, 3, 5, 5), np.float32)}, r"\[1, 3, 5, 5\]"),
    "one sample": (good(1), "holds one sample"),
    "constant": (
        {n: np.repeat(a[:1], 24, axis=0) for n, a in good().items()},
        "All 24 samples of the data are equal",
    ),
    "no two of a length": ({**good(), "length": np.zeros((3, 1), int)}, "different numbers of samples"),
    "text for numbers": ({**good(), "image": np.full((24, 3, 4, 4), "?")}, "type"),
}


def checked(path):
    """As `edgeopt quantize` reads data."""
    return check_data(load_data(path, INPUTS))


def refused(work):
    with pytest.raises(DataError) as caught:
        work()
    assert caught.value.exit_code == 3
    assert caught.value.hint
    return caught.value.message


@pytest.mark.parametrize("row", BAD_FILES)
def test_a_file(tmp_path, row):
    import re

    arrays, said = BAD_FILES[row]
    np.savez(tmp_path / "data.npz", **arrays)
    assert re.search(said, refused(lambda: checked(tmp_path / "data.npz")))


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04 cut off", b"\x80\x04K\x01."])
def test_an_unreadable_file(tmp_path, content):
    (tmp_path / "data.npz").write_bytes(content)
    assert "cannot be read as data" in refused(lambda: checked(tmp_path / "data.npz"))


def test_an_archive_cut_short(tmp_path):
    np.savez(tmp_path / "whole.npz", **good())
    (tmp_path / "data.npz").write_bytes((tmp_path / "whole.npz").read_bytes()[:2000])
    assert "cannot be read as data" in refused(lambda: checked(tmp_path / "data.npz"))


def test_nothing_there_and_an_empty_folder(tmp_path):
    assert "There is no data" in refused(lambda: checked(tmp_path / "data.npz"))
    assert "holds no .npy file" in refused(lambda: checked(tmp_path))


def rows(count=24):
    arrays = good(count)
    return [{name: array[k] for name, array in arrays.items()} for k in range(count)]


def failing():
    yield rows()[0]
    raise KeyError("frame 2")


@pytest.mark.parametrize(
    ("feeds", "said"),
    [
        ([], "contains no samples"),
        (iter(()), "contains no samples"),
        ([np.zeros(3)], "Sample 0 of the data is of type ndarray, not a dict"),
        ([*rows(2), (1, 2)], "Sample 2 of the data is of type tuple"),
        ([{0: np.zeros(3)}], "dict with other keys"),
        (failing(), "The data failed at sample 1 with KeyError: 'frame 2'."),
        ([{**rows(1)[0], "image": None}], "'image' of sample 0 is of type NoneType"),
        ([{**rows(1)[0], "image": [[1], [2, 3]]}], "'image' of sample 0 is not an array"),
        ([*rows(1), {"image": rows(1)[0]["image"]}], "Sample 1 of the data lacks the input 'length'"),
        ([rows(1)[0], {**rows(1)[0], "image": np.zeros((1, 2))}], "shape"),
        (7, "The data is of type int, which yields no samples"),
    ],
)
def test_an_iterable_of_the_users_own(feeds, said):
    assert said in refused(lambda: check_data(check_samples(from_feeds(feeds), INPUTS)))


def test_good_data_passes_without_a_word(tmp_path):
    np.savez(tmp_path / "data.npz", **good())
    assert checked(tmp_path / "data.npz") == ()
    assert check_data(check_samples(from_feeds(iter(rows())), INPUTS)) == ()


def test_few_samples_may_calibrate_and_that_is_told():
    (said,) = check_data(check_samples(good(5), INPUTS))
    assert said.startswith(
        "The data holds 5 samples; with fewer than 12 the same ones must calibrate, plan and prove"
    )


def test_copies_are_no_samples():
    arrays = {name: np.tile(array[:4], (6, *(1,) * (array.ndim - 1))) for name, array in good().items()}
    (said,) = check_data(check_samples(arrays, INPUTS))
    assert said.startswith("Only 4 of the 24 samples differ")


def test_an_input_that_never_varies():
    arrays = {**good(), "image": np.full((24, 3, 4, 4), 0.5, np.float32)}
    (said,) = check_data(check_samples(arrays, INPUTS))
    assert said.startswith("The input 'image' is 0.5 everywhere")


def test_texts_are_samples_too():
    texts = Samples({"t": np.array(["a", "b"] * 8)}, {"t": 0})
    (said,) = check_data(texts)
    assert "Only 2 of the 16" in said
