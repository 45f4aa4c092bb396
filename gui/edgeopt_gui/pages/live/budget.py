"""The latency budget of a model: kept in the settings, set in a field, and how many runs exceed it."""

import msgspec
from PySide6.QtCore import Signal
from PySide6.QtWidgets import QDoubleSpinBox, QHBoxLayout, QLabel, QVBoxLayout, QWidget

from edgeopt import units
from edgeopt.decoding import thread_safe
from edgeopt_gui.plots.ticks import latency_text
from edgeopt_gui.settings import Settings
from edgeopt_gui.widgets.action_button import ActionButton

BUDGETS = "live.budgets"
_MAX_KEPT = 100
_DECIMALS = 4


def kept_budget(settings: Settings, subject: str) -> float | None:
    """Returns the latency budget in ms of a subject, the path of a model or an agent's address; None if unset."""
    return _all_kept(settings).get(subject)


def keep_budget(settings: Settings, subject: str, budget_ms: float | None) -> None:
    """Stores the latency budget of a subject in ms; None removes it."""
    kept = _all_kept(settings)
    kept.pop(subject, None)
    if budget_ms is not None:
        kept[subject] = budget_ms
    latest = dict(list(kept.items())[-_MAX_KEPT:])
    settings.keep(BUDGETS, msgspec.json.encode(latest).decode())


def _all_kept(settings: Settings) -> dict[str, float]:
    try:
        return msgspec.json.decode(settings.text(BUDGETS, "{}"), type=thread_safe(dict[str, float]))
    except msgspec.MsgspecError:  # of another version: nothing of it can be used
        return {}


def over_text(over: int, runs: int, budget_ms: float) -> str:
    """Returns `3 of 812 runs over 5.00 ms (0.37 %)`."""
    if not runs:
        return "No runs in the visible time range."
    share = f" ({100 * over / runs:.2g} %)" if over else ""
    return f"{over:,} of {units.count(runs, 'run')} over {latency_text(budget_ms)}{share}"


class BudgetPanel(QWidget):
    changed = Signal(object)
    """The budget in milliseconds; None when it was removed."""

    def __init__(self) -> None:
        super().__init__()
        line = self.fontMetrics().height()
        self.field = _Milliseconds(minimum=0.0, maximum=1e6, decimals=_DECIMALS)
        self.field.setSpecialValueText("None")
        self.field.setSuffix(" ms")
        self.field.setStepType(QDoubleSpinBox.StepType.AdaptiveDecimalStepType)
        self.field.setKeyboardTracking(False)
        self.field.setAccessibleName("Latency budget in milliseconds")
        self.field.setToolTip("You can also drag the dashed line in the latency chart")
        self.field.valueChanged.connect(lambda value: self.changed.emit(value or None))
        self.over = QLabel(wordWrap=True)
        self.over.setProperty("role", "muted")
        title = QLabel("Latency &budget")
        title.setProperty("role", "heading")
        title.setBuddy(self.field)
        row = QHBoxLayout()
        row.setSpacing(line // 2)
        row.addWidget(self.field, 1)
        row.addWidget(ActionButton("live.remove-budget", text="Remove"))
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(line // 3)
        column.addWidget(title)
        column.addLayout(row)
        column.addWidget(self.over)
        self.show_over("")

    def show_budget(self, budget_ms: float | None) -> None:
        before = self.field.blockSignals(True)
        self.field.setValue(budget_ms or 0.0)
        self.field.blockSignals(before)

    def show_over(self, text: str) -> None:
        if text != self.over.text():
            self.over.setText(text)
        self.over.setVisible(bool(text))


class _Milliseconds(QDoubleSpinBox):
    def textFromValue(self, value: float) -> str:  # noqa: N802 - Qt's name
        """Returns the value without trailing zeros."""
        point = self.locale().decimalPoint()
        return super().textFromValue(value).rstrip("0").removesuffix(point)
