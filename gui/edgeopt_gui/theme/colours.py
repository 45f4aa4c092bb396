"""Colours that no palette has: for curves, and for good and bad; each for the current scheme.

The curves' colours are those of Okabe and Ito, which colour-blind eyes can tell apart, darker for a light
background and lighter for a dark one, so that a thin line keeps a contrast of at least 3:1.
"""

from functools import cache

from PySide6.QtGui import QColor, QGuiApplication, QPalette

from edgeopt_gui.theme.scheme import is_dark

# Blue, vermilion, green, purple, orange, sky, grey, olive.
_LIGHT = ("#0066a8", "#c64a00", "#00805d", "#a8457f", "#a86f00", "#1f7fb5", "#5f6670", "#6f7500")
_MIN_CONTRAST = 3.0
_DARK = ("#5aa9e6", "#ff8a4c", "#2fc79a", "#e08fbd", "#f0b429", "#8fd3ff", "#aab2bd", "#d6cf4a")


def series(index: int) -> QColor:
    """Returns the colour of a curve; the colours repeat after eight."""
    colours = _DARK if is_dark() else _LIGHT
    return QColor(colours[index % len(colours)])


def good() -> QColor:
    return QColor("#3fc380" if is_dark() else "#18794e")


def bad() -> QColor:
    return QColor("#ff8f86" if is_dark() else "#b3261e")


def muted() -> QColor:
    """Returns the colour of less important things: baselines, sources, rejected candidates."""
    return QGuiApplication.palette().color(QPalette.ColorRole.PlaceholderText)


def swatch(colour: QColor | str) -> QColor:
    """Returns the colour of a filled area; in a dark scheme, lightened to a contrast of at least 3:1."""
    if not is_dark():
        return QColor(colour)
    return QColor(
        _lightened(QColor(colour).name(), QGuiApplication.palette().color(QPalette.ColorRole.Base).name())
    )


@cache
def _lightened(name: str, background: str) -> str:
    colour, behind = QColor(name), _luminance(QColor(background))
    for part in range(1, 101):
        if (_luminance(colour) + 0.05) / (behind + 0.05) >= _MIN_CONTRAST:
            break
        red, green, blue = (round(each + (255 - each) * part / 100) for each in _parts(QColor(name)))
        colour = QColor(red, green, blue)
    return colour.name()


def _luminance(colour: QColor) -> float:
    """Returns the relative luminance of WCAG 2."""
    parts = (each / 255 for each in _parts(colour))
    red, green, blue = (each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _parts(colour: QColor) -> tuple[int, int, int]:
    return colour.red(), colour.green(), colour.blue()
