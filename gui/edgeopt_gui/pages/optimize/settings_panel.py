"""What the user chooses before a search: data, accuracy, target, time."""

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QComboBox,
    QDoubleSpinBox,
    QFrame,
    QLabel,
    QRadioButton,
    QScrollArea,
    QSpinBox,
    QVBoxLayout,
    QWidget,
)

from edgeopt.targets import Verdict as TargetVerdict
from edgeopt_gui.context import Context
from edgeopt_gui.pages.optimize.choices import (
    BUDGETS,
    LONGEST_LIMIT_S,
    OWN,
    SHORTEST_LIMIT_S,
    Choices,
    remember,
    remembered,
)
from edgeopt_gui.pages.optimize.data_field import DataField
from edgeopt_gui.pages.optimize.texts import large, quiet, selectable

_WIDE_LETTERS = 44


class SettingsPanel(QScrollArea):
    changed = Signal()

    def __init__(self, context: Context) -> None:
        super().__init__()
        self._context = context
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setFixedWidth(self.fontMetrics().averageCharWidth() * _WIDE_LETTERS)
        self._reasons: dict[str, str] = {}
        self._busy = False
        choices = remembered(context.settings)
        self.data = DataField(context)
        self.data.counted.connect(self.changed)
        inside = QWidget()
        self._column = QVBoxLayout(inside)
        height = self.fontMetrics().height()
        self._column.setContentsMargins(0, 0, height, 0)
        self._column.setSpacing(height // 4)
        self._group("Data", self.data)
        self._budget(choices)
        self._target(choices)
        self._limit(choices)
        self._column.addStretch()
        self.setWidget(inside)
        self._said()
        context.settings.changed.connect(self._reread)

    @property
    def choices(self) -> Choices:
        limit_s = self.limit.value()
        return Choices(
            budget=next(key for key, button in self.budgets.items() if button.isChecked()),
            own_db=self.own_db.value(),
            target=str(self.target.currentData() or ""),
            time_limit_s=limit_s if limit_s >= SHORTEST_LIMIT_S else None,
        )

    def set_targets(self, verdicts: Sequence[TargetVerdict]) -> None:
        """What `edgeopt targets` says; the one chosen before stays chosen."""
        chosen = str(self.target.currentData() or "")
        self.target.blockSignals(True)
        self.target.clear()
        best = next((v.name for v in verdicts if v.used), "")
        self.target.addItem(f"Automatic ({best})" if best else "Automatic", "")
        for verdict in verdicts:
            self.target.addItem(verdict.name if verdict.fits else f"{verdict.name} (does not fit)", verdict.name)
        self._reasons = {v.name: f"{v.title}: {v.reason}." for v in verdicts}
        self.target.setCurrentIndex(max(0, self.target.findData(chosen)))
        self.target.blockSignals(False)
        self._said()

    def _group(self, title: str, *widgets: QWidget) -> None:
        heading = large(QLabel(title), 1.0)
        if self._column.count():
            self._column.addSpacing(self.fontMetrics().height())
        self._column.addWidget(heading)
        for widget in widgets:
            self._column.addWidget(widget)

    def _budget(self, choices: Choices) -> None:
        self.budgets: dict[str, QRadioButton] = {}
        self._group("Accuracy floor")
        for budget in BUDGETS:
            button = QRadioButton(budget.title)
            button.setToolTip(budget.sentence)
            button.setAccessibleDescription(budget.sentence)
            button.setChecked(budget.key == choices.budget)
            self.budgets[budget.key] = button
            self._column.addWidget(button)
        self.sentence = quiet(selectable(QLabel()))
        self.own_db = QDoubleSpinBox(minimum=1, maximum=150, decimals=0, suffix=" dB")
        self.own_db.setValue(choices.own_db)
        self.own_db.setAccessibleName("Your own accuracy floor")
        self.own_db.valueChanged.connect(self._said)
        self._column.addWidget(self.own_db)
        self._column.addWidget(self.sentence)
        for button in self.budgets.values():
            button.toggled.connect(self._said)

    def _target(self, choices: Choices) -> None:
        self.target = QComboBox()
        self.target.setAccessibleName("Target")
        self.target.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.target.addItem("Automatic", "")
        if choices.target:
            self.target.addItem(choices.target, choices.target)
            self.target.setCurrentIndex(1)
        self.target.currentIndexChanged.connect(self._said)
        self.reason = quiet(selectable(QLabel()))
        self._group("Target", self.target, self.reason)

    def _limit(self, choices: Choices) -> None:
        # One below the shortest stands for "automatic", which is how Qt has it.
        self.limit = QSpinBox(minimum=SHORTEST_LIMIT_S - 1, maximum=LONGEST_LIMIT_S, suffix=" s")
        self.limit.setSpecialValueText("Automatic")
        self.limit.setValue(choices.time_limit_s or self.limit.minimum())
        self.limit.setAccessibleName("Time limit in seconds")
        self.limit.valueChanged.connect(self._said)
        about = quiet(selectable(QLabel("Automatic is a minute, and more above 10 MB.")))
        self._group("Time limit", self.limit, about)

    def _reread(self) -> None:
        """The same settings stand in the app's dialog, and can be reset."""
        choices = remembered(self._context.settings)
        if self._busy or choices == self.choices:
            return
        self._busy = True
        self.budgets[choices.budget].setChecked(True)
        self.own_db.setValue(choices.own_db)
        self.target.setCurrentIndex(max(0, self.target.findData(choices.target)))
        self.limit.setValue(choices.time_limit_s or self.limit.minimum())
        self._busy = False
        self._said()

    def _said(self) -> None:
        if self._busy:
            return
        choices = self.choices
        self.sentence.setText(next(b.sentence for b in BUDGETS if b.key == choices.budget))
        self.own_db.setVisible(choices.budget == OWN)
        fallback = "The target that fits this device best." if not choices.target else ""
        self.reason.setText(self._reasons.get(choices.target, fallback))
        self.reason.setVisible(bool(self.reason.text()))
        self._busy = True
        remember(self._context.settings, choices)
        self._busy = False
        self.changed.emit()
