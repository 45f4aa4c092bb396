"""A part of the comparison: what it found, or why it has nothing yet, and the command line that gives it."""

from collections.abc import Callable, Sequence

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QVBoxLayout, QWidget

from edgeopt_gui.jobs.command import Command
from edgeopt_gui.jobs.ending import Ending
from edgeopt_gui.pages.compare.rows import FigureRow
from edgeopt_gui.widgets.command_line import CommandLine
from edgeopt_gui.widgets.heading import heading
from edgeopt_gui.widgets.records import Column, RecordsModel
from edgeopt_gui.widgets.records_table import RecordsTable

CommandLines = Sequence[Command]
_MAX_COMMANDS = 2
_Figures = Column[FigureRow]


class Section(QWidget):
    def __init__(self, title: str, *content: QWidget, stretch: int = 0) -> None:
        """`stretch`: the place in `content` of what takes the room that is left, -1 for none."""
        super().__init__()
        self.heading = heading(title)
        self.message = QLabel()
        self.message.setWordWrap(True)
        self.message.setTextFormat(Qt.TextFormat.PlainText)
        self.message.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.content = QWidget()
        inside = QVBoxLayout(self.content)
        inside.setContentsMargins(0, 0, 0, 0)
        for place, widget in enumerate(content):
            inside.addWidget(widget, 1 if place == stretch else 0)
        if stretch < 0:
            inside.addStretch()
        self.command_lines = tuple(CommandLine() for _ in range(_MAX_COMMANDS))
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        for widget in (self.heading, self.message):
            column.addWidget(widget)
        # This layout is never hidden: without it, the message would expand while the content is hidden.
        room = QVBoxLayout()
        room.addWidget(self.content, 1)
        room.addStretch()
        column.addLayout(room, 1)
        for line in self.command_lines:
            column.addWidget(line)
        self.wait("", ())

    def wait(self, message: str, commands: CommandLines) -> None:
        """Hides the content, and shows a message and the commands that will provide the content."""
        self._say(message, wrong=False)
        self.content.hide()
        for place, line in enumerate(self.command_lines):
            line.set(commands[place] if place < len(commands) else None)

    def fail(self, ending: Ending, commands: CommandLines) -> None:
        self.wait("", commands)
        self._say(f"{ending.what} {ending.next_step}".strip(), wrong=ending.how != "cancelled")

    def show_content(self, commands: CommandLines, note: str = "") -> None:
        self.wait(note, commands)
        self.content.show()

    def _say(self, message: str, *, wrong: bool) -> None:
        self.message.setText(message)
        self.message.setVisible(bool(message))
        self.message.setProperty("role", "problem" if wrong else "muted")
        self.message.style().unpolish(self.message)
        self.message.style().polish(self.message)


class FigureTable(RecordsTable):
    """A table of figures with their values in A, in B, and the difference; its columns are titled by side."""

    def __init__(self, name: str, what: str) -> None:
        super().__init__(RecordsModel(_columns(what, "A", "B"), key=lambda row: row.what), name)

    def show_rows(self, rows: Sequence[FigureRow], names: tuple[str, str]) -> None:
        self.records.columns = _columns(self.records.columns[0].title, *names)
        self.records.set_rows(rows)
        self.fit()


def _columns(what: str, first: str, second: str) -> tuple[_Figures, ...]:
    def shown(
        text: Callable[[FigureRow], str], value: Callable[[FigureRow], float | None], title: str
    ) -> _Figures:
        return Column(title, value, text, align="right", title_tip=title, max_letters=30)

    return (
        Column(what, lambda row: row.what),
        shown(lambda row: row.first_text, lambda row: row.first, first),
        shown(lambda row: row.second_text, lambda row: row.second, second),
        Column("difference", _difference, lambda row: row.change, align="right"),
    )


def _difference(row: FigureRow) -> float | None:
    return None if row.first is None or row.second is None else row.second - row.first
