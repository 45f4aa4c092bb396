"""A button with an icon alone, in the colours of the present theme."""

from PySide6.QtWidgets import QToolButton

from edgeopt_gui import theme
from edgeopt_gui.theme.icons import icon


class IconButton(QToolButton):
    def __init__(self, picture: str, name: str, tip: str = "") -> None:
        """`tip`: the tool tip, by default the name."""
        super().__init__()
        self._picture = picture
        self.setAutoRaise(True)
        self.setAccessibleName(name)
        self.setToolTip(tip or name)
        theme.scheme_changed.connect(self._dress)
        self._dress()

    def _dress(self) -> None:
        self.setIcon(icon(self._picture))
