import math

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QColor, QPalette
from PySide6.QtWidgets import QLabel, QPushButton

from edgeopt_gui.theme import colours
from edgeopt_gui.widgets.bars import Bar, BarChart
from edgeopt_gui.widgets.chips import Chips
from edgeopt_gui.widgets.fact import Fact, FactGroup
from edgeopt_gui.widgets.facts import FactsView
from edgeopt_gui.widgets.gauge import KEPT, Gauge
from edgeopt_gui.widgets.interval import IntervalView
from edgeopt_gui.widgets.reading import Reading

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


@pytest.fixture
def gauge(qtbot):
    made = Gauge("Load")
    qtbot.addWidget(made)
    made.resize(240, 120)
    made.show()
    return made


def test_shows_the_value_and_what_it_is_of(gauge):
    gauge.show_reading(Reading("Load", "42 %", "of all cores", 42.0, 100.0))
    assert (gauge.text, gauge.note) == ("42 %", "of all cores")
    assert gauge.accessibleName() == "Load: 42 %. of all cores"


def test_a_missing_value_says_why_and_draws_no_curve(gauge):
    gauge.show_reading(Reading("Clock", "not known", "The kernel has no cpufreq files."))
    assert gauge.note == "The kernel has no cpufreq files."
    assert not gauge.curve.isVisible()


def test_the_curve_keeps_the_last_values_with_their_gaps(gauge):
    for value in (*range(KEPT), None):
        gauge.show_reading(Reading("Load", "", value=value, top=100.0))
    assert gauge.curve.values == (*range(1, KEPT), None)
    assert gauge.curve.isVisible()


def highest_pixel(gauge):
    image = gauge.curve.grab().toImage()
    accent = gauge.palette().color(QPalette.ColorRole.Accent)
    coloured = [
        y
        for y in range(image.height())
        for x in range(image.width())
        if abs(image.pixelColor(x, y).hue() - accent.hue()) < 8 and image.pixelColor(x, y).saturation() > 60
    ]
    return min(coloured, default=image.height())


@pytest.mark.parametrize(("value", "top"), [(100.0, 100.0), (7.0, None)])
def test_the_top_of_the_axis_is_the_top_of_the_curve(gauge, value, top):
    for _ in range(KEPT):
        gauge.show_reading(Reading("Load", "", value=value, top=top))
    assert highest_pixel(gauge) <= 2


def test_a_low_value_stays_low(gauge):
    for _ in range(KEPT):
        gauge.show_reading(Reading("Load", "", value=10.0, top=100.0))
    assert highest_pixel(gauge) > gauge.curve.height() * 0.7


@pytest.fixture
def view(qtbot, context):
    made = IntervalView()
    qtbot.addWidget(made)
    made.resize(400, 60)
    return made


def reach(view):
    """From where to where the interval is drawn, as shares of the width."""
    image = view.grab().toImage()
    base = image.pixelColor(2, 2)
    y = (image.height() - view.fontMetrics().height()) // 2 + 4
    drawn = [
        x for x in range(image.width()) if _far(image.pixelColor(x, y), base) and _coloured(image.pixelColor(x, y))
    ]
    return min(drawn) / image.width(), max(drawn) / image.width()


def _far(one: QColor, other: QColor) -> bool:
    return abs(one.red() - other.red()) + abs(one.green() - other.green()) + abs(one.blue() - other.blue()) > 60


def _coloured(one: QColor) -> bool:
    good = colours.good()
    return abs(one.hue() - good.hue()) < 25 and one.saturation() > 30


def test_an_interval_above_1x_is_drawn_right_of_the_middle_of_the_axis(view):
    view.show_interval((1.5, 2.0, 2.5), "2x")
    low, high = reach(view)
    assert 0.4 < low < high < 0.98
    assert view.accessibleName() == "2x"


@pytest.mark.parametrize("high", [math.inf, 1e6])
def test_an_open_or_wild_end_is_drawn_without_squeezing_the_rest(view, high):
    view.show_interval((1.5, 2.0, high), "2x")
    low, end = reach(view)
    assert low > 0.3
    assert end > 0.97


def test_an_interval_that_is_open_below_begins_at_the_left_end(view):
    view.show_interval((None, None, None), "")
    before = view.grab().toImage()
    view.show_interval((0.0, 1.02, math.inf), "too few rounds")
    after = view.grab().toImage()
    y = (after.height() - view.fontMetrics().height()) // 2
    assert all(_far(after.pixelColor(x, y), before.pixelColor(x, y)) for x in (20, after.width() - 20))


WORDS = ("avx", "avx2", "fma", "avx512f", "avx512bw")


@pytest.fixture
def chips(qtbot):
    made = Chips(WORDS)
    qtbot.addWidget(made)
    return made


def test_the_words_take_as_many_lines_as_they_need(chips):
    one_line = chips.heightForWidth(2000)
    widest = chips.minimumSizeHint().width()
    assert chips.heightForWidth(widest) > 3 * one_line
    assert Chips(()).heightForWidth(100) == 0


def test_screen_readers_hear_the_words(chips):
    assert chips.accessibleName() == "avx, avx2, fma, avx512f, avx512bw"


def test_something_is_drawn(chips):
    chips.resize(400, chips.heightForWidth(400))
    image = chips.grab().toImage()
    assert len({image.pixel(x, y) for x in range(image.width()) for y in range(image.height())}) > 2


GROUPS = (
    FactGroup("CPU", (Fact("Model", "A <b>CPU</b>", "/proc/cpuinfo"), Fact("Sets", "", words=("avx", "avx2")))),
    FactGroup("Not here", (Fact("OpenVINO", "Not installed.", copy="pip install openvino"),)),
)


@pytest.fixture
def facts_view(qtbot):
    made = FactsView()
    made.set_groups(GROUPS)
    qtbot.addWidget(made)
    made.resize(500, 300)
    made.show()
    return made


def texts(view):
    return [label.text() for label in view.findChildren(QLabel) if label.isVisible()]


def test_shows_names_and_values_as_they_are(facts_view):
    assert texts(facts_view) == ["CPU", "Model", "A <b>CPU</b>", "Sets", "Not here", "OpenVINO", "Not installed."]
    value = next(label for label in facts_view.findChildren(QLabel) if label.text().startswith("A "))
    assert value.textFormat() == Qt.TextFormat.PlainText
    assert [chips.words for chips in facts_view.findChildren(Chips)] == [("avx", "avx2")]


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


def test_sources_stand_in_the_tip_and_come_on_demand(facts_view):
    value = next(label for label in facts_view.findChildren(QLabel) if label.text().startswith("A "))
    assert value.toolTip() == "Source: /proc/cpuinfo"
    facts_view.show_sources(True)
    assert "from /proc/cpuinfo" in texts(facts_view)
    facts_view.show_sources(False)
    assert "from /proc/cpuinfo" not in texts(facts_view)


def test_sources_stay_shown_when_the_facts_change(qtbot, facts_view):
    facts_view.show_sources(True)
    facts_view.set_groups((FactGroup("", (Fact("Model", "Another", "/sys/x"),)),))
    qtbot.waitUntil(lambda: texts(facts_view) == ["Model", "Another", "from /sys/x"])


def test_a_button_gives_the_text_to_copy(qtbot, facts_view):
    with qtbot.waitSignal(facts_view.copied) as copied:
        qtbot.mouseClick(facts_view.findChild(QPushButton), Qt.MouseButton.LeftButton)
    assert copied.args == ["pip install openvino"]


def test_screen_readers_hear_name_and_value_together(facts_view):
    assert facts_view.findChild(Chips).accessibleName() == "Sets: avx, avx2"


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
