"""Before a search: what it will do, and the button that starts it."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHBoxLayout, QLabel, QVBoxLayout, QWidget

from edgeopt_gui.pages.optimize.texts import large, quiet, selectable

_WHAT = (
    "edgeopt makes variants of the model, runs them on this device in turns against the model as it is, and keeps "
    "only what is measured faster and inside the accuracy floor on samples that calibration never saw."
)
_PROMISE = "Your model is never changed. If nothing is proved faster, the answer is to keep what you have."
_WIDE_LETTERS = 62


class Welcome(QWidget):
    def __init__(self) -> None:
        super().__init__()
        self.notice = selectable(QLabel(alignment=Qt.AlignmentFlag.AlignHCenter))
        self.notice.setObjectName("notice")
        self.title = large(QLabel(alignment=Qt.AlignmentFlag.AlignHCenter), 1.4)
        self.title.setTextFormat(Qt.TextFormat.PlainText)
        self.title.setWordWrap(True)
        texts = [self.notice, self.title, selectable(QLabel(_WHAT)), quiet(selectable(QLabel(_PROMISE)))]
        height = self.fontMetrics().height()
        inside = QWidget()
        inside.setFixedWidth(self.fontMetrics().averageCharWidth() * _WIDE_LETTERS)
        column = QVBoxLayout(inside)
        column.setSpacing(height)
        for text in texts:
            text.setAlignment(Qt.AlignmentFlag.AlignHCenter)
            column.addWidget(text)
        # Between stretches and not aligned: only so does Qt give wrapped text the height that it needs.
        row = QHBoxLayout()
        row.addStretch()
        row.addWidget(inside)
        row.addStretch()
        layout = QVBoxLayout(self)
        layout.addStretch(2)
        layout.addLayout(row)
        layout.addStretch(3)
        self.set("", "")

    def set(self, model: str, notice: str) -> None:
        self.title.setText(f"Find the fastest deployment of {model}")
        self.notice.setText(notice)
        self.notice.setVisible(bool(notice))
