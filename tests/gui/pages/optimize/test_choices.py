"""The choices of a search: the command line that they come to, remembered and told in few words."""

import shlex
from dataclasses import fields
from pathlib import Path

import pytest

from edgeopt.data.judging.goals import floor_from
from edgeopt_gui.pages.optimize.choices import BUDGETS, METRIC, OWN, Choices, remember, remembered

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


@pytest.mark.parametrize("budget", [budget.key for budget in BUDGETS if budget.key != METRIC])
def test_the_command_line_takes_every_floor(budget):
    assert floor_from(Choices(budget, own_db=45).floor) == {"exact": 80, "transparent": 30, "balanced": 20}.get(
        budget, 45
    )


def test_every_setting_is_an_option_of_the_command_line():
    choices = Choices(
        METRIC, metric="top1-labels", value="90%", max_drop="0.5%", labels="y", objective="memory",
        max_memory_mib="64", max_size_mib="8", max_latency_ms="2.5", target_speedup="2", single_file=True,
    )  # fmt: skip
    words = shlex.split(choices.command(MODEL, None, OUT, today=Path("/t.edgeopt"), fresh=True, pick="a · b").line)
    assert "--single-file" in words
    assert words[-1] == "--fresh"
    words = [word for word in words[5:-1] if word != "--single-file"]
    given = dict(zip(words[::2], words[1::2], strict=True))
    assert given == {
        "--metric": "top1-labels",
        "--floor": "90%",
        "--max-drop": "0.5%",
        "--labels": "y",
        "--objective": "memory",
        "--max-memory-mib": "64",
        "--max-size-mib": "8",
        "--max-latency-ms": "2.5",
        "--baseline": "/t.edgeopt",
        "--target-speedup": "2",
        "--pick": "a · b",
    }


def test_plugins_are_left_out_by_the_command_line_only_where_that_is_chosen():
    assert "plugins" not in Choices().command(MODEL, None, OUT).line
    left_out = Choices(plugins=False)
    assert left_out.command(MODEL, None, OUT).line.endswith("--no-plugins")
    assert left_out.folded() == "without plug-ins"


def test_search_on_another_device_names_it_but_a_plan_does_not():
    there = Choices(on="ssh://pi@camera")
    assert there.command(MODEL, None, OUT).line.endswith("--on ssh://pi@camera")
    assert there.folded() == "measured on ssh://pi@camera"
    assert "--on" not in there.for_plan(MODEL, None, OUT, OUT)
    assert "--on" not in Choices().command(MODEL, None, OUT).line


def test_what_is_set_of_a_metric_is_not_given_without_it():
    line = Choices("exact", metric="top1", value="99%", max_drop="1%", labels="y").command(MODEL, None, OUT).line
    assert "--floor exact" in line
    assert not any(option in line for option in ("--metric", "--max-drop", "--labels"))


def test_choices_are_remembered(settings):
    choices = Choices(
        OWN, 55, "cosine", "m.py:f", "0.99", "1%", True, "y", "cpu-avx2", 120, "size", "64", "8", "2.5", "2",
        True, False, "ssh://pi@camera",
    )  # fmt: skip
    remember(settings, choices)
    assert remembered(settings) == choices
    assert all(getattr(choices, f.name) != getattr(Choices(), f.name) for f in fields(Choices))


def test_what_is_folded_away_is_told_in_few_words():
    assert Choices().folded() == ""
    assert Choices(max_memory_mib="64", target_speedup="2").folded() == (
        "memory at most 64 MiB, stops at 2 times the speed"
    )


@pytest.mark.parametrize(
    ("key", "value"),
    [("optimize.budget", "nonsense"), ("optimize.own-db", "999"), ("optimize.time-limit-s", "90000")],
)
def test_what_is_no_sensible_setting_becomes_the_default(settings, key, value):
    settings.keep(key, value)
    assert remembered(settings) == Choices()
