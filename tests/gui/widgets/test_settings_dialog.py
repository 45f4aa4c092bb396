import pytest
from PySide6.QtWidgets import QDialogButtonBox

from edgeopt.data.demo import MODEL
from edgeopt_gui.pages.live.page import ENTRY as LIVE
from edgeopt_gui.theme.scheme import is_dark
from edgeopt_gui.widgets.settings_dialog import AGENT_URL, BUDGET, CONFIRM_QUIT, TIME_LIMIT_S, SettingsDialog


@pytest.fixture
def window(open_window):
    return open_window((LIVE,))


def opened(window):
    window.book["app.settings"].shown.trigger()
    return window.findChild(SettingsDialog)


def test_what_is_changed_is_kept_and_shown_again(window, settings):
    dialog = opened(window)
    dialog.theme.setCurrentText("Dark")
    assert is_dark()
    dialog.budget.setCurrentIndex(dialog.budget.findData("balanced"))
    dialog.limit.setValue(120)
    dialog.url.setText(" http://pi:8080 ")
    dialog.confirm.setChecked(False)
    dialog.close()
    assert settings.text("theme") == "dark"
    assert settings.text(BUDGET) == "balanced"
    assert settings.number(TIME_LIMIT_S, 0) == 120
    assert settings.text(AGENT_URL) == "http://pi:8080"
    assert not settings.flag(CONFIRM_QUIT, True)
    again = SettingsDialog(settings, window)
    assert again.theme.currentText() == "Dark"
    assert again.budget.currentData() == "balanced"
    assert again.limit.value() == 120
    assert again.url.text() == "http://pi:8080"
    assert not again.confirm.isChecked()
    again.limit.setValue(again.limit.minimum())
    assert settings.number(TIME_LIMIT_S, -1) == 0, "edgeopt goes by the model's size"


def test_nonsense_in_the_file_becomes_the_default(window, settings):
    for key in ("theme", BUDGET, TIME_LIMIT_S):
        settings.keep(key, "nonsense")
    dialog = SettingsDialog(settings, window)
    assert dialog.theme.currentData() == "system"
    assert dialog.budget.currentData() == "transparent"
    assert dialog.limit.value() == dialog.limit.minimum()


def test_everything_can_be_reset(window, settings):
    settings.keep("theme", "dark")
    settings.remember(MODEL)
    dialog = opened(window)
    dialog.findChild(QDialogButtonBox).button(QDialogButtonBox.StandardButton.RestoreDefaults).click()
    assert settings.recent() == ()
    assert not is_dark()
    assert not dialog.isVisible()


def test_an_own_floor_is_not_passed_off_as_another_one(window, settings):
    assert SettingsDialog(settings, window).budget.findData("own") == -1
    settings.keep(BUDGET, "own")
    dialog = SettingsDialog(settings, window)
    assert dialog.budget.currentText() == "Your own floor"
