import os
import subprocess
import sys

import pytest
from PySide6.QtGui import QImage

from edgeopt_gui.pages import PAGES
from edgeopt_gui.screenshots.scenes import SCENES


@pytest.mark.slow
def test_a_sheet_shows_a_page_in_its_states_and_both_themes(tmp_path):
    command = [sys.executable, "-m", "edgeopt_gui.screenshots", str(tmp_path), "model"]
    environment = {**os.environ, "QT_QPA_PLATFORM": "offscreen"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    sheet = QImage(str(tmp_path / "model.png"))
    light, dark = QImage(str(tmp_path / "model-light.png")), QImage(str(tmp_path / "model-dark.png"))
    assert light.size().toTuple() == dark.size().toTuple() == (1200, 800)
    assert sheet.width() > 2 * 0.6 * light.width()
    assert sheet.height() > 4 * 0.6 * light.height()
    assert light.pixelColor(600, 30).lightness() > 128 > dark.pixelColor(600, 30).lightness()


def test_every_page_has_its_scenes():
    assert [name for name, _ in SCENES] == [entry.key for entry in PAGES]
