"""Settings of a search: the command line that they come to, and that they are remembered."""

import shlex
from pathlib import Path

import pytest

from edgeopt.judging.budgets import floor_from
from edgeopt_gui.pages.optimize.choices import BUDGETS, OWN, Choices, remember, remembered

MODEL, OUT = Path("/models/a model.onnx"), Path("a model.edgeopt")


def test_the_command_line_can_be_typed_as_it_stands():
    choices = Choices("balanced", target="generic-cpu", time_limit_s=30)
    words = shlex.split(choices.command(MODEL, Path("/d.npz"), OUT).line)
    assert words[:3] == ["edgeopt", "optimize", str(MODEL)]
    given = dict(zip(words[3::2], words[4::2], strict=True))
    assert given == {
        "--data": "/d.npz",
        "-o": str(OUT),
        "--floor": "balanced",
        "--target": "generic-cpu",
        "--time-limit": "30",
    }


def test_what_is_left_to_edgeopt_is_not_in_the_command_line():
    line = Choices().command(MODEL, None, OUT).line
    assert "--data" not in line
    assert "--target" not in line
    assert "--time-limit" not in line


@pytest.mark.parametrize("budget", [budget.key for budget in BUDGETS])
def test_the_command_line_takes_every_floor(budget):
    assert floor_from(Choices(budget, own_db=45).floor) == {"exact": 80, "transparent": 30, "balanced": 20}.get(
        budget, 45
    )


def test_choices_are_remembered(settings):
    choices = Choices(OWN, 55, "cpu-avx2", 120)
    remember(settings, choices)
    assert remembered(settings) == choices


@pytest.mark.parametrize(
    ("key", "value"),
    [("optimize.budget", "nonsense"), ("optimize.own-db", "999"), ("optimize.time-limit-s", "1")],
)
def test_what_is_no_sensible_setting_becomes_the_default(settings, key, value):
    settings.keep(key, value)
    assert remembered(settings) == Choices()
