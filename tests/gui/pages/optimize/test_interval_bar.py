"""The drawn interval: where its colour stands in a picture of the cell."""

import pytest
from PySide6.QtGui import QImage, QPainter
from PySide6.QtWidgets import QStyleOptionViewItem

from edgeopt_gui.pages.optimize.board import Row
from edgeopt_gui.pages.optimize.candidates import COLUMNS
from edgeopt_gui.pages.optimize.interval_bar import IntervalBar
from edgeopt_gui.theme import colours
from edgeopt_gui.widgets.records import RecordsModel
from edgeopt_gui.widgets.speed_axis import place_on, ticks

WIDE, HIGH = 216, 24
SPAN = (0.25, 4.0)


def drawn(row):
    model = RecordsModel(COLUMNS, lambda r: r.name)
    model.set_rows([row])
    image = QImage(WIDE, HIGH, QImage.Format.Format_RGB32)
    image.fill(0xFFFFFF)
    bar, option = IntervalBar(), QStyleOptionViewItem()
    bar.span = SPAN
    option.rect = image.rect()
    painter = QPainter(image)
    bar.paint(painter, option, model.index(0, 2))
    painter.end()
    return image


def columns_of(image, colour):
    """The pixels of the middle line that have this colour, about."""
    y = HIGH // 2
    found = [image.pixelColor(x, y) for x in range(WIDE)]
    near = [
        x
        for x, each in enumerate(found)
        if abs(each.red() - colour.red()) + abs(each.green() - colour.green()) + abs(each.blue() - colour.blue())
        < 60
    ]
    return [x / WIDE for x in near]


@pytest.mark.parametrize(
    ("row", "colour"),
    [
        (Row("a", "racing", speedup=2.0, low=1.8, high=2.2), colours.good),
        (Row("a", "lost", speedup=0.5, low=0.4, high=0.6), colours.bad),
    ],
)
def test_the_middle_stands_at_its_place_in_the_colour_of_the_verdict(qapp, context, row, colour):
    places = columns_of(drawn(row), colour())
    assert places
    middle = sum(places) / len(places)
    assert middle == pytest.approx(place_on(SPAN, row.speedup), abs=0.05)


def test_the_interval_of_the_proof_is_drawn_where_there_is_one(qapp, context):
    row = Row("a", "winner", speedup=1.2, low=1.1, high=1.3, proved=True)
    places = columns_of(drawn(row), colours.good())
    assert sum(places) / len(places) == pytest.approx(place_on(SPAN, 1.2), abs=0.05)


@pytest.mark.parametrize("span", [(0.9, 1.2), (0.5, 2.0), (0.2, 40.0)])
def test_the_axis_has_a_few_ticks_and_1x_among_them(span):
    found = ticks(span)
    assert 1.0 in found
    assert len(found) >= 3
    assert all(span[0] <= tick <= span[1] for tick in found)


def test_without_a_speed_only_the_line_at_1x_is_drawn(qapp, context):
    image = drawn(Row("a", "racing"))
    assert columns_of(image, colours.good()) == []
    assert len({image.pixel(WIDE // 2, y) for y in range(HIGH)} | {image.pixel(3, 3)}) > 1
