"""Counting samples by the headers, and what is said of their number."""

import numpy as np
import pytest

from edgeopt.data.split import split
from edgeopt.errors import DataError
from edgeopt.graph.analysis import Tensor
from edgeopt_gui.pages.optimize.samples import beside, count_samples, use_of

INPUTS = (Tensor("x", "float32", ("batch", 3)), Tensor("ids", "int64", ("batch", "length")))
RIGHT = {"x": np.zeros((9, 3)), "ids": np.zeros((9, 5), np.int32), "labels": np.zeros(9)}


def test_an_archive_is_counted(tmp_path):
    np.savez(tmp_path / "d.npz", x=np.zeros((40, 3)), labels=np.zeros(40))
    assert count_samples(tmp_path / "d.npz") == 40


def test_a_compressed_archive_and_a_folder_are_counted(tmp_path):
    np.savez_compressed(tmp_path / "d.npz", x=np.zeros((7, 3)))
    np.save(tmp_path / "x.npy", np.zeros((9, 3)))
    assert count_samples(tmp_path / "d.npz") == 7
    assert count_samples(tmp_path) == 9


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 cut off", b"no archive at all" * 10])
def test_a_broken_file_is_refused_by_name(tmp_path, content):
    file = tmp_path / "broken.npz"
    file.write_bytes(content)
    with pytest.raises(DataError, match=r"broken\.npz"):
        count_samples(file)


def test_an_archive_of_something_else_is_refused(tmp_path):
    from zipfile import ZipFile

    with ZipFile(tmp_path / "d.npz", "w") as archive:
        archive.writestr("readme.txt", "hello")
    with pytest.raises(DataError):
        count_samples(tmp_path / "d.npz")


def test_nothing_there_is_refused(tmp_path):
    with pytest.raises(DataError, match="no data at"):
        count_samples(tmp_path / "gone.npz")
    with pytest.raises(DataError, match="contains no samples"):
        count_samples(tmp_path)


def test_the_use_of_the_samples_is_what_the_search_does():
    parts = split(64, given=True)
    said = use_of(64)
    assert "64 samples" in said
    assert f"{parts.calibration_count} calibrate" in said
    assert f"{parts.check_count} check" in said
    assert f"{parts.prove_count} prove" in said


def test_too_few_samples_are_called_so():
    assert use_of(1).startswith("1 sample:")
    assert "too few for 8-bit" in use_of(3)
    assert use_of(11).startswith("11 samples: 5 calibrate, 6 check and prove the winner.")
    assert "12 or more" in use_of(11)
    assert "12 or more" not in use_of(12)


def test_data_for_the_model_is_counted(tmp_path):
    np.savez(tmp_path / "d.npz", **RIGHT)
    assert count_samples(tmp_path / "d.npz", INPUTS) == 9
    np.save(tmp_path / "x.npy", np.zeros((4, 1, 3), np.float32))
    assert count_samples(tmp_path, INPUTS[:1]) == 4


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"x": None, "picture": np.zeros((9, 3))}, r"no array for the model's input 'x'; it has: .*picture"),
        ({"x": np.zeros((9, 4))}, r"'x' in d.npz holds samples of shape \[1, 4\]; the input takes \[batch, 3\]"),
        ({"x": np.zeros((9, 2, 3, 1))}, "'x' in d.npz has 4 dimensions"),
        ({"ids": np.zeros((9, 5))}, "'ids' in d.npz is of type float64; the input takes int64"),
        ({"ids": np.zeros((8, 5), np.int64)}, r"different numbers of samples \(x: 9, ids: 8\)"),
    ],
)
def test_data_for_another_model_is_refused(tmp_path, wrong, said):
    arrays = {name: array for name, array in {**RIGHT, **wrong}.items() if array is not None}
    np.savez(tmp_path / "d.npz", **arrays)
    with pytest.raises(DataError, match=said):
        count_samples(tmp_path / "d.npz", INPUTS)


def test_inputs_that_the_model_does_not_describe_are_not_checked(tmp_path):
    np.savez(tmp_path / "d.npz", other=np.zeros((9, 4)))
    assert count_samples(tmp_path / "d.npz", (Tensor("x", "float32"),)) == 9


def test_data_beside_a_model_has_its_name(tmp_path):
    assert beside(tmp_path / "m.onnx") is None
    (tmp_path / "m.npz").touch()
    assert beside(tmp_path / "m.onnx") == tmp_path / "m.npz"
