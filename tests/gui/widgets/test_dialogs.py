from pathlib import Path

import pytest
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication, QFileDialog

from edgeopt_gui.pages.base import Page
from edgeopt_gui.widgets import dialogs


@pytest.fixture
def page(qtbot, context):
    made = Page(context)
    qtbot.addWidget(made)
    made.show()
    return made


def answer(with_it):
    """Deals with the dialog as soon as it is there."""

    def look():
        dialog = QApplication.activeModalWidget()
        if isinstance(dialog, QFileDialog):
            with_it(dialog)
        else:
            QTimer.singleShot(10, look)

    QTimer.singleShot(0, look)


def choose(path):
    def with_it(dialog):
        dialog.selectFile(str(path))
        dialog.done(QFileDialog.DialogCode.Accepted)

    answer(with_it)


def test_a_chosen_file_is_given_and_its_folder_remembered(page, tmp_path):
    path = tmp_path / "a.npz"
    path.touch()
    choose(path)
    assert dialogs.choose_file(page, "Choose data", dialogs.DATA, "data") == path
    seen = []

    def look_and_leave(dialog):
        seen.append(Path(dialog.directory().absolutePath()))
        dialog.reject()

    answer(look_and_leave)
    assert dialogs.choose_file(page, "Choose data", dialogs.DATA, "data") is None
    assert seen == [tmp_path]


def test_a_folder_and_a_place_to_save_are_chosen_too(page, tmp_path):
    choose(tmp_path)
    assert dialogs.choose_folder(page, "Open a bundle", "bundle") == tmp_path
    names = []

    def save(dialog):
        names.append(Path(dialog.selectedFiles()[0]).name)
        dialog.selectFile(str(tmp_path / "new.toml"))
        dialog.done(QFileDialog.DialogCode.Accepted)

    answer(save)
    chosen = dialogs.choose_save(page, "Export", "Profile (*.toml)", "toml", "deployment.toml")
    assert names == ["deployment.toml"]
    assert chosen == tmp_path / "new.toml"
