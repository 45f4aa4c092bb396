"""The head of a running search: its phases, where it stands, and the best so far."""

from PySide6.QtWidgets import QLabel, QVBoxLayout, QWidget

from edgeopt.units import count
from edgeopt.views.words import accuracy, milliseconds, ratio
from edgeopt_gui.pages.optimize.board import Board, Row
from edgeopt_gui.pages.optimize.phases import progress_text, share_done
from edgeopt_gui.pages.optimize.stepper import Stepper
from edgeopt_gui.pages.optimize.texts import large, quiet, selectable
from edgeopt_gui.pages.optimize.words import short_name
from edgeopt_gui.plots.ticks import significant


class Standing(QWidget):
    def __init__(self) -> None:
        super().__init__()
        self.stepper = Stepper()
        self.line = QLabel()
        self.line.setObjectName("progress")
        self.best = large(QLabel(), 2.0)
        self.best.setObjectName("best")
        self.detail = quiet(selectable(QLabel()))
        height = self.fontMetrics().height()
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(height // 2)
        layout.addWidget(self.stepper)
        layout.addWidget(self.line)
        layout.addWidget(self.best)
        layout.addWidget(self.detail)

    def set(
        self,
        board: Board,
        cancelling: bool,
        *,
        stopping: bool = False,
        picked: str = "",
        objective: str = "",
    ) -> None:
        """`stopping`: it ends early; `picked`: the candidate that is delivered, where nothing is searched.

        `objective` is that of a decoder, "" for other models.
        """
        self.stepper.set(board.place, share_done(board.progress))
        where = progress_text(board.progress, len(board.rows))
        early = f"Ending early with the best so far · {where}" if stopping else where
        self.line.setText("Stopping; cleaning up" if cancelling else early)
        if picked:
            self.best.setText("Delivering another candidate")
            self.detail.setText(f"{short_name(picked)} is rebuilt, written as a bundle and measured.")
            return
        best = board.best
        self.best.setText(
            f"{ratio(best.speedup)} in the race, not proved" if best else "Nothing faster in the race yet"
        )
        self.detail.setText(
            _about(best, objective) if best else "Your model is the baseline and is never changed."
        )

    def show_cancelled(self, board: Board) -> None:
        """Shows that the search was cancelled, with the number of candidates screened and raced."""
        self.stepper.set(board.place, 0.0)
        self.line.setText("Cancelled; nothing was changed.")
        raced = sum(row.speedup is not None for row in board.rows.values())
        self.best.setText("Cancelled: nothing is proved")
        self.detail.setText(f"{count(len(board.rows), 'candidate')} screened, {raced} of them raced.")


def _about(row: Row, objective: str) -> str:
    parts = [short_name(row.name)]
    if row.low is not None and row.high is not None:
        parts.append(f"between {ratio(row.low)} and {ratio(row.high)}")
    if row.latency_ms is not None:
        rate = objective == "tokens-per-second" and row.latency_ms > 0
        parts.append(f"{significant(1e3 / row.latency_ms)} tokens/s" if rate else milliseconds(row.latency_ms))
    if row.accuracy_db is not None:
        parts.append(f"accuracy {accuracy(row.accuracy_db, row.tokens)}")
    return " · ".join(parts)
