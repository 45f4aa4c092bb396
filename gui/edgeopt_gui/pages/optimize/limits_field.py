"""What a deployment may take at most, and when the search may end early; an empty field is no limit."""

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QLineEdit, QVBoxLayout, QWidget

from edgeopt_gui.pages.optimize.choices import Choices
from edgeopt_gui.pages.optimize.rows import Rows
from edgeopt_gui.pages.optimize.texts import problem_label


class LimitsField(QWidget):
    changed = Signal()

    def __init__(self, choices: Choices) -> None:
        super().__init__()
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(self.fontMetrics().height() // 4)
        self.memory, self.files, self.latency, self.speedup = (QLineEdit() for _ in range(4))
        limits, ends = Rows(), Rows()
        limits.add("Memory at most", self.memory, "Peak memory of the process at most, in MiB", "MiB")
        limits.add("Files at most", self.files, "Size of the model's files at most, in MiB", "MiB")
        limits.add("A run at most", self.latency, "Median latency of a run at most, in milliseconds", "ms")
        ends.add("Enough at", self.speedup, "The search ends at so many times the speed", "times the speed")
        self.limits_problem, self.speedup_problem = problem_label(), problem_label()
        for field, tip in (
            (self.memory, "What the process may take at its peak; whatever takes more is out"),
            (self.files, "What the model's files may take; whatever takes more is out"),
            (self.latency, "What a run may take; for another objective it may then also be slower than now"),
            (self.speedup, "The search ends as soon as something is surely so many times as fast"),
        ):
            field.setToolTip(tip)
            field.setPlaceholderText("none")
            field.textChanged.connect(self.changed)
        for widget in (limits, self.limits_problem, ends, self.speedup_problem):
            column.addWidget(widget)
        self.set(choices)

    def set(self, choices: Choices) -> None:
        self.memory.setText(choices.max_memory_mib)
        self.files.setText(choices.max_size_mib)
        self.latency.setText(choices.max_latency_ms)
        self.speedup.setText(choices.target_speedup)

    def say(self, limits: str, speedup: str) -> None:
        """What is wrong with them."""
        for label, sentence in ((self.limits_problem, limits), (self.speedup_problem, speedup)):
            label.setText(sentence)
            label.setVisible(bool(sentence))
