"""What a deployment may take at most, and when the search may end early; an empty field is no limit."""

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QLineEdit, QVBoxLayout, QWidget

from edgeopt.options import option_named
from edgeopt.search.settings import Settings
from edgeopt_gui.pages.optimize.choices import Choices
from edgeopt_gui.pages.optimize.in_the_app import TITLES
from edgeopt_gui.pages.optimize.rows import Rows
from edgeopt_gui.pages.optimize.texts import problem_label

# The option, what a screen reader says, and what stands behind the field.
_LIMITS = (
    ("max_memory_mib", "Peak memory of the process at most, in MiB", "MiB"),
    ("max_size_mib", "Size of the model's files at most, in MiB", "MiB"),
    ("max_latency_ms", "Median latency of a run at most, in milliseconds", "ms"),
)
_ENDS = (("target_speedup", "The search ends at so many times the speed", "times the speed"),)


class LimitsField(QWidget):
    changed = Signal()

    def __init__(self, choices: Choices) -> None:
        super().__init__()
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(self.fontMetrics().height() // 4)
        self.fields = {name: QLineEdit(placeholderText="none") for name, _, _ in (*_LIMITS, *_ENDS)}
        limits, ends = Rows(), Rows()
        for group, rows in ((limits, _LIMITS), (ends, _ENDS)):
            for name, spoken, unit in rows:
                group.add(TITLES[name], self.fields[name], spoken, unit)
        self.limits_problem, self.speedup_problem = problem_label(), problem_label()
        for name, field in self.fields.items():
            field.setToolTip(option_named(Settings, name).help)
            field.textChanged.connect(self.changed)
        for widget in (limits, self.limits_problem, ends, self.speedup_problem):
            column.addWidget(widget)
        self.set(choices)

    def set(self, choices: Choices) -> None:
        for name, field in self.fields.items():
            field.setText(getattr(choices, name))

    def say(self, limits: str, speedup: str) -> None:
        """What is wrong with them."""
        for label, sentence in ((self.limits_problem, limits), (self.speedup_problem, speedup)):
            label.setText(sentence)
            label.setVisible(bool(sentence))
