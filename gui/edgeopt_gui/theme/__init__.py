"""The theme of the app: palettes for light and dark, icons, and the colours of charts."""

from edgeopt_gui.theme.scheme import NOTICE

scheme_changed = NOTICE.changed
"""Emitted when the colours have changed: ask `colours` and `sheet` again and repaint."""


def sheet() -> str:
    """Returns the stylesheet that `dressing` sets on the parts of a window.

    The application has none: Qt would then style every widget again whenever one around it gets a parent, so that
    building a page took twice as long; and another sheet would style a widget once for each one around it.
    """
    return NOTICE.sheet
