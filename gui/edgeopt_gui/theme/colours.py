"""Colours that no palette has: for curves, and for good and bad; each for the current scheme.

The curves' colours are those of Okabe and Ito, which colour-blind eyes can tell apart, darker for a light
background and lighter for a dark one, so that a thin line keeps a contrast of at least 3:1.
"""

from PySide6.QtGui import QColor, QGuiApplication, QPalette

from edgeopt_gui.theme.scheme import is_dark

# Blue, vermilion, green, purple, orange, sky, grey, olive.
_LIGHT = ("#0066a8", "#c64a00", "#00805d", "#a8457f", "#a86f00", "#1f7fb5", "#5f6670", "#6f7500")
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
