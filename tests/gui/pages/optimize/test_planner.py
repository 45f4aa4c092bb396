"""A plan for a device that is not here, by the real command line from a recorded machine."""

from pathlib import Path

import pytest

from edgeopt_gui.pages.optimize.choices import METRIC, Choices
from edgeopt_gui.pages.optimize.planner import Planner
from edgeopt_gui.pages.optimize.run import Order

BOARD = Path(__file__).parents[3] / "fakeroots" / "raspberry-pi-5"
PATIENCE_MS = 60_000


@pytest.fixture
def planner(qtbot, context):
    made = Planner(context, None)
    qtbot.addWidget(made.view)
    return made


def order(model, **choices):
    return Order(model, None, None, Choices(**choices))


@pytest.mark.slow
def test_a_plan_says_that_nothing_was_measured_and_how_it_is_finished(
    qtbot, planner, context, conv_model, tmp_path
):
    wanted = order(conv_model, budget="balanced", max_memory_mib="64")
    with qtbot.waitSignal(planner.begun) as begun:
        planner.start(wanted, BOARD, tmp_path / "planned.edgeopt")
    assert begun.args[0].arguments[-4:] == ("--floor", "balanced", "--device", str(BOARD))
    assert planner.view.headline.text() == "Planning for another device"
    assert "being made" in planner.why_not(wanted)
    qtbot.waitUntil(lambda: not context.jobs.jobs, timeout=PATIENCE_MS)
    assert planner.view.headline.text() == "Planned for Cortex-A76, 4 cores"
    assert planner.view.summary.text().startswith("Predicted, not measured")
    assert "edgeopt replay planned.edgeopt" in planner.view.story.text()
    assert {row.status for row in planner.view.records.shown} >= {"chosen", "baseline"}
    assert (tmp_path / "planned.edgeopt" / "deployment.toml").is_file()
    assert planner.why_not(wanted) == ""


def test_what_is_no_record_is_a_sentence(qtbot, planner, conv_model, tmp_path):
    (tmp_path / "pi5.json").write_text("{}")
    with qtbot.waitSignal(planner.failed, timeout=PATIENCE_MS) as failed:
        planner.start(order(conv_model), tmp_path / "pi5.json", tmp_path / "planned.edgeopt")
    assert "pi5.json" in failed.args[0].what


def test_a_plan_holds_to_decibels_alone(planner, conv_model):
    assert "floors in dB" in planner.why_not(order(conv_model, budget=METRIC, value="99%"))
