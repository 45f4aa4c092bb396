from pathlib import Path

import pytest
from PySide6.QtCore import QSettings

from edgeopt_gui.context import Context
from edgeopt_gui.settings import Settings
from edgeopt_gui.subject import Subject, subject_at


@pytest.fixture
def shared(qapp, tmp_path):
    return Context(Settings(QSettings(str(tmp_path / "settings.ini"), QSettings.Format.IniFormat)))


def test_opening_another_model_lets_go_of_the_data_of_the_first(shared, qtbot):
    shared.open(Subject(Path("a.onnx"), "model"))
    shared.use_data(Path("a.npz"))
    shared.open(Subject(Path("a.onnx"), "model"))
    assert shared.data == Path("a.npz"), "opened again, it keeps its data"
    with qtbot.waitSignals([shared.data_changed, shared.subject_changed]):
        shared.open(Subject(Path("b.onnx"), "model"))
    assert shared.data is None


def test_an_opened_bundle_is_the_one_to_watch_and_to_deploy(shared):
    shared.open(Subject(Path("a.edgeopt"), "bundle"))
    assert shared.bundle == Path("a.edgeopt")
    shared.open(Subject(Path("b.onnx"), "model"))
    assert shared.bundle == Path("a.edgeopt")


def test_what_was_opened_is_remembered_newest_first_and_once(shared):
    for name in ("a.onnx", "b.onnx", "a.onnx"):
        shared.open(Subject(Path(name), "model"))
    assert shared.settings.recent() == (Path("a.onnx"), Path("b.onnx"))


def test_a_folder_is_a_bundle_and_a_file_a_model(tmp_path):
    file = tmp_path / "m.onnx"
    file.touch()
    assert subject_at(file).kind == "model"
    assert subject_at(tmp_path).kind == "bundle"
