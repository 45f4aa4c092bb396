import os
import subprocess
import sys

import psutil
import pytest
from PySide6.QtGui import QImage

from edgeopt_gui.pages import PAGES
from edgeopt_gui.theme.apply import Theme
from tests.gui.screenshots import scenes
from tests.gui.screenshots.scenes import SCENES
from tests.gui.screenshots.stage import Stage


def photograph(out, *arguments):
    command = [sys.executable, "-m", "tests.gui.screenshots", str(out), "model", *arguments]
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


# A stage holds back the processes that QProcess starts.
ENDED = {psutil.STATUS_ZOMBIE, psutil.STATUS_STOPPED}


@pytest.fixture
def stage(qapp, settings, tmp_path):
    dress = Theme(qapp, settings)
    made = Stage(settings, tmp_path)
    yield made
    made.close()
    dress.deleteLater()


def quick(stage):
    """Lets the jobs get as far as they come before anybody looks."""
    for job in stage.context.jobs.jobs:
        while psutil.Process(job.pid).status() not in ENDED:
            os.sched_yield()


def slow(_stage):
    """Looks at once."""


@pytest.mark.cold
@pytest.mark.parametrize("pace", [quick, pytest.param(slow, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "scene",
    [
        scenes.device,
        scenes.device_without_a_command_line,
        pytest.param(scenes.model, marks=pytest.mark.slow),
    ],
)
def test_each_state_is_there_when_its_picture_is_taken(stage, scene, pace):
    pace(stage)
    seen = []
    for caption in scene(stage):
        pace(stage)
        stage.wait(0.3)  # as a photograph does, which lets the window draw and hear
        stage.check(caption)
        seen.append(caption)
    assert (
        seen
        == {
            scenes.device: ["empty", "busy", "full", "full, with sources"],
            scenes.device_without_a_command_line: ["error"],
            scenes.model: ["empty", "busy", "full", "weights", "error"],
        }[scene]
    )


@pytest.mark.cold
@pytest.mark.slow
def test_what_is_watched_is_busy_full_and_in_error(stage, monkeypatch):
    monkeypatch.setattr(scenes, "_WATCHED_S", 0.1)
    seen = []
    for caption in scenes.live(stage):
        stage.wait(0.3)
        stage.check(caption)
        seen.append(caption)
    assert seen == ["empty", "busy", "full", "error"]


@pytest.mark.cold
def test_a_picture_of_another_state_is_refused(stage):
    stage.page("device")
    with pytest.raises(RuntimeError, match="showed 'busy' when it was to show 'full'"):
        stage.check("full")
