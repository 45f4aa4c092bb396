import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QPalette
from PySide6.QtWidgets import QLabel, QPushButton

from edgeopt_gui.widgets.chips import Chips
from edgeopt_gui.widgets.fact import Fact, FactGroup
from edgeopt_gui.widgets.facts import FactsView

GROUPS = (
    FactGroup("CPU", (Fact("Model", "A <b>CPU</b>", "/proc/cpuinfo"), Fact("Sets", "", words=("avx", "avx2")))),
    FactGroup("Not here", (Fact("OpenVINO", "Not installed.", copy="pip install openvino"),)),
)


@pytest.fixture
def view(qtbot):
    made = FactsView()
    made.set_groups(GROUPS)
    qtbot.addWidget(made)
    made.resize(500, 300)
    made.show()
    return made


def texts(view):
    return [label.text() for label in view.findChildren(QLabel) if label.isVisible()]


def test_shows_names_and_values_as_they_are(view):
    assert texts(view) == ["CPU", "Model", "A <b>CPU</b>", "Sets", "Not here", "OpenVINO", "Not installed."]
    value = next(label for label in view.findChildren(QLabel) if label.text().startswith("A "))
    assert value.textFormat() == Qt.TextFormat.PlainText
    assert [chips.words for chips in view.findChildren(Chips)] == [("avx", "avx2")]


def test_a_long_name_is_cut_with_an_ellipsis_and_whole_in_the_tip(qtbot):
    view = FactsView(name_letters=10)
    view.set_groups((FactGroup("Inputs", (Fact("input_ids_of_the_tokenizer", "int64"), Fact("image", "f"))),))
    qtbot.addWidget(view)
    view.show()
    long = next(label for label in view.findChildren(QLabel) if label.accessibleName().startswith("input_ids_of"))
    assert "…" in long.text()
    assert long.fontMetrics().horizontalAdvance(long.text()) <= long.width()
    assert long.toolTip() == "input_ids_of_the_tokenizer"
    assert "image" in texts(view)


def test_sources_stand_in_the_tip_and_come_on_demand(view):
    value = next(label for label in view.findChildren(QLabel) if label.text().startswith("A "))
    assert value.toolTip() == "Source: /proc/cpuinfo"
    view.show_sources(True)
    assert "from /proc/cpuinfo" in texts(view)
    view.show_sources(False)
    assert "from /proc/cpuinfo" not in texts(view)


def test_sources_stay_shown_when_the_facts_change(qtbot, view):
    view.show_sources(True)
    view.set_groups((FactGroup("", (Fact("Model", "Another", "/sys/x"),)),))
    qtbot.waitUntil(lambda: texts(view) == ["Model", "Another", "from /sys/x"])


def test_a_button_gives_the_text_to_copy(qtbot, view):
    with qtbot.waitSignal(view.copied) as copied:
        qtbot.mouseClick(view.findChild(QPushButton), Qt.MouseButton.LeftButton)
    assert copied.args == ["pip install openvino"]


def test_screen_readers_hear_name_and_value_together(view):
    assert view.findChild(Chips).accessibleName() == "Sets: avx, avx2"


def test_a_link_has_the_colour_of_the_scheme_after_the_scheme_changed(qtbot, context):
    context.settings.keep("theme", "light")
    view = FactsView()
    qtbot.addWidget(view)
    view.set_groups([FactGroup("", (Fact("Input", "MMMMMM", link="made by x"),))])
    view.resize(400, 100)
    view.show()

    def drawn():
        image = view.grab().toImage()
        return {image.pixelColor(x, y).name() for x in range(image.width()) for y in range(image.height())}

    light = view.palette().color(QPalette.ColorRole.Link).name()
    assert light in drawn()
    context.settings.keep("theme", "dark")
    dark = view.palette().color(QPalette.ColorRole.Link).name()
    assert dark != light
    assert dark in drawn()
    assert light not in drawn()
