"""A message above the content of a page, with what can be done about it."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton

from edgeopt_gui.jobs.ending import Ending
from edgeopt_gui.widgets.action_button import ActionButton


class MessageBar(QFrame):
    """A bar that shows a failure above the content: what happened and what to do next."""

    details_requested = Signal(object)
    """The `Ending` that is shown."""

    def __init__(self) -> None:
        super().__init__()
        self.setProperty("role", "card")
        self.sentence = QLabel(wordWrap=True)
        self.sentence.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.again = ActionButton()
        self.details = QPushButton("Details…")
        self.dismiss = QPushButton("Dismiss")
        self.dismiss.clicked.connect(self.hide)
        self.details.clicked.connect(lambda: self.details_requested.emit(self.ending))
        self.ending: Ending | None = None
        line = self.fontMetrics().height()
        row = QHBoxLayout(self)
        row.setContentsMargins(line // 2, line // 3, line // 2, line // 3)
        row.setSpacing(line // 2)
        row.addWidget(self.sentence, 1)
        for button in (self.again, self.details, self.dismiss):
            row.addWidget(button)
        self.hide()

    def show_or_hide(self, notice: str) -> None:
        """Shows a notice that needs no action; "" hides it."""
        if notice:
            self.show_ending(Ending("done", {}, notice))
        else:
            self.hide()

    def show_ending(self, ending: Ending, retry: str = "") -> None:
        self.ending = ending
        self.sentence.setText(" ".join(filter(None, (ending.what, ending.next_step))))
        self.again.set_key(retry)
        self.details.setVisible(bool(ending.details))
        self.show()
