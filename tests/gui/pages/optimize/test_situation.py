"""What the page can do, told without a window."""

from dataclasses import replace

import pytest

from edgeopt_gui.pages.optimize import situation
from edgeopt_gui.pages.optimize.board import Row
from edgeopt_gui.pages.optimize.situation import Situation

NOTHING = Situation()
READY = Situation(opened="model")
RUNNING = replace(READY, search="running")
FOUND = replace(READY, found=True)
WON = Row("int8", "winner", "", trade="0.5x the speed")
FAILED = Row("int8", "failed", "it crashed")


@pytest.mark.parametrize(
    ("what", "now", "words"),
    [
        ("start", NOTHING, "Open a model first"),
        ("start", Situation(opened="bundle"), "optimized already"),
        ("start", READY, ""),
        ("start", replace(READY, problem="no floor"), "no floor"),
        ("start", RUNNING, "A search is running"),
        ("cancel", READY, "No search is running"),
        ("cancel", RUNNING, ""),
        ("cancel", replace(READY, search="stopping"), ""),
        ("cancel", replace(READY, search="cancelling"), "stopping already"),
        ("stop", READY, "No search is running"),
        ("stop", RUNNING, ""),
        ("stop", replace(RUNNING, can_stop=False), "can only be cancelled"),
        ("stop", replace(RUNNING, picking=True), "No search is running"),
        ("stop", replace(READY, search="stopping"), "being proved"),
        ("use", READY, "no bundle yet"),
        ("use", FOUND, ""),
        ("save", READY, "no bundle yet"),
        ("save", replace(FOUND, saving=True), "being saved"),
        ("save", FOUND, ""),
        ("hand", replace(FOUND, handing=True), "being made"),
        ("hand", FOUND, ""),
        ("measure_again", replace(FOUND, search="running"), "A search is running"),
        ("measure_again", READY, "no bundle yet"),
        ("measure_again", FOUND, ""),
        ("pick", FOUND, "Choose a candidate"),
        ("pick", replace(FOUND, row=FAILED), "cannot be delivered instead"),
        ("pick", replace(FOUND, row=WON), ""),
        ("pick", replace(READY, row=WON), "no bundle yet"),
        ("plan", replace(READY, plan_problem="A plan is being made"), "A plan is being made"),
        ("plan", NOTHING, "Open a model first"),
        ("plan", READY, ""),
        ("set", RUNNING, "with these settings"),
        ("set", READY, ""),
        ("clear_data", READY, "No data is chosen"),
        ("clear_data", replace(READY, has_data=True), ""),
        ("clear_data", replace(RUNNING, has_data=True), "with these settings"),
        ("clear_today", READY, "Nothing is chosen that runs today"),
        ("clear_today", replace(READY, has_today=True), ""),
    ],
)
def test_what_cannot_be_done_says_why(what, now, words):
    said = getattr(situation, f"why_not_{what}")(now)
    assert words in said
    assert bool(said) == bool(words)
