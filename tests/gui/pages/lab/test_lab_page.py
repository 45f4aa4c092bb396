"""A lab on the page: results are read, a real run fills the table, is cancelled and continued."""

import pytest
from PySide6.QtGui import QDesktopServices

from edgeopt.data.demo import MODEL
from edgeopt.lab.records import read_results, write_results
from edgeopt_gui.pages.lab.lab_page import COLUMNS
from edgeopt_gui.pages.lab.page import ENTRY
from tests.gui.screenshots.example_lab import example_lab


@pytest.fixture
def page(open_page):
    return open_page(ENTRY)


@pytest.fixture
def lab(tmp_path, short_profile):
    """A lab of this machine and a device that does not answer."""
    file = tmp_path / "lab.toml"
    devices = '[[device]]\nname = "here"\n[[device]]\nname = "gone"\non = "ssh://127.0.0.1:1"\n'
    options = f'[options]\ntime_limit_s = 1\nprofile = "{short_profile.as_posix()}"\n'
    file.write_text(f'{devices}[models.good]\nfile = "{MODEL.as_posix()}"\n{options}')
    return file


def texts(page, title):
    place = [column.title for column in COLUMNS].index(title)
    return [page.rows.index(row, place).data() for row in range(page.rows.rowCount())]


def test_results_show_each_cell_with_its_state(qtbot, page, tmp_path):
    write_results(example_lab(), tmp_path)
    assert page.take_drop([tmp_path])
    qtbot.waitUntil(lambda: page.state == "content")
    assert texts(page, "Speed-up")[0] == "1.52x [1.47 1.58]"
    assert texts(page, "Accuracy")[:3] == ["62.1 dB", "48.4 dB", ""]
    # No run is on: what the file calls running is not.
    assert texts(page, "State")[2:] == [
        "waiting",
        "1.06x slower than before; 3 % allowed",
        "failed: camera.local does not answer.",
        "waiting",
    ]
    assert page.why_not_start() == "No lab file is open."
    page.table.pick(("detector", "camera"))
    assert page.detail.text() == "camera.local does not answer. Switch it on."
    assert page.why_not_report()


def test_lab_file_beside_the_results_continues_them(qtbot, page, lab):
    results = lab.parent / "out"
    results.mkdir()
    write_results(example_lab(), results)
    page.open_results(results)
    qtbot.waitUntil(lambda: page.state == "content")
    assert page.command().arguments == ("lab", "run", str(lab), "-o", str(results))
    assert page.face_of_start().title == "Continue the run"


def test_folder_without_results_is_an_error(qtbot, page, tmp_path):
    page.open_results(tmp_path)
    qtbot.waitUntil(lambda: page.state == "error")


def test_lab_file_with_a_mistake_is_an_error(qtbot, page, lab):
    lab.write_text("[[devices]]\n")
    page.open_lab(lab)
    page.start()
    qtbot.waitUntil(lambda: page.state == "error")
    assert page.face_of_start() is None


def test_run_fills_the_table_is_cancelled_and_continued(qtbot, page, lab, monkeypatch):
    page.open_lab(lab)
    assert page.state == "empty"
    page.start()
    qtbot.waitUntil(lambda: "running" in {cell.status for cell in page.rows.rows})
    assert page.state == "busy"
    assert page.why_not_open()
    page.cancel()
    qtbot.waitUntil(lambda: page.state != "busy")
    page.start()
    qtbot.waitUntil(lambda: "1 of 2 cells complete; 1 failed" in page.summary.text())
    assert page.state == "content"
    assert [cell.status for cell in read_results(page.folder).cells] == ["done", "failed"]
    assert texts(page, "Peak memory")[0].endswith("MiB")
    assert texts(page, "State")[1].startswith("failed: ")
    opened = []
    monkeypatch.setattr(QDesktopServices, "openUrl", lambda url: opened.append(url.toLocalFile()) or True)
    page.table.pick(("good", "here"))
    page.report()
    qtbot.waitUntil(lambda: opened != [])
    assert opened == [str(page.folder / "bundles" / "good" / "here.html")]
    assert (page.folder / "bundles" / "good" / "here.html").stat().st_size
