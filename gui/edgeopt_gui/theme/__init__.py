"""How the app looks: palettes for light and dark, icons, and the few colours that charts need."""

from edgeopt_gui.theme.scheme import NOTICE

scheme_changed = NOTICE.changed
"""The colours are other ones now: ask `colours` again and repaint."""
