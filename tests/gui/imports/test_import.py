"""Imports in the window with real child processes: scikit-learn, a Python that hangs, one without packages."""

import sys
import venv
from pathlib import Path

import numpy as np
import psutil
import pytest
from PySide6.QtCore import Qt

from edgeopt.data.demo import MODEL
from edgeopt_gui.imports.dialog import PYTHON, ImportDialog
from edgeopt_gui.pages import PAGES
from tests.importing.test_frameworks import sklearn  # noqa: F401 - a fixture

ENTRIES = tuple(entry for entry in PAGES if entry.key in {"model", "optimize"})


@pytest.fixture
def window(open_window):
    return open_window(ENTRIES)


@pytest.fixture
def scaled(tmp_path):
    """A small pipeline, in whose folder nothing else is."""
    import joblib
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    x = np.random.default_rng(0).standard_normal((60, 3))
    path = tmp_path / "scaled.joblib"
    joblib.dump(make_pipeline(StandardScaler(), LogisticRegression()).fit(x, x[:, 0] > 0), path)
    return path


def dialog_of(window):
    (found,) = [each for each in window.findChildren(ImportDialog) if each.isVisible()]
    return found


def start(qtbot, window, python):
    dialog = dialog_of(window)
    dialog.python.setText(str(python))
    dialog.trust.setChecked(True)
    qtbot.mouseClick(dialog.go, Qt.MouseButton.LeftButton)
    assert window.page("model").state == "busy"
    return dialog


def facts(window):
    groups = window.page("model").view.facts.groups
    return {fact.name: fact.value for group in groups if group.title == "Import" for fact in group.facts}


def test_dropped_pipeline_becomes_the_open_model_with_its_proof_and_data(
    qtbot, window, context, scaled, sklearn  # noqa: F811
):  # fmt: skip
    window.open_paths([scaled])
    dialog = dialog_of(window)
    assert dialog.kind.text() == "scikit-learn model"
    assert not dialog.go.isEnabled()
    assert "is a pickle" in dialog.problem.text()
    assert dialog.out.text() == str(scaled.with_suffix(".onnx"))
    start(qtbot, window, sklearn)
    qtbot.waitUntil(lambda: window.page("model").state != "busy")
    page = window.page("model")
    assert page.state == "content", page._error.sentence.text()
    assert context.subject.path == scaled.with_suffix(".onnx")
    assert context.data == scaled.with_suffix(".npz")
    found = facts(window)
    assert found["From"].startswith("scaled.joblib, scikit-learn")
    assert "dB" in found["Agreement"]
    assert "on 32 samples and at batch 2, 3" in found["Proved"]
    assert context.settings.text(PYTHON) == sklearn
    assert page.command().arguments[0] == "analyze"


@pytest.mark.skipif(sys.platform == "win32", reason="a shell script")
def test_cancelled_import_leaves_nothing_and_shows_the_model_that_was_open(qtbot, window, context, tmp_path):
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/started\nexec cat\n")
    python.chmod(0o755)
    (tmp_path / "a.tflite").write_bytes(b"any")
    window.open_paths([MODEL])
    qtbot.waitUntil(lambda: window.page("model").state == "content")
    window.open_paths([tmp_path / "a.tflite"])
    start(qtbot, window, python)
    assert window.page("model").command().line.startswith("edgeopt import")
    started = tmp_path / "started"
    qtbot.waitUntil(lambda: started.exists() and started.read_text().endswith("\n"))
    window.book["model.cancel-import"].shown.trigger()
    qtbot.waitUntil(lambda: window.page("model").state == "content")
    assert context.subject.path == MODEL
    qtbot.waitUntil(lambda: not psutil.pid_exists(int(started.read_text())))
    assert {path.name for path in tmp_path.iterdir()} >= {"a.tflite", "python", "started"}
    assert not [path for path in tmp_path.iterdir() if path.suffix in {".onnx", ".npz"}]


def test_missing_package_is_named_and_the_import_can_be_changed(qtbot, window, context, tmp_path):
    venv.create(tmp_path / "bare", with_pip=False)
    python = tmp_path / "bare/bin/python"
    (tmp_path / "a.tflite").write_bytes(b"any")
    window.open_paths([tmp_path / "a.tflite"])
    start(qtbot, window, python)
    page = window.page("model")
    qtbot.waitUntil(lambda: page.state != "busy")
    assert page.state == "error"
    assert "needs " in page._error.sentence.text()
    assert "pip install" in page._error.next_step.text()
    assert context.subject is None
    window.book["model.import-again"].shown.trigger()
    assert dialog_of(window).choices == page._choices
    assert dialog_of(window).python.text() == str(python)


def test_name_in_a_script_is_offered_and_asked_for(qtbot, window, tmp_path):
    script = tmp_path / "net.py"
    script.write_text("class Net: ...\ndef build(): ...\n")
    window.open_paths([script])
    dialog = dialog_of(window)
    assert [dialog.name.itemText(k) for k in range(dialog.name.count())] == ["Net", "build"]
    assert dialog.choices.source == f"{script}:Net"
    dialog.name.setEditText("build")
    assert dialog.choices.source == f"{script}:build"
    dialog.name.setEditText("")
    assert not dialog.go.isEnabled()
    dialog.close()
    window.open_paths([Path(f"{script}:build")])
    assert dialog_of(window).choices.source == f"{script}:build"


def test_action_asks_for_any_source(qtbot, window, tmp_path):
    window.book["app.import"].shown.trigger()
    dialog = dialog_of(window)
    assert not dialog.go.isEnabled()
    folder = tmp_path / "bert"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    dialog.source.setText(str(folder))
    assert dialog.kind.text() == "Hugging Face folder"
    assert dialog.task.isVisible()
    assert dialog.out.text() == str(tmp_path / "bert.onnx")
    dialog.source.setText("package.models:Net")
    assert not dialog.task.isVisible()
    assert dialog.shapes.isVisible()
