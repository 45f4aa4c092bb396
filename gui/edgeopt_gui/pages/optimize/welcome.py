"""The start of the page Optimize: the steps of a search before it begins."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QGridLayout, QHBoxLayout, QLabel, QScrollArea, QVBoxLayout, QWidget

from edgeopt_gui.pages.optimize.phases import PHASES
from edgeopt_gui.pages.optimize.texts import large, quiet, selectable

_PROMISE = "Your model is never changed. If nothing is proved faster, you keep it as it is."
_WIDE_LETTERS = 72


class Welcome(QScrollArea):
    def __init__(self) -> None:
        super().__init__()
        self.setFrameShape(QScrollArea.Shape.NoFrame)
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setAccessibleName("What a search does")
        self.notice = selectable(QLabel())
        self.notice.setObjectName("notice")
        self.title = large(QLabel(), 1.4)
        self.title.setTextFormat(Qt.TextFormat.PlainText)
        self.title.setWordWrap(True)
        height = self.fontMetrics().height()
        inside = QWidget()
        inside.setMaximumWidth(self.fontMetrics().averageCharWidth() * _WIDE_LETTERS)
        column = QVBoxLayout(inside)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(height)
        for widget in (self.notice, self.title, _steps(height), quiet(selectable(QLabel(_PROMISE)))):
            column.addWidget(widget)
        # Between stretches instead of aligned: Qt gives wrapped text enough height only in this way.
        whole = QWidget()
        row = QHBoxLayout(whole)
        row.setContentsMargins(0, 0, height, 0)
        middle = QVBoxLayout()
        middle.addStretch(2)
        middle.addWidget(inside)
        middle.addStretch(3)
        row.addStretch(1)
        row.addLayout(middle, 8)
        row.addStretch(1)
        self.setWidget(whole)
        self.set("", "")

    def set(self, model: str, notice: str) -> None:
        self.title.setText(f"Find the fastest deployment of {model}")
        self.notice.setText(notice)
        self.notice.setVisible(bool(notice))


def _steps(height: int) -> QWidget:
    steps = QWidget()
    grid = QGridLayout(steps)
    grid.setContentsMargins(0, 0, 0, 0)
    grid.setHorizontalSpacing(height)
    grid.setVerticalSpacing(height * 2 // 3)
    grid.setColumnStretch(2, 1)
    for place, phase in enumerate(PHASES):
        number, name, plan = quiet(QLabel(f"{place + 1}")), QLabel(phase.short), QLabel(phase.plan)
        name.setProperty("role", "heading")
        plan.setWordWrap(True)
        for at, label in enumerate((number, name, plan)):
            grid.addWidget(label, place, at, Qt.AlignmentFlag.AlignTop)
    return steps
