"""The log: what every job told, with a filter, to copy."""

from PySide6.QtCore import QTimer
from PySide6.QtGui import QGuiApplication, QKeyEvent, QKeySequence
from PySide6.QtWidgets import (
    QAbstractItemView,
    QComboBox,
    QDockWidget,
    QHBoxLayout,
    QHeaderView,
    QLineEdit,
    QPushButton,
    QTableView,
    QVBoxLayout,
    QWidget,
)
from shiboken6 import isValid

from edgeopt_gui import theme
from edgeopt_gui.jobs.job import Job
from edgeopt_gui.jobs.runner import JobRunner
from edgeopt_gui.log_lines import JobStory, Level, LogLine
from edgeopt_gui.theme.icons import icon
from edgeopt_gui.widgets.log_model import ALL, LogModel

_FLUSH_MS = 120
_LEVELS: tuple[tuple[str, tuple[Level, ...]], ...] = (
    ("Everything", ALL),
    ("Warnings and errors", ("warning", "error")),
    ("Errors", ("error",)),
)


class LogDock(QDockWidget):
    def __init__(self, jobs: JobRunner, parent: QWidget) -> None:
        super().__init__("Log", parent)
        self.setObjectName("log")
        self.model = LogModel(self)
        self._waiting: list[LogLine] = []
        # Jobs can emit a hundred events a second; the table gets them in batches.
        self._flush_timer = QTimer(self, singleShot=True, interval=_FLUSH_MS)
        self._flush_timer.timeout.connect(self.flush)
        self._table = _LogTable(self.model)
        self.filter = QLineEdit(placeholderText="Filter the log", clearButtonEnabled=True)
        self.filter.setAccessibleName("Filter the log")
        self.levels = QComboBox()
        self.levels.setAccessibleName("Levels")
        for title, levels in _LEVELS:
            self.levels.addItem(title, levels)
        self.filter.textChanged.connect(self._show_only)
        self.levels.currentIndexChanged.connect(self._show_only)
        self._copy = QPushButton("Copy")
        self._copy.setToolTip("Copy the selected lines, or all that are shown")
        self._copy.clicked.connect(self._table.copy)
        self._clear = QPushButton("Clear")
        self._clear.setToolTip("Empty the log")
        self._clear.clicked.connect(self.model.clear)
        bar = QHBoxLayout()
        bar.addWidget(self.filter, 1)
        bar.addWidget(self.levels)
        bar.addWidget(self._copy)
        bar.addWidget(self._clear)
        inside = QWidget()
        layout = QVBoxLayout(inside)
        layout.addLayout(bar)
        layout.addWidget(self._table)
        self.setWidget(inside)
        jobs.started.connect(self._follow)
        theme.scheme_changed.connect(self._dress)
        self._dress()

    def say(self, level: Level, source: str, text: str) -> None:
        self._add(LogLine(level, source, text))

    def flush(self) -> None:
        """Puts what waits into the table."""
        lines, self._waiting = self._waiting, []
        if lines:
            self.model.add(lines)

    def _follow(self, job: Job) -> None:
        story = JobStory(job.command)
        self._add(story.begun())
        job.event_received.connect(lambda event: self._add(story.line_of(event)))
        job.ended.connect(lambda ending: self._add(story.ended(ending)))

    def _add(self, line: LogLine | None) -> None:
        if line is None or not isValid(self):  # a job may end after the window
            return
        self._waiting.append(line)
        if not self._flush_timer.isActive():
            self._flush_timer.start()

    def _dress(self) -> None:
        self._copy.setIcon(icon("copy"))
        self._clear.setIcon(icon("clear"))

    def _show_only(self) -> None:
        self.model.show_only(self.filter.text(), self.levels.currentData())
        self._table.scrollToBottom()


class _LogTable(QTableView):
    def __init__(self, model: LogModel) -> None:
        super().__init__()
        self._lines = model
        self.setModel(model)
        self.setAccessibleName("Log")
        self.setShowGrid(False)
        self.setWordWrap(False)
        self.setTabKeyNavigation(False)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.verticalHeader().hide()
        self.verticalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        self.verticalHeader().setDefaultSectionSize(round(self.fontMetrics().height() * 1.5))
        self.horizontalHeader().setStretchLastSection(True)
        # At its end it stays there, whatever comes and whatever size it gets; moved by the user it stays too.
        self._at_end = True
        bar = self.verticalScrollBar()
        bar.valueChanged.connect(self._moved)
        bar.rangeChanged.connect(self._follow)
        letter = self.fontMetrics().averageCharWidth()
        for column, letters in enumerate((12, 11, 36)):
            self.setColumnWidth(column, letters * letter)

    def _moved(self, value: int) -> None:
        self._at_end = value >= self.verticalScrollBar().maximum()

    def _follow(self, _lowest: int, highest: int) -> None:
        if self._at_end:
            self.verticalScrollBar().setValue(highest)

    def copy(self) -> None:
        rows = sorted({index.row() for index in self.selectionModel().selectedRows()})
        shown = self._lines.shown
        lines = [shown[row] for row in rows] or list(shown)
        QGuiApplication.clipboard().setText("\n".join(line.plain for line in lines))

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 - Qt's name
        if event.matches(QKeySequence.StandardKey.Copy):
            self.copy()
        else:
            super().keyPressEvent(event)
