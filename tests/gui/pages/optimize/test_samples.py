"""Counting samples by the headers, and what is said of their number."""

import numpy as np
import pytest

from edgeopt.data.split import split
from edgeopt.errors import DataError
from edgeopt_gui.pages.optimize.samples import count_samples, use_of


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
    with pytest.raises(DataError, match="holds no sample"):
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
    assert "too few for 8-bit" in use_of(11)
    assert "too few" not in use_of(12)
