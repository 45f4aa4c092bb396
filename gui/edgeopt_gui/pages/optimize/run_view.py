"""A search as the page shows it: its head, running or finished, and the tables below."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QLabel, QScrollArea, QVBoxLayout, QWidget

from edgeopt_gui.pages.optimize.board import Row
from edgeopt_gui.pages.optimize.candidates import Candidates
from edgeopt_gui.pages.optimize.in_the_app import without_flags
from edgeopt_gui.pages.optimize.ledger import ledger_rows
from edgeopt_gui.pages.optimize.ledger_table import LedgerTable
from edgeopt_gui.pages.optimize.run import Run
from edgeopt_gui.pages.optimize.scatter import Scatter
from edgeopt_gui.pages.optimize.standing import Standing
from edgeopt_gui.pages.optimize.texts import by_mouse, selectable
from edgeopt_gui.pages.optimize.verdict import Verdict
from edgeopt_gui.widgets.counted_tabs import CountedTabs

_SCATTER = 3


class RunView(QScrollArea):
    """Scrolls where the window is too low for its head and a table of some rows."""

    def __init__(self) -> None:
        super().__init__()
        self.about = selectable(QLabel())
        self.about.setObjectName("about")
        self.standing = Standing()
        self.verdict = Verdict()
        self.candidates = Candidates()
        self.ledger = LedgerTable()
        self.warnings = by_mouse(QLabel(alignment=Qt.AlignmentFlag.AlignTop))
        height = self.fontMetrics().height()
        self.warnings.setMargin(height // 2)
        self.tabs = CountedTabs()
        self.tabs.tabBar().setAccessibleName("Candidates, ledger and warnings")
        self.tabs.setCornerWidget(self.candidates.only_front)
        self.scatter = Scatter()
        self.scatter.clicked.connect(self.candidates.show_picked)
        self.candidates.picked.connect(self._ring)
        for page, title in (
            (self.candidates, "Candidates"),
            (self.ledger, "Ledger"),
            (self.warnings, "Warnings"),
            (self.scatter, "Speed and accuracy"),
        ):
            self.tabs.add(page, title)
        self.tabs.currentChanged.connect(lambda _: self._offer_front())
        self._floor_db: float | None = None
        self._run: Run | None = None
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setWidgetResizable(True)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setAccessibleName("The search")
        inside = QWidget()
        self.setWidget(inside)
        layout = QVBoxLayout(inside)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(height)
        layout.addWidget(self.about)
        layout.addWidget(self.standing)
        layout.addWidget(self.verdict)
        layout.addWidget(self.tabs, 1)

    def show_run(self, run: Run) -> None:
        """Shows another run, or a run that has ended, in full."""
        result = run.result
        self.standing.setVisible(result is None)
        self.verdict.setVisible(result is not None)
        self._floor_db = result.floor_db if result is not None else None
        self.candidates.call_time(run.objective)
        self.candidates.show_board(run.board)
        self._offer_front()
        self.tabs.setTabVisible(1, result is not None)
        if result is not None:
            rows = ledger_rows(result)
            self.verdict.set(result)
            self.verdict.say(run.note, run.retry)
            self.ledger.set_rows(rows)
            self.tabs.set_count(self.ledger, f"{len(rows)}" if rows else "")
        elif run.cancelled:
            self.standing.show_cancelled(run.board)
        self.show_progress(run, [])

    def show_progress(self, run: Run, rows: list[Row]) -> None:
        """Shows the progress of a run; `rows` are those changed since the last call."""
        self._run = run
        self._update_standing()
        self.candidates.call_time(run.objective)
        if rows:
            self.candidates.put(rows)
        self.scatter.show_rows(run.board.rows.values(), self._floor_db)
        self.tabs.setTabVisible(_SCATTER, bool(self.scatter.dots))
        count = len(run.board.rows)
        self.tabs.set_count(self.candidates, f"{count}" if count else "")
        warnings = run.board.warnings
        self.tabs.setTabVisible(2, bool(warnings))
        self.tabs.set_count(self.warnings, f"{len(warnings)}")
        self.warnings.setText("\n\n".join(map(without_flags, warnings)))

    def _update_standing(self) -> None:
        run = self._run
        if run is not None and run.running:
            job = run.job
            self.standing.set(
                run.board, job.cancelled, objective=run.objective, stopping=job.stopping, picked=run.picked
            )

    def _offer_front(self) -> None:
        """Shows the box that filters candidates only on their tab."""
        on = self.candidates.has_front and self.tabs.currentWidget() is self.candidates
        self.candidates.only_front.setVisible(on)

    def _ring(self) -> None:
        row = self.candidates.table.current
        self.scatter.pick(row.name if row is not None else "")

    def say_about(self, sentence: str) -> None:
        """Shows which model the run is about; "" hides the line."""
        self.about.setText(sentence)
        self.about.setVisible(bool(sentence))
