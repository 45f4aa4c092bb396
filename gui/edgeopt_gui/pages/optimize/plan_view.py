"""A plan for a device that is not here: what is expected there, and how it is proved there."""

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QLabel, QPushButton, QVBoxLayout, QWidget

from edgeopt.views.words import decibels, milliseconds
from edgeopt_gui.pages.optimize.slow import slow
from edgeopt_gui.pages.optimize.texts import large, quiet, selectable
from edgeopt_gui.pages.optimize.words import short_name
from edgeopt_gui.widgets.records import Column, Look, RecordsModel
from edgeopt_gui.widgets.records_table import RecordsTable

if TYPE_CHECKING:
    from edgeopt.commands.predict.records import PredictedCandidate, PredictedOutcome

_MARKS = {"chosen": "★ chosen", "baseline": "your model", "below the floor": "▼ below the floor"}


def _why(row: "PredictedCandidate") -> str:
    mark = _MARKS.get(row.status, "")
    return ": ".join(part for part in (mark, row.reason) if part)


def _predicted_ms(row: "PredictedCandidate") -> float | None:
    return row.latency.predicted_ms if row.latency is not None else None


def _look(row: "PredictedCandidate") -> Look:
    return "strong" if row.status == "chosen" else "plain" if row.status == "baseline" else "quiet"


class PlanView(QWidget):
    left = Signal()
    """Emitted when the user closes the plan."""

    def __init__(self) -> None:
        super().__init__()
        self.headline = large(QLabel(), 2.0)
        self.headline.setObjectName("plan")
        self.headline.setWordWrap(True)
        self.summary = selectable(QLabel())
        self.story = quiet(selectable(QLabel()))
        columns: tuple[Column[PredictedCandidate], ...] = (
            Column("Candidate", lambda r: r.candidate.name, lambda r: short_name(r.candidate.name)),
            Column("Predicted", _predicted_ms, lambda r: milliseconds(_predicted_ms(r)), "right"),
            Column("Accuracy", lambda r: r.accuracy_db, lambda r: decibels(r.accuracy_db), "right"),
            Column("Why", _why, tip=_why, stretch=True),
        )
        self.records: RecordsModel[PredictedCandidate] = RecordsModel(
            columns, lambda r: r.candidate.name, _look, self
        )
        self.table = RecordsTable(self.records, "Planned candidates")
        height = self.fontMetrics().height()
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(height // 2)
        for widget in (self.headline, self.summary, self.story):
            column.addWidget(widget)
        column.addWidget(self.table, 1)
        back = QPushButton("Back to the search")
        back.clicked.connect(self.left)
        column.addWidget(back, 0, Qt.AlignmentFlag.AlignLeft)

    def wait(self, record: str) -> None:
        """Shows that the plan for the device of a record is being made."""
        self.headline.setText("Planning for another device")
        self.summary.setText(f"From {record}. Nothing is measured here.")
        self._fill(None)

    def set(self, plan: "PredictedOutcome") -> None:
        self.headline.setText(f"Planned for {plan.device}")
        self.summary.setText(plan.summary)
        self._fill(plan)

    def _fill(self, plan: "PredictedOutcome | None") -> None:
        self.story.setText(slow("edgeopt_gui.pages.optimize.plan").story(plan) if plan is not None else "")
        self.records.set_rows(plan.candidates if plan is not None else ())
        self.table.setVisible(plan is not None)
        self.table.fit()
