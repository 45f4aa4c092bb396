"""The form for the accuracy floor: a signal-to-noise ratio in dB by name or number, or a metric with its limit."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QCheckBox, QDoubleSpinBox, QLabel, QLineEdit, QRadioButton, QVBoxLayout, QWidget

from edgeopt.options import option_named
from edgeopt.pipeline.request import OptimizeRequest
from edgeopt_gui.pages.optimize.choices import (
    BUDGETS,
    MAXIMUM_DB,
    METRIC,
    MINIMUM_DB,
    OWN,
    OWN_FUNCTION,
    AccuracyChoices,
    Budget,
)
from edgeopt_gui.pages.optimize.in_the_app import TITLES
from edgeopt_gui.pages.optimize.rows import Rows, narrow_combo
from edgeopt_gui.pages.optimize.texts import problem_label, quiet, selectable

if TYPE_CHECKING:
    from edgeopt_gui.pages.optimize.core import MetricChoice

_FUNCTION_TITLE = "Your own function"


class AccuracyField(QWidget):
    changed = Signal()

    def __init__(self, choices: AccuracyChoices, budgets: Sequence[Budget] = BUDGETS) -> None:
        super().__init__()
        self._sentences = {budget.key: budget.sentence for budget in budgets}
        self._metrics: dict[str, MetricChoice] = {}
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(self.fontMetrics().height() // 4)
        self.budgets: dict[str, QRadioButton] = {}
        for budget in budgets:
            button = QRadioButton(budget.title)
            button.setToolTip(budget.sentence)
            button.setAccessibleDescription(budget.sentence)
            self.budgets[budget.key] = button
            column.addWidget(button)
        self.own_db = QDoubleSpinBox(minimum=MINIMUM_DB, maximum=MAXIMUM_DB, decimals=1, suffix=" dB")
        self.own_db.setAccessibleName("Your own accuracy floor")
        self.sentence = quiet(selectable(QLabel()))
        self.which = narrow_combo()
        self.which.addItem(_FUNCTION_TITLE, OWN_FUNCTION)
        self.function = QLineEdit(placeholderText="file.py:function")
        self.value = QLineEdit(placeholderText="none")
        self.drop = QLineEdit(placeholderText="none, as in 0.5%")
        self.labels = QLineEdit(placeholderText="label")
        self.rows = Rows()
        self.rows.add(TITLES["metric"], self.which)
        self.rows.add("Function", self.function)
        self.rows.add(TITLES["floor"], self.value, "Value that the metric must reach")
        self.rows.add(TITLES["max_drop"], self.drop, "How much worse than the source model's the metric may be")
        self.rows.add(TITLES["labels"], self.labels, "Array of labels in the data")
        self.accept = QCheckBox(TITLES["accept_unproven_drop"])
        self.accept.setToolTip(option_named(OptimizeRequest, "accept_unproven_drop").help)
        self.labels.setToolTip(option_named(OptimizeRequest, "labels").help)
        self.problem = problem_label()
        for widget in (self.own_db, self.sentence, self.rows, self.accept, self.problem):
            column.addWidget(widget)
        self.set(choices)
        for button in self.budgets.values():
            button.toggled.connect(self._look)
        self.own_db.valueChanged.connect(self.changed)
        self.which.currentIndexChanged.connect(self._look)
        for line in (self.function, self.value, self.drop, self.labels):
            line.textChanged.connect(self.changed)
        self.accept.toggled.connect(self.changed)

    @property
    def budget(self) -> str:
        return next((key for key, button in self.budgets.items() if button.isChecked()), AccuracyChoices().budget)

    @property
    def choices(self) -> AccuracyChoices:
        return AccuracyChoices(
            budget=self.budget,
            own_db=self.own_db.value(),
            metric=str(self.which.currentData()),
            function=self.function.text().strip(),
            value=self.value.text().strip(),
            max_drop=self.drop.text().strip(),
            accept_unproven_drop=self.accept.isChecked(),
            labels=self.labels.text().strip(),
        )

    def set(self, choices: AccuracyChoices) -> None:
        self.budgets[choices.budget].setChecked(True)
        self.own_db.setValue(choices.own_db)
        if self.which.findData(choices.metric) < 0:  # the list has not come yet
            self.which.insertItem(0, choices.metric, choices.metric)
        self.which.setCurrentIndex(self.which.findData(choices.metric))
        self.function.setText(choices.function)
        self.value.setText(choices.value)
        self.drop.setText(choices.max_drop)
        self.labels.setText(choices.labels)
        self.accept.setChecked(choices.accept_unproven_drop)
        self._look()

    def set_metrics(self, metrics: Sequence["MetricChoice"]) -> None:
        """Fills the list of metrics, and keeps the chosen one if it is still listed."""
        chosen = str(self.which.currentData())
        self._metrics = {metric.name: metric for metric in metrics}
        self.which.blockSignals(True)
        self.which.clear()
        for metric in metrics:
            self.which.addItem(metric.title, metric.name)
        self.which.addItem(_FUNCTION_TITLE, OWN_FUNCTION)
        self.which.setCurrentIndex(max(0, self.which.findData(chosen)))
        self.which.blockSignals(False)
        self._look()

    def say(self, problem: str) -> None:
        self.problem.setText(problem)
        self.problem.setVisible(bool(problem))

    def _look(self) -> None:
        """Shows the fields that the choice has."""
        budget, name = self.budget, str(self.which.currentData())
        metric, own = self._metrics.get(name), name == OWN_FUNCTION
        self.sentence.setText(self._sentences[budget])
        self.own_db.setVisible(budget == OWN)
        self.rows.setVisible(budget == METRIC)
        self.accept.setVisible(budget == METRIC)
        self.rows.show_row(self.function, own)
        self.rows.show_row(self.drop, own or metric is None or metric.takes_drop)
        self.rows.show_row(self.labels, own or metric is None or metric.needs_labels)
        less = metric is not None and metric.smaller_is_better
        self.rows.call(self.value, "At most" if less else TITLES["floor"])
        self.value.setPlaceholderText(f"none, as in {metric.example}" if metric is not None else "none")
        self.changed.emit()
