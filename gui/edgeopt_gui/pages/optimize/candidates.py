"""The table of candidates: the fastest first, each with its interval and what became of it."""

from dataclasses import replace

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QFont, QFontMetrics
from PySide6.QtWidgets import QCheckBox, QHBoxLayout, QLabel, QVBoxLayout, QWidget

from edgeopt import units
from edgeopt.views.words import (
    MEMORY,
    UNKNOWN,
    accuracy,
    memory,
    memory_parts,
    milliseconds,
    ratio,
    size,
    span,
    token_intervals,
)
from edgeopt_gui import theme
from edgeopt_gui.pages.optimize.board import Board, Row, axis
from edgeopt_gui.pages.optimize.interval_bar import AxisHeader, IntervalBar
from edgeopt_gui.pages.optimize.words import short_name
from edgeopt_gui.plots.ticks import significant
from edgeopt_gui.widgets.action_button import ActionButton
from edgeopt_gui.widgets.records import Column, Look, RecordsModel
from edgeopt_gui.widgets.records_table import RecordsTable

_SPEED, _INTERVAL = 1, 2
_INTERVAL_LETTERS, _FIRM_NAME_LETTERS, _FIRM_INTERVAL_LETTERS = 42, 37, 25
_MIN_NAME_LETTERS, _MIN_INTERVAL_LETTERS, _MIN_OUTCOME_LETTERS = 20, 22, 19


def _interval(row: Row) -> str:
    low, middle, high = row.interval
    if not units.usable_interval(low, high):
        return "1.00x by definition" if row.status in {"baseline", "kept"} else UNKNOWN
    where = "in the proof" if row.proved else "in the race"
    return f"{span(low, high)}, {ratio(middle)} {where}"


def _memory(row: Row) -> str:
    """Returns the added memory, or that of the process if it is unknown."""
    added, whole = memory_parts(row.memory)
    return added or whole or UNKNOWN


def _tokens_per_second(row: Row) -> str:
    """Returns tokens per second; the time of a run for an encoder, which makes no tokens."""
    if row.part == "encoder":
        return milliseconds(row.latency_ms)
    return f"{significant(1e3 / row.latency_ms)}" if row.latency_ms else UNKNOWN


def _rank(row: Row) -> tuple[bool, float] | None:
    """Returns the sort key by speed, with the winner first, even if another candidate raced faster."""
    return None if row.speedup is None and not row.leads else (row.leads, row.speedup or 0.0)


def _look(row: Row) -> Look:
    return "strong" if row.leads else "quiet" if row.out else "plain"


_LATENCY: Column[Row] = Column(
    "Latency",
    lambda r: r.latency_ms,
    lambda r: milliseconds(r.latency_ms),
    "right",
    title_tip="Your model's time in the proof, divided by the speed",
)
_TIMES = {
    "tokens-per-second": replace(
        _LATENCY,
        title="Tokens/s",
        value=lambda r: r.latency_ms and 1e3 / r.latency_ms,
        text=_tokens_per_second,
        title_tip="Tokens per second after the first one: your model's in the proof, times the speed",
    ),
    "first-token": replace(_LATENCY, title="First token"),
}
_TIME = 5
COLUMNS: tuple[Column[Row], ...] = (
    Column(
        "Candidate",
        lambda r: r.name,
        lambda r: short_name(r.name),
        tip=lambda r: r.name,
        cut_middle=True,
        min_letters=_MIN_NAME_LETTERS,
        firm_letters=_FIRM_NAME_LETTERS,
        max_letters=200,
    ),
    Column(
        "Speed",
        _rank,
        lambda r: ratio(r.speedup),
        "right",
        title_tip="Speed against your model: proved from the written bundle in fresh processes, or ranked by the "
        "race relative to the winner",
    ),
    Column(
        "Interval",
        lambda r: r.interval[0],
        _interval,
        tip=_interval,
        min_letters=_MIN_INTERVAL_LETTERS,
        firm_letters=_FIRM_INTERVAL_LETTERS,
        title_tip="Low and high end, median, and where it was measured",
    ),
    Column(
        "Outcome",
        lambda r: r.short,
        tip=lambda r: r.outcome,
        stretch=True,
        min_letters=_MIN_OUTCOME_LETTERS,
    ),
    Column(
        "Accuracy",
        lambda r: -r.tokens.kl if r.tokens else r.accuracy_db,
        lambda r: accuracy(r.accuracy_db, r.tokens),
        "right",
        tip=lambda r: token_intervals(r.tokens) if r.tokens else "",
        title_tip="Signal-to-noise ratio of the outputs against your model's; more is better.\n"
        "Of a decoder: Kullback-Leibler divergence from your model in nats, less is better, and the share of "
        "tokens that your model also finds most likely",
    ),
    _LATENCY,
    Column(
        MEMORY,
        lambda r: r.memory and r.memory.added_bytes,
        _memory,
        "right",
        tip=lambda r: memory(r.memory),
        optional=True,
    ),
    Column("Size", lambda r: r.size_bytes, lambda r: size(r.size_bytes), "right", optional=True),
)


class _Table(RecordsTable):
    """Names get the width they need if there is room; less important columns are on the right."""

    def __init__(self, records: RecordsModel[Row], bar: IntervalBar) -> None:
        super().__init__(records, "Candidates", AxisHeader(_INTERVAL, bar))
        bar.setParent(self)
        self.setItemDelegateForColumn(_INTERVAL, bar)

    def natural_widths(self) -> list[int]:
        widths = super().natural_widths()
        letter = self.fontMetrics().averageCharWidth()
        bold = QFont(self.font())
        bold.setBold(True)
        names = (QFontMetrics(bold).horizontalAdvance(short_name(row.name)) for row in self.records.rows)
        widths[0] = max(letter * _MIN_NAME_LETTERS, max(names, default=0) + 3 * letter)
        widths[_INTERVAL] = letter * _INTERVAL_LETTERS
        return widths


class Candidates(QWidget):
    picked = Signal()
    """Emitted when another row, or none, is selected."""

    def __init__(self) -> None:
        super().__init__()
        self.records: RecordsModel[Row] = RecordsModel(COLUMNS, lambda row: row.name, _look, self)
        self._bar = IntervalBar()
        self.table = _Table(self.records, self._bar)
        self.table.sortByColumn(_SPEED, Qt.SortOrder.DescendingOrder)
        self._details = QLabel()
        self._details.setWordWrap(True)
        self._details.setAccessibleName("Outcome of the candidate")
        self._details.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self._details.hide()
        self.only_front = QCheckBox()
        self.has_front = False
        """Whether the Pareto front has more than one candidate."""
        self.only_front.setToolTip("Candidates that no other beats in latency, accuracy, memory and size")
        self.only_front.toggled.connect(self._filter)
        self._deliver = ActionButton("optimize.pick", text="Deliver this one")
        self._deliver.hide()
        self.table.picked.connect(self._show_details)
        below = QHBoxLayout()
        below.addWidget(self._details, 1)
        below.addWidget(self._deliver, 0, Qt.AlignmentFlag.AlignTop)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.table, 1)
        layout.addLayout(below)
        theme.scheme_changed.connect(self.table.viewport().update)

    def call_time(self, objective: str) -> None:
        """Shows tokens per second or the first token instead of the latency, by the objective of a decoder."""
        column = _TIMES.get(objective, _LATENCY)
        if self.records.columns[_TIME] is not column:
            self.records.columns = (*COLUMNS[:_TIME], column, *COLUMNS[_TIME + 1 :])
            self.records.headerDataChanged.emit(Qt.Orientation.Horizontal, _TIME, _TIME)
            self.records.touch_column(_TIME)

    def show_board(self, board: Board) -> None:
        """Replaces all rows."""
        self.records.set_rows(board.rows.values())
        self._bar.span = axis(self.records.rows)
        self.table.fit()
        front = sum(row.front for row in self.records.rows)
        self.only_front.setText(f"Pareto front only ({front})")
        self.has_front = front > 1
        self.only_front.setVisible(self.has_front)
        self._filter(self.only_front.isChecked() and front > 1)
        won = next((row for row in board.rows.values() if row.leads and row.reason), None)
        if won is not None and self.table.current is None:  # why it won has no room in its column
            self.table.pick(won.name)

    def show_picked(self, name: str) -> None:
        """Moves to this candidate, in the front or not."""
        if not self.table.pick(name):
            self.only_front.setChecked(False)
            self.table.pick(name)

    def _filter(self, front: bool) -> None:
        self.records.accept((lambda row: row.front) if front else None)

    def put(self, rows: list[Row]) -> None:
        """Updates the rows that have changed."""
        before = len(self.records.rows)
        for row in rows:
            self.records.put(row)
        span = axis(self.records.rows)
        if span != self._bar.span:
            self._bar.span = span
            self.table.viewport().update()
            self.table.horizontalHeader().viewport().update()
        if len(self.records.rows) != before:
            self.table.fit()
        self._show_details(self.table.current)

    def _show_details(self, row: Row | None) -> None:
        """Shows the full texts of a row, which its columns may cut."""
        self._details.setVisible(row is not None)
        texts: tuple[str, ...] = ()
        if row is not None:
            tokens = token_intervals(row.tokens) if row.tokens else ""
            texts = (short_name(f"{row.name}: {row.outcome}"), tokens, row.trade, self._left_out(row))
        self._details.setText("\n".join(part for part in texts if part))
        self._deliver.setVisible(row is not None and bool(row.trade))
        self.picked.emit()

    def _left_out(self, row: Row) -> str:
        """Returns the values of the columns without room."""
        hidden = (column for place, column in enumerate(self.records.columns) if self.table.isColumnHidden(place))
        return ", ".join(f"{each.title} {each.text_of(row)}" for each in hidden if each.value(row))
