"""The banner above measured figures while others would be disturbed, with a button to measure again later."""

from collections.abc import Callable

from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton

from edgeopt_gui.actions.book import ActionBook
from edgeopt_gui.quiet import QuietWatch

_WHEN_QUIET, _CANCEL = "Measure again when quiet", "Do not wait"


class QuietBanner(QFrame):
    def __init__(self, watch: QuietWatch, key: Callable[[], str], has_measured: Callable[[], bool]) -> None:
        """`key`: of the action that measures again; `has_measured`: whether there are figures to replace."""
        super().__init__()
        self.setProperty("role", "card")
        self.setAccessibleName("Not a good moment to measure")
        self.sentence = QLabel(wordWrap=True)
        self.sentence.setTextFormat(Qt.TextFormat.PlainText)
        self.button = QPushButton(_WHEN_QUIET)
        self.button.clicked.connect(self._clicked)
        self.waiting = False
        """Whether the banner waits for a quiet device, to measure then."""
        self._watch, self._key, self._has_measured = watch, key, has_measured
        self._book: ActionBook | None = None
        line = self.fontMetrics().height()
        row = QHBoxLayout(self)
        row.setContentsMargins(line // 2, line // 3, line // 2, line // 3)
        row.addWidget(self.sentence, 1)
        row.addWidget(self.button)
        watch.changed.connect(self._show)
        self.hide()  # the page has no content yet

    def use(self, book: ActionBook) -> None:
        self._book = book
        book.refreshed.connect(self._show)

    def _clicked(self) -> None:
        self.waiting = not self.waiting
        self._show()

    def _show(self) -> None:
        problem = self._watch.problem
        if self.waiting and self._watch.quiet and self._can_be_done():
            self.waiting = False
            QTimer.singleShot(0, self, self._measure)  # not in the middle of a refresh
        wait = " Measures again as soon as it is quiet." if self.waiting else ""
        self.sentence.setText(f"Not a good moment to measure: {problem or 'waiting.'}{wait}")
        self.button.setText(_CANCEL if self.waiting else _WHEN_QUIET)
        self.setVisible((bool(problem) and self._has_measured()) or self.waiting)

    def _measure(self) -> None:
        if self._book is not None:
            self._book[self._key()].shown.trigger()

    def _can_be_done(self) -> bool:
        return self._book is not None and self._book[self._key()].shown.isEnabled()
