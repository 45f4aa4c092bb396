"""The top of the page: both sides, the inputs, the longest measurement, and how far the comparison is."""

from PySide6.QtWidgets import QCheckBox, QHBoxLayout, QLabel, QProgressBar, QSpinBox, QVBoxLayout, QWidget

from edgeopt.units import time_left
from edgeopt_gui import job_words
from edgeopt_gui.jobs.job import Job
from edgeopt_gui.pages.compare.side_field import SideField
from edgeopt_gui.pages.compare.sides import Sides
from edgeopt_gui.widgets.action_button import ActionButton
from edgeopt_gui.widgets.heading import keep_room, quiet

LATEST = "the latest bundle"
_LONGEST_S = 3600
_MADE_UP = "Inputs: generated. Choose data on the page Optimize."


class CompareHead(QWidget):
    def __init__(self) -> None:
        super().__init__()
        self.fields = (
            SideField("A", "compare.choose-a", "compare.choose-a-folder"),
            SideField("B", "compare.choose-b", "compare.choose-b-folder"),
        )
        self.data = quiet()
        self.limit = QSpinBox(minimum=0, maximum=_LONGEST_S, suffix=" s")
        self.limit.setSpecialValueText("Until it is clear")
        self.limit.setAccessibleName("Longest measurement")
        self.layers = QCheckBox("Layers even if the outputs pass")
        self.running = QLabel()
        self.bar = QProgressBar()
        self.bar.setTextVisible(False)
        self.bar.setAccessibleName("Progress of the comparison")
        self.stop = ActionButton("compare.cancel", text="Cancel")
        swap = ActionButton("compare.swap", text="Swap")
        title = QLabel("Longest measurement")
        title.setBuddy(self.limit)
        sides, options, progress = QHBoxLayout(), QHBoxLayout(), QHBoxLayout()
        sides.addWidget(self.fields[0], 1)
        sides.addWidget(swap)
        sides.addWidget(self.fields[1], 1)
        options.addWidget(self.data, 1)
        options.addWidget(self.layers)
        options.addWidget(title)
        options.addWidget(self.limit)
        progress.addWidget(self.running, 1)
        progress.addWidget(self.bar)
        progress.addWidget(self.stop)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(self.fontMetrics().height() // 2)
        for layout in (sides, options, progress):
            column.addLayout(layout)
        for widget in (self.running, self.bar, self.stop):
            keep_room(widget)

    def show_sides(self, sides: Sides, notes: tuple[str, str]) -> None:
        """Shows the sides; `notes` say where each comes from, or why it is empty."""
        for field, path, note in zip(self.fields, (sides.first, sides.second), notes, strict=True):
            field.set(path, "" if path is None and note == LATEST else note)
        name = sides.data.name if sides.data is not None else ""
        self.data.setText(f"Inputs: {name}" if name else _MADE_UP)

    def show_running(self, on: bool) -> None:
        for widget in (self.running, self.bar, self.stop):
            widget.setVisible(on)

    def show_status(self, job: Job, stopping: bool) -> str:
        """Shows the job's status and progress; returns the status as text."""
        status = "Stopping; cleaning up." if stopping else f"{job_words.status(job.command, job.progress)}…"
        self.running.setText(f"{status} {time_left(job.left_s)}".strip())
        percent = job_words.percent(job.progress)
        self.bar.setRange(0, 0 if percent is None else 100)
        self.bar.setValue(percent or 0)
        return status
