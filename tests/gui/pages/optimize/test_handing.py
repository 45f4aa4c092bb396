"""What other commands make of a bundle: each in a process of its own, and what came of it said."""

from pathlib import Path

import pytest
from PySide6.QtCore import QObject, Slot
from PySide6.QtGui import QDesktopServices

from edgeopt_gui.pages.optimize.handing import Handing
from edgeopt_gui.pages.optimize.run import Run

PATIENCE_MS = 60_000


class Reader(QObject):
    """In place of the user's browser."""

    def __init__(self):
        super().__init__()
        self.opened = []

    @Slot("QUrl")
    def read(self, url):
        self.opened.append(url.toLocalFile())


@pytest.fixture
def reader(qapp):
    made = Reader()
    QDesktopServices.setUrlHandler("file", made, "read")
    yield made
    QDesktopServices.unsetUrlHandler("file")


@pytest.fixture
def handing(qtbot, context):
    return Handing(context, context)


@pytest.fixture
def run(conv_model, result):
    """The search that was recorded, with the bundle that it wrote."""
    return Run(conv_model, Path(result.bundle), None, None, result=result)


def test_a_report_is_written_and_shown(qtbot, handing, run, reader, tmp_path):
    file = tmp_path / "report.html"
    handing.report(run, file)
    assert handing.busy
    assert run.note == "Reporting on conv.onnx…"
    qtbot.waitUntil(lambda: not handing.busy, timeout=PATIENCE_MS)
    assert run.note == f"The report is {file}."
    assert reader.opened == [str(file)]
    assert "<html" in file.read_text()


def test_an_export_says_where_it_is_and_whether_it_was_checked(qtbot, handing, run, tmp_path):
    handing.export(run, "onnx", tmp_path / "out")
    qtbot.waitUntil(lambda: not handing.busy, timeout=PATIENCE_MS)
    assert (tmp_path / "out" / "conv.onnx").is_file()
    assert run.note.startswith(f"Exported to {tmp_path / 'out'}. Checked on the golden samples: ")


def test_an_export_that_cannot_be_is_a_sentence(qtbot, handing, run, bundle, tmp_path):
    (bundle / "model" / "conv.onnx").write_bytes(b"cut off")
    run.place = bundle
    handing.export(run, "onnx", tmp_path / "out")
    qtbot.waitUntil(lambda: not handing.busy, timeout=PATIENCE_MS)
    assert "conv.onnx" in run.note
    assert not (tmp_path / "out").exists()
