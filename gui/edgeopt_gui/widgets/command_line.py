"""The command line that does the same as the app, to read and to copy."""

from PySide6.QtGui import QFontDatabase, QGuiApplication
from PySide6.QtWidgets import QHBoxLayout, QLineEdit, QSizePolicy, QToolButton, QWidget

from edgeopt_gui import theme
from edgeopt_gui.jobs.command import Command
from edgeopt_gui.theme.icons import icon


class CommandLine(QWidget):
    """One line; hidden while there is no command."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._line = QLineEdit(readOnly=True)
        self._line.setObjectName("command-line")
        self._line.setAccessibleName("Command line")
        self._line.setToolTip("Shell command that does the same")
        fixed = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont)
        fixed.setPointSizeF(self.font().pointSizeF())
        self._line.setFont(fixed)
        self._line.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self._copy = QToolButton(autoRaise=True)
        self._copy.setText("Copy")
        self._copy.setToolTip("Copy the command line")
        self._copy.setAccessibleName("Copy the command line")
        self._copy.clicked.connect(self.copy)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.addWidget(self._line)
        row.addWidget(self._copy)
        self.set(None)
        theme.scheme_changed.connect(self._dress)
        self._dress()

    def set(self, command: Command | None) -> None:
        self.setVisible(command is not None)
        self._line.setText(command.line if command is not None else "")
        self._line.setCursorPosition(0)

    def text(self) -> str:
        return self._line.text()

    def _dress(self) -> None:
        self._copy.setIcon(icon("copy"))

    def copy(self) -> None:
        QGuiApplication.clipboard().setText(self._line.text())
