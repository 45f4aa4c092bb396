"""The phases against what a real search tells."""

from PySide6.QtWidgets import QLabel

from edgeopt import events
from edgeopt_gui.pages.optimize import phases
from edgeopt_gui.pages.optimize.phases import PHASES
from edgeopt_gui.pages.optimize.welcome import Welcome


def test_every_phase_of_a_real_search_has_its_step(recorded):
    told = [event.phase for event in recorded if isinstance(event, events.Progress)]
    assert {phases.place_of(phase) for phase in told} >= {0, 1, 2, 3, 6}
    assert None not in map(phases.place_of, told)


def test_a_newer_phase_is_shown_by_its_own_name():
    assert phases.place_of("polishing") is None
    assert phases.told(events.Progress("polishing")) == "Polishing"


def test_the_line_says_round_and_time_left():
    line = phases.told(events.Progress("racing", done=2, total=9, time_left_s=21.4))
    assert "round 2 of 9" in line
    assert "at most 21 s left" in line
    assert phases.told(None) == "Starting"


def test_the_share_of_a_phase():
    assert phases.share_done(events.Progress("racing", done=3, total=9)) == 1 / 3
    assert phases.share_done(events.Progress("racing")) == 0
    assert phases.share_done(None) == 0


def test_each_phase_says_beforehand_what_will_happen_in_it(qtbot, context):
    welcome = Welcome()
    qtbot.addWidget(welcome)
    texts = [label.text() for label in welcome.findChildren(QLabel)]
    assert all(phase.plan.endswith(".") and phase.plan in texts and phase.short in texts for phase in PHASES)
