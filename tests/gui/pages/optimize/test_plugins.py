"""Plug-ins among the settings of a search: a choice only where some are installed."""

from edgeopt_gui.pages.optimize.choices import Choices
from edgeopt_gui.pages.optimize.core import problems, vocabulary
from edgeopt_gui.pages.optimize.settings_panel import SettingsPanel
from edgeopt_gui.widgets import dialogs
from tests.plugins.planting import plant

__all__ = ["plant"]


def test_installed_plugins_can_be_left_out(qtbot, context, plant):
    bare = SettingsPanel(context)
    qtbot.addWidget(bare)
    bare.set_core(vocabulary(), problems)
    assert bare.plugins.isHidden()
    assert bare.choices.plugins
    plant("full", "raise RuntimeError('imported')", ("pass", "one", ":ONE"))
    plant("newer", "", ("pass", "one", ":ONE"), interface=2)
    panel = SettingsPanel(context)
    qtbot.addWidget(panel)
    panel.set_core(vocabulary(), problems)
    assert not panel.plugins.isHidden()
    assert panel.plugins.toolTip() == "full 1.0: ready\nnewer 1.0: wrong version"
    panel.plugins.setChecked(False)
    assert panel.choices == Choices(plugins=False)


def test_formats_of_plugins_are_offered_in_the_dialog(plant):
    plant("reader", "", ("importer", "mine", ".reader", 'suffixes = [".twolayers"]'))
    assert " *.twolayers" in dialogs.models()
