import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QPalette

from edgeopt_gui.widgets.bars import Bar, BarChart

BARS = (Bar("Conv", "Conv", 8, "8", "8 nodes"), Bar("Relu", "Relu", 4, "4"), Bar("Add", "Add", 0, "0"))


@pytest.fixture
def chart(qtbot):
    made = BarChart("Operators")
    made.set_bars(BARS)
    made.told = []
    made.chosen.connect(made.told.append)
    qtbot.addWidget(made)
    made.resize(300, made.sizeHint().height())
    made.show()
    return made


def middle(chart, place):
    line = chart.height() // len(chart.bars)
    return QPoint(chart.width() // 2, line * place + line // 2)


def test_a_click_chooses_and_a_second_one_gives_up(qtbot, chart):
    for _ in range(2):
        qtbot.mouseClick(chart, Qt.MouseButton.LeftButton, pos=middle(chart, 1))
    qtbot.mouseClick(chart, Qt.MouseButton.LeftButton, pos=middle(chart, 0))
    assert chart.told == ["Relu", "", "Conv"]


def test_everything_works_by_keyboard(qtbot, chart):
    keys = Qt.Key
    for key in (keys.Key_Down, keys.Key_Return, keys.Key_End, keys.Key_Space, keys.Key_Escape, keys.Key_Home):
        qtbot.keyClick(chart, key)
    assert chart.told == ["Relu", "Add", ""]
    assert chart.accessibleName() == "Operators. Conv: 8"


def test_tells_screen_readers_what_is_chosen_and_all_values(chart):
    chart.choose("Conv")
    assert chart.accessibleName() == "Operators. Conv: 8, chosen"
    assert chart.accessibleDescription() == "Conv 8, Relu 4, Add 0"


def test_tells_where_the_cursor_went(qtbot, chart):
    with qtbot.waitSignal(chart.moved) as moved:
        qtbot.keyClick(chart, Qt.Key.Key_End)
    assert moved.args[0].center().y() == pytest.approx(middle(chart, 2).y(), abs=1)


def accent_pixels(chart, place):
    image = chart.grab().toImage()
    colour = chart.palette().color(QPalette.ColorRole.Accent)
    y = middle(chart, place).y()
    return sum(image.pixelColor(x, y) == colour for x in range(image.width()))


def test_a_bar_is_as_long_as_its_value(chart):
    chart.clearFocus()
    assert accent_pixels(chart, 0) == pytest.approx(2 * accent_pixels(chart, 1), abs=6)
    assert accent_pixels(chart, 1) > 30
    assert accent_pixels(chart, 2) < 8


def test_new_bars_forget_the_choice(chart):
    chart.choose("Conv")
    chart.set_bars(BARS[1:])
    assert chart.choice == ""
    chart.set_bars(())
    assert chart.sizeHint().height() == 0
