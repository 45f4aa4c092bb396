"""Both schemes as eyes see them: contrast by WCAG's formula."""

import pytest
from PySide6.QtCore import QEvent
from PySide6.QtGui import QColor, QIcon, QPalette
from PySide6.QtWidgets import QPushButton, QVBoxLayout, QWidget

from edgeopt.diagram import colours as diagram
from edgeopt_gui import theme
from edgeopt_gui.pages.base import Entry, Page
from edgeopt_gui.theme import colours, icons
from edgeopt_gui.theme.palettes import palette
from edgeopt_gui.theme.scheme import is_dark

Role = QPalette.ColorRole


def luminance(colour):
    parts = [colour.redF(), colour.greenF(), colour.blueF()]
    linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.fixture(params=["light", "dark"])
def scheme(request, context):
    context.settings.keep("theme", request.param)
    return request.param


TEXTS = (
    (Role.WindowText, Role.Window),
    (Role.Text, Role.Base),
    (Role.Text, Role.AlternateBase),
    (Role.PlaceholderText, Role.Window),
    (Role.PlaceholderText, Role.Base),
    (Role.ButtonText, Role.Button),
    (Role.HighlightedText, Role.Highlight),
    (Role.Link, Role.Window),
    (Role.ToolTipText, Role.ToolTipBase),
)


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize(("text", "ground"), TEXTS)
def test_texts_can_be_read(dark, text, ground):
    made = palette(dark=dark)
    assert contrast(made.color(text), made.color(ground)) >= 4.5


def test_chart_colours_stand_out_from_the_ground_and_from_each_other(scheme):
    assert is_dark() == (scheme == "dark")
    ground = palette(dark=is_dark()).color(Role.Base)
    drawn = [colours.series(index) for index in range(8)]
    assert len({colour.name() for colour in drawn}) == 8
    assert all(contrast(colour, ground) >= 3 for colour in drawn)
    assert colours.series(8) == drawn[0]
    assert all(contrast(colour, ground) >= 4.5 for colour in (colours.good(), colours.bad(), colours.muted()))


def test_every_swatch_of_the_graph_stands_out_from_the_background(scheme):
    made = palette(dark=is_dark())
    for name in (
        *diagram.CATEGORIES.values(),
        *diagram._DTYPES.values(),
        *diagram._SCALE,
        *diagram.COLOURS.values(),
    ):
        shown = colours.swatch(name)
        if is_dark():
            assert contrast(shown, made.color(Role.Base)) >= 3, name
            assert contrast(shown, made.color(Role.Window)) >= 3, name
        else:
            assert shown.name() == name


def test_another_theme_is_worn_at_once_and_told(qtbot, context):
    context.settings.keep("theme", "light")
    button = QPushButton("x")
    qtbot.addWidget(button)
    button.show()
    with qtbot.waitSignal(theme.scheme_changed, timeout=1000):
        context.settings.keep("theme", "dark")
    assert button.palette().color(Role.Window).lightness() < 128
    context.settings.keep("theme", "system")
    assert not is_dark()


def test_every_icon_draws_something_in_the_colour_of_the_text(scheme, qapp):
    text = qapp.palette().color(Role.ButtonText)
    for path in icons.FOLDER.glob("*.svg"):
        image = icons.icon(path.stem).pixmap(24, 24, QIcon.Mode.Normal).toImage()
        inked = [
            QColor(image.pixelColor(x, y))
            for x in range(image.width())
            for y in range(image.height())
            if image.pixelColor(x, y).alpha() > 200
        ]
        assert len(inked) >= 12, path.stem
        assert all(abs(colour.lightness() - text.lightness()) < 12 for colour in inked), path.stem


def test_an_icon_on_an_accent_has_the_colour_of_its_text(scheme, qapp):
    image = icons.icon("stop", on_accent=True).pixmap(24, 24).toImage()
    inked = {
        image.pixelColor(x, y).name()
        for x in range(image.width())
        for y in range(image.height())
        if image.pixelColor(x, y).alpha() == 255
    }
    assert qapp.palette().color(Role.HighlightedText).name() in inked


class Counted(QWidget):
    def __init__(self, within=0):
        super().__init__()
        self.styled = 0
        self.inner = Counted(within - 1) if within else None
        if self.inner is not None:
            QVBoxLayout(self).addWidget(self.inner)

    def changeEvent(self, event):  # noqa: N802 - Qt's name
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange:
            self.styled += 1


@pytest.fixture
def counted(open_page, context):
    """The outermost and the innermost of many widgets on a page."""
    context.settings.keep("theme", "light")
    outer = Counted(12)

    class Deep(Page):
        def __init__(self, context):
            super().__init__(context)
            self.set_content(outer)
            self.show_content()

    open_page(Entry("deep", "Deep", "device", Deep, ()))
    inner = outer
    while inner.inner is not None:
        inner = inner.inner
    return outer, inner


def test_a_widget_that_lies_deep_is_not_styled_more_often_as_its_page_is_made(counted):
    assert 0 < counted[1].styled <= 4


def test_another_scheme_styles_a_widget_no_more_often_where_it_lies_deep(counted, context):
    outer, inner = counted
    before = outer.styled, inner.styled
    context.settings.keep("theme", "dark")
    assert outer.styled - before[0] == inner.styled - before[1] > 0
