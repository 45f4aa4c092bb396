"""The ways to begin while no model is open, a card each."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QGridLayout, QLabel, QVBoxLayout, QWidget

from edgeopt_gui.widgets.action_button import ActionButton

_DOORS = (
    (
        ("app.open-model",),
        "An ONNX model, or one of another framework. You can also drop it on the window.",
    ),
    (
        ("app.optimize-sample", "app.open-sample"),
        "A model that reads handwritten digits, with data. The search takes about a minute and writes a bundle.",
    ),
    (("app.see-device",), "Its processor, memory, accelerators and runtimes, and the target that suits it."),
    (("app.watch-device",), "Latency, memory and deployments of a device that runs the edgeopt agent."),
)
_COLUMNS = 2


class Doors(QWidget):
    def __init__(self) -> None:
        super().__init__()
        line = self.fontMetrics().height()
        grid = QGridLayout(self)
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setSpacing(line)
        found: list[ActionButton] = []
        for place, (keys, text) in enumerate(_DOORS):
            buttons = [ActionButton(key) for key in keys]
            found += buttons
            about = QLabel(
                text, wordWrap=True, alignment=Qt.AlignmentFlag.AlignHCenter | Qt.AlignmentFlag.AlignTop
            )
            about.setProperty("role", "muted")
            card = QFrame()
            card.setProperty("role", "card")
            column = QVBoxLayout(card)
            column.setContentsMargins(line, line, line, line)
            column.setSpacing(line // 2)
            for button in buttons:
                button.setAccessibleDescription(text)
                column.addWidget(button)
            column.addWidget(about, 1)
            grid.addWidget(card, place // _COLUMNS, place % _COLUMNS)
        self.buttons = tuple(found)
        self.buttons[0].stands_out = True
