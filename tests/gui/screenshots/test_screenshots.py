import os
import subprocess
import sys

import pytest
from PySide6.QtGui import QImage

from edgeopt_gui.pages import PAGES
from edgeopt_gui.screenshots.scenes import SCENES


def photograph(out, *arguments):
    command = [sys.executable, "-m", "edgeopt_gui.screenshots", str(out), "model", *arguments]
    environment = {**os.environ, "QT_QPA_PLATFORM": "offscreen"}
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)


@pytest.mark.slow
@pytest.mark.parametrize(("scale", "suffix"), [("1", ""), ("1.5", "-150")])
def test_a_sheet_for_each_size_shows_a_page_in_its_states_and_both_themes(tmp_path, scale, suffix):
    done = photograph(tmp_path, "--sizes", "1020x690,1200x801", "--scale", scale)
    assert (done.returncode, done.stderr) == (0, "")
    for width, height in ((1020, 690), (1200, 801)):
        stem = f"model-{width}x{height}{suffix}"
        sheet = QImage(str(tmp_path / f"{stem}.png"))
        light, dark = QImage(str(tmp_path / f"{stem}-light.png")), QImage(str(tmp_path / f"{stem}-dark.png"))
        assert light.size().toTuple() == dark.size().toTuple() == (width, height)
        assert sheet.width() > 2 * 0.6 * width
        assert sheet.height() > 4 * 0.6 * height
        middle, top = width // 2, round(30 * float(scale))
        assert light.pixelColor(middle, top).lightness() > 128 > dark.pixelColor(middle, top).lightness()


def test_sizes_that_are_none_are_refused(tmp_path):
    done = photograph(tmp_path, "--sizes", "large")
    assert done.returncode == 2
    assert "1280x800" in done.stderr


def test_every_page_has_its_scenes():
    assert [name for name, _ in SCENES] == [entry.key for entry in PAGES]
