"""The settings of a search: by keyboard, remembered, and the same as in the app's dialog."""

import numpy as np
import pytest
from PySide6.QtCore import Qt

from edgeopt.targets import Verdict
from edgeopt_gui.pages.optimize.choices import Choices
from edgeopt_gui.pages.optimize.settings_panel import SettingsPanel

TARGETS = (
    Verdict("cpu-avx2", "x86 CPU with AVX2", True, True, "x86_64 with avx2", used=True),
    Verdict("arm-dotprod", "Arm CPU", False, False, "it is for aarch64, and this device is x86_64"),
)


@pytest.fixture
def panel(qtbot, context):
    made = SettingsPanel(context)
    qtbot.addWidget(made)
    made.show()
    qtbot.waitExposed(made)
    return made


def test_a_floor_is_chosen_by_keyboard_and_explained(qtbot, panel):
    panel.budgets["transparent"].setFocus()
    qtbot.keyClick(panel.budgets["transparent"], Qt.Key.Key_Down)
    assert panel.choices.budget == "balanced"
    assert "more speed" in panel.sentence.text()
    assert not panel.own_db.isVisible()


def test_an_own_floor_shows_its_field(qtbot, panel):
    panel.budgets["own"].click()
    assert panel.own_db.isVisible()
    panel.own_db.setValue(55)
    assert panel.choices.floor == "55dB"


def test_a_target_that_does_not_fit_says_why(panel):
    panel.set_targets(TARGETS)
    assert panel.target.itemText(0) == "Automatic (cpu-avx2)"
    panel.target.setCurrentIndex(panel.target.findData("arm-dotprod"))
    assert "this device is x86_64" in panel.reason.text()
    assert panel.choices.target == "arm-dotprod"


def test_a_remembered_target_is_kept_when_the_list_comes(qtbot, context):
    context.settings.keep("optimize.target", "arm-dotprod")
    panel = SettingsPanel(context)
    qtbot.addWidget(panel)
    assert panel.choices.target == "arm-dotprod"
    panel.set_targets(TARGETS)
    assert panel.choices.target == "arm-dotprod"


def test_everything_is_remembered_for_the_next_start(qtbot, context, panel):
    panel.budgets["own"].click()
    panel.own_db.setValue(62)
    panel.limit.setValue(90)
    again = SettingsPanel(context)
    qtbot.addWidget(again)
    assert again.choices == panel.choices == Choices("own", 62, "", 90)


def test_the_shortest_limit_is_what_the_command_line_takes(panel):
    assert panel.choices.time_limit_s is None
    panel.limit.stepUp()
    assert panel.choices.time_limit_s == 5


def test_it_follows_the_apps_settings_and_their_reset(panel, context):
    context.settings.keep("optimize.budget", "exact")
    context.settings.keep("optimize.time-limit-s", 45)
    assert panel.choices == Choices("exact", time_limit_s=45)
    context.settings.reset()
    assert panel.choices == Choices()


def test_the_samples_are_counted(qtbot, panel, context, tmp_path):
    np.savez(tmp_path / "d.npz", x=np.zeros((32, 3)))
    with qtbot.waitSignal(panel.data.counted):
        context.use_data(tmp_path / "d.npz")
    assert panel.data.name.text() == "d.npz"
    assert "32 samples: 16 calibrate" in panel.data.use.text()
    context.use_data(None)
    assert "Without data" in panel.data.use.text()


def test_bad_data_is_said_at_once(qtbot, panel, context, tmp_path):
    (tmp_path / "d.npz").write_text("no archive")
    with qtbot.waitSignal(panel.data.counted):
        context.use_data(tmp_path / "d.npz")
    assert panel.data.problem == "'d.npz' is no .npz archive."
    assert "samples along the first axis" in panel.data.use.text()
