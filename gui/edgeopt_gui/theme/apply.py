"""Applies the light or dark theme, as the setting or the system says, and again when one of them changes."""

import weakref
from pathlib import Path

from PySide6.QtCore import QCoreApplication, QEvent, QObject, Qt
from PySide6.QtGui import QFontMetrics
from PySide6.QtWidgets import QApplication, QStyleFactory

from edgeopt.workspace import temporary_folder
from edgeopt_gui.settings import Settings
from edgeopt_gui.theme.icons import forget_icons
from edgeopt_gui.theme.palettes import palette
from edgeopt_gui.theme.scheme import NOTICE
from edgeopt_gui.theme.style import stylesheet, write_pictures

SETTING = "theme"
CHOICES = ("system", "light", "dark")


class Theme(QObject):
    def __init__(self, application: QApplication, settings: Settings) -> None:
        super().__init__(application)
        self._application = application
        self._settings = settings
        self._dark: bool | None = None
        self._folder = temporary_folder("theme")
        weakref.finalize(self, self._folder.cleanup)
        application.setStyle(QStyleFactory.create("Fusion"))
        application.styleHints().colorSchemeChanged.connect(self._apply)
        settings.changed.connect(self._apply)
        self._apply()

    def _apply(self) -> None:
        dark = self._wants_dark()
        if dark == self._dark:
            return
        self._dark = dark
        colours = palette(dark=dark)
        font = self._application.font()
        self._application.setPalette(colours)
        # Now, not with the next events: slots of `changed` ask their widgets for colours.
        QCoreApplication.sendPostedEvents(None, QEvent.Type.ApplicationPaletteChange)
        forget_icons()
        # A folder of its own for each scheme: Qt remembers pictures by their paths.
        pictures = Path(self._folder.name) / ("dark" if dark else "light")
        pictures.mkdir(exist_ok=True)
        write_pictures(pictures)
        NOTICE.sheet = stylesheet(colours, QFontMetrics(font), font.pointSizeF(), pictures)
        NOTICE.changed.emit()

    def _wants_dark(self) -> bool:
        choice = self._settings.text(SETTING, CHOICES[0])
        if choice in {"light", "dark"}:
            return choice == "dark"
        return self._application.styleHints().colorScheme() == Qt.ColorScheme.Dark
