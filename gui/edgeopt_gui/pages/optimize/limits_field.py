"""The form for limits of a deployment and for the speed-up that ends a search; an empty field sets no limit."""

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QLineEdit, QVBoxLayout, QWidget

from edgeopt.options import option_named
from edgeopt.pipeline.request import OptimizeRequest
from edgeopt_gui.pages.optimize.choices import LIMITS, Choices
from edgeopt_gui.pages.optimize.rows import Rows
from edgeopt_gui.pages.optimize.texts import problem_label


class LimitsField(QWidget):
    changed = Signal()

    def __init__(self, choices: Choices) -> None:
        super().__init__()
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(self.fontMetrics().height() // 4)
        self.fields = {each.name: QLineEdit(placeholderText="none") for each in LIMITS}
        limits, ends = Rows(), Rows()
        for each in LIMITS:
            (ends if each.ends else limits).add(each.title, self.fields[each.name], each.spoken, each.unit)
        self.limits_problem, self.speedup_problem = problem_label(), problem_label()
        for name, field in self.fields.items():
            field.setToolTip(option_named(OptimizeRequest, name).help)
            field.textChanged.connect(self.changed)
        for widget in (limits, self.limits_problem, ends, self.speedup_problem):
            column.addWidget(widget)
        self.set(choices)

    def set(self, choices: Choices) -> None:
        for name, field in self.fields.items():
            field.setText(getattr(choices, name))

    def say(self, limits: str, speedup: str) -> None:
        """Shows the problems of the limits and of the speed-up; hides what is ""."""
        for label, sentence in ((self.limits_problem, limits), (self.speedup_problem, speedup)):
            label.setText(sentence)
            label.setVisible(bool(sentence))
