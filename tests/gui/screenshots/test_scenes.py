"""The scenes come into their states however quick or slow the jobs are."""

import os

import psutil
import pytest

from edgeopt_gui.screenshots import scenes
from edgeopt_gui.screenshots.stage import Stage
from edgeopt_gui.theme.apply import Theme

# A stage holds back the processes that QProcess starts.
pytestmark = pytest.mark.cold
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


@pytest.mark.slow
def test_what_is_watched_is_busy_full_and_in_error(stage, monkeypatch):
    monkeypatch.setattr(scenes, "_WATCHED_S", 0.1)
    seen = []
    for caption in scenes.live(stage):
        stage.wait(0.3)
        stage.check(caption)
        seen.append(caption)
    assert seen == ["empty", "busy", "full", "error"]


def test_a_picture_of_another_state_is_refused(stage):
    stage.page("device")
    with pytest.raises(RuntimeError, match="showed 'busy' when it was to show 'full'"):
        stage.check("full")
