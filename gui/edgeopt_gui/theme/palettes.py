"""The two palettes; everything else takes its colours from them by role."""

from PySide6.QtGui import QColor, QPalette

_Role = QPalette.ColorRole

# A role, its colour in the light palette, and in the dark one.
_COLOURS = (
    (_Role.Window, "#f4f5f7", "#1e2125"),
    (_Role.WindowText, "#1d2126", "#e4e7eb"),
    (_Role.Base, "#ffffff", "#25292e"),
    (_Role.AlternateBase, "#f7f8fa", "#2a2e34"),
    (_Role.Text, "#1d2126", "#e4e7eb"),
    (_Role.PlaceholderText, "#5f6874", "#9aa3af"),
    (_Role.Button, "#fbfbfc", "#2f343a"),
    (_Role.ButtonText, "#1d2126", "#e4e7eb"),
    (_Role.BrightText, "#ffffff", "#ffffff"),
    (_Role.Light, "#ffffff", "#3a4048"),
    (_Role.Midlight, "#e9ebee", "#343940"),
    (_Role.Mid, "#d3d7dd", "#434a53"),
    (_Role.Dark, "#aab0b9", "#15181b"),
    (_Role.Shadow, "#7d848e", "#0c0e10"),
    (_Role.Highlight, "#1a64c8", "#6ea8fe"),
    (_Role.HighlightedText, "#ffffff", "#0b1626"),
    (_Role.Accent, "#1a64c8", "#6ea8fe"),
    (_Role.Link, "#1558b0", "#8bb9ff"),
    (_Role.LinkVisited, "#6b4fa0", "#c0a6f0"),
    (_Role.ToolTipBase, "#ffffff", "#343940"),
    (_Role.ToolTipText, "#1d2126", "#e4e7eb"),
)
_DISABLED_TEXT = ("#8b929c", "#757d88")
_TEXTS = (_Role.WindowText, _Role.Text, _Role.ButtonText, _Role.HighlightedText)


def palette(*, dark: bool) -> QPalette:
    made = QPalette()
    for role, *colours in _COLOURS:
        made.setColor(role, QColor(colours[dark]))
    for role in _TEXTS:
        made.setColor(QPalette.ColorGroup.Disabled, role, QColor(_DISABLED_TEXT[dark]))
    made.setColor(QPalette.ColorGroup.Disabled, _Role.Highlight, made.color(_Role.Mid))
    made.setColor(QPalette.ColorGroup.Disabled, _Role.Accent, made.color(_Role.Mid))
    return made
