"""The first steps to add devices to a fleet, with commands to copy."""

from PySide6.QtGui import QFontDatabase, QGuiApplication
from PySide6.QtWidgets import QHBoxLayout, QLineEdit, QPushButton, QVBoxLayout, QWidget

from edgeopt.errors import pip_install
from edgeopt_gui.widgets.heading import quiet

_BROKER = "mqtts://broker.example.com"


def steps(broker: str = "") -> tuple[tuple[str, str], ...]:
    """Returns an instruction and its command for each step, with three devices as the example."""
    address = broker or _BROKER
    return (
        (
            "1. On each of the three devices, install the packages of the extra fleet beside the agent",
            pip_install("fleet"),
        ),
        (
            "2. In its agent.toml, name the broker and the device: camera-1, camera-2, camera-3",
            f'[mqtt]\nurl = "{address}"\ndevice = "camera-1"',
        ),
        (
            "3. Check the settings, and start the agent again",
            "edgeopt-agent config check && systemctl restart edgeopt-agent",
        ),
        ("4. The devices appear here, and in the command line", f"edgeopt fleet devices --broker {address}"),
    )


class GettingStarted(QWidget):
    def __init__(self) -> None:
        super().__init__()
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(self.fontMetrics().height() // 4)
        self.lines: list[QLineEdit] = []
        self._commands: list[str] = []
        self._fields()

    def show_broker(self, broker: str) -> None:
        for place, (_, command) in enumerate(steps(broker)):
            self._commands[place] = command
            self.lines[place].setText(command.replace("\n", "  "))
            self.lines[place].setCursorPosition(0)

    def _fields(self) -> None:
        fixed = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont)
        fixed.setPointSizeF(self.font().pointSizeF())
        for place, (what, command) in enumerate(steps()):
            field = QLineEdit(readOnly=True)
            field.setObjectName("command-line")
            field.setFont(fixed)
            field.setAccessibleName(what)
            copy = QPushButton("Copy")
            copy.setAccessibleName(f"Copy: {what}")
            copy.clicked.connect(lambda _=False, place=place: self.copy(place))
            row = QHBoxLayout()
            row.addWidget(field, 1)
            row.addWidget(copy)
            self._column.addWidget(quiet(what))
            self._column.addLayout(row)
            self.lines.append(field)
            self._commands.append(command)
        self.show_broker("")

    def copy(self, place: int) -> None:
        """Copies a command to the clipboard, with its line breaks."""
        QGuiApplication.clipboard().setText(self._commands[place])
