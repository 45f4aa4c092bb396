"""The ways to begin while no model is open, a card each."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QVBoxLayout, QWidget

from edgeopt_gui.widgets.action_button import ActionButton

_DOORS = (
    (
        "app.open-model",
        "An ONNX model, or one of another framework. You can also drop it on the window.",
    ),
    ("app.open-sample", "A small model that reads handwritten digits, with its data."),
    ("app.watch-device", "Latency, memory and deployments of a device that runs the edgeopt agent."),
)


class Doors(QWidget):
    def __init__(self) -> None:
        super().__init__()
        self.buttons = tuple(ActionButton(key) for key, _ in _DOORS)
        self.buttons[0].stands_out = True
        line = self.fontMetrics().height()
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(line)
        for button, (_, text) in zip(self.buttons, _DOORS, strict=True):
            about = QLabel(
                text, wordWrap=True, alignment=Qt.AlignmentFlag.AlignHCenter | Qt.AlignmentFlag.AlignTop
            )
            about.setProperty("role", "muted")
            button.setAccessibleDescription(text)
            card = QFrame()
            card.setProperty("role", "card")
            column = QVBoxLayout(card)
            column.setContentsMargins(line, line, line, line)
            column.setSpacing(line // 2)
            column.addWidget(button)
            column.addWidget(about, 1)
            row.addWidget(card, 1)
