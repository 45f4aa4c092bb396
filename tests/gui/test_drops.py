import numpy as np
import pytest

from edgeopt_gui.drops import sort_out
from edgeopt_gui.subject import Subject


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "a.onnx"
    path.touch()
    return path


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "a.npz"
    path.touch()
    return path


def test_a_model_is_what_the_app_looks_at(model):
    assert sort_out([model], has_model=False).subject == Subject(model, "model")


@pytest.mark.parametrize("name", ["weights.tflite", "net.pt", "broken"])
def test_what_people_take_for_a_model_is_judged_by_the_command_line(tmp_path, name):
    (tmp_path / name).write_bytes(b"no")
    assert sort_out([tmp_path / name], has_model=False).subject == Subject(tmp_path / name, "model")


def test_bundles_are_folders_or_files(tmp_path):
    folder = tmp_path / "a.edgeopt"
    folder.mkdir()
    unnamed = tmp_path / "unpacked"
    unnamed.mkdir()
    (unnamed / "deployment.toml").touch()
    file = tmp_path / "b.edgeopt"
    file.touch()
    for path in (folder, unnamed, file):
        assert sort_out([path], has_model=False).subject == Subject(path, "bundle")


def test_data_comes_with_its_model_or_after_it(model, data):
    both = sort_out([data, model], has_model=False)
    assert (both.subject, both.data) == (Subject(model, "model"), data)
    assert sort_out([data], has_model=True).data == data
    assert "open the model that it belongs to first" in sort_out([data], has_model=False).refusal


def test_a_folder_of_arrays_is_data(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros(1))
    assert sort_out([tmp_path], has_model=True).data == tmp_path
    assert "drop the folder" in sort_out([tmp_path / "x.npy"], has_model=True).refusal


def test_what_is_of_no_use_is_refused_with_one_sentence(tmp_path, model, data):
    picture = tmp_path / "photo.png"
    picture.touch()
    empty = tmp_path / "empty"
    empty.mkdir()
    other = tmp_path / "b.onnx"
    other.touch()
    cases = {
        (): "Only files",
        (picture,): "photo.png cannot be opened",
        (empty,): "not a bundle",
        (tmp_path / "gone.onnx",): "gone.onnx does not exist",
        (model, other): "one model or bundle at a time",
        (data, data, model): "one .npz file",
        (model, picture): "photo.png",
    }
    for paths, said in cases.items():
        dropped = sort_out(paths, has_model=True)
        assert said in dropped.refusal
        assert dropped.subject is None
        assert dropped.data is None
        assert dropped.refusal.count("\n") == 0
