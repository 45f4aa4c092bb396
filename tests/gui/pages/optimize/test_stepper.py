"""The row of steps: said to screen readers, and drawn."""

from edgeopt_gui.pages.optimize.phases import PHASES
from edgeopt_gui.pages.optimize.stepper import Stepper


def test_each_step_looks_different_and_is_described(qtbot, context):
    stepper = Stepper()
    qtbot.addWidget(stepper)
    stepper.resize(stepper.sizeHint())
    seen = set()
    for place in range(-1, len(PHASES)):
        stepper.set(place, 0.0)
        image = stepper.grab().toImage()
        seen.add(bytes(image.constBits()))
    assert len(seen) == len(PHASES) + 1
    assert stepper.accessibleDescription() == f"Step 7 of 7: {PHASES[-1].sentence}"


def test_how_much_of_a_phase_is_done_is_seen(qtbot, context):
    stepper = Stepper()
    qtbot.addWidget(stepper)
    stepper.resize(stepper.sizeHint())
    stepper.set(3, 0.25)
    quarter = bytes(stepper.grab().toImage().constBits())
    stepper.set(3, 0.75)
    assert bytes(stepper.grab().toImage().constBits()) != quarter
