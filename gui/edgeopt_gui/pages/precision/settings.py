"""The settings of a plan: data, accuracy, method, backend, time limit, and where the result is written."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QComboBox, QFrame, QScrollArea, QSpinBox

from edgeopt.options import read_shapes
from edgeopt_gui.context import Context
from edgeopt_gui.jobs.command import Command
from edgeopt_gui.pages.optimize.accuracy_field import AccuracyField
from edgeopt_gui.pages.optimize.choices import OWN, AccuracyChoices
from edgeopt_gui.pages.optimize.data_field import DataField
from edgeopt_gui.pages.optimize.input_fields import PreparationBox, SizesField
from edgeopt_gui.pages.optimize.path_field import PathField
from edgeopt_gui.pages.optimize.rows import Rows, narrow_combo
from edgeopt_gui.pages.precision.choices import (
    FLOORS,
    MAXIMUM_LIMIT_S,
    MINIMUM_LIMIT_S,
    PLAN,
    PrecisionChoices,
    remember,
    remembered,
)
from edgeopt_gui.widgets.heading import heading
from edgeopt_gui.widgets.scrolled import Scrolled

if TYPE_CHECKING:
    from edgeopt_gui.pages.optimize.core import MetricChoice

_WIDE_LETTERS = 46
_NO_DATA = (
    "Without data only the time is known: generated samples do not show the accuracy. "
    "Choose some, or drop it on the window."
)
_NOT_SAVED = "Only a report. Choose a place to also write the result."
_SAVED = {
    ".onnx": "An ONNX model, which runs in every runtime.",
    ".edgeopt": "A bundle: the model with backend, options and proof.",
}


class PrecisionSettings(QScrollArea):
    changed = Signal()

    def __init__(self, context: Context) -> None:
        super().__init__()
        self._settings = context.settings
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setFixedWidth(self.fontMetrics().averageCharWidth() * _WIDE_LETTERS)
        choices = remembered(context.settings)
        self.out: Path | None = None
        """Path of the ONNX model or bundle to write; None to report only."""
        self.data = DataField(context, "precision", _NO_DATA)
        self.pre = PreparationBox(context, "Prepare the pictures", "prepares pictures in the data")
        self.accuracy = AccuracyField(choices, FLOORS)
        self.sizes = SizesField(*(context, "tokens=1x128"), "The shape of each input to plan for.", read_shapes)
        self._check_accuracy: Callable[[AccuracyChoices], str] | None = None
        """Function that returns the problem of the accuracy; None until it is imported, after the first window."""
        self.method, self.backend = narrow_combo(), narrow_combo()
        self.limit = QSpinBox(minimum=MINIMUM_LIMIT_S - 1, maximum=MAXIMUM_LIMIT_S, suffix=" s")
        self.limit.setSpecialValueText("None")
        self.place = PathField(
            *("precision.choose-bundle", "precision.choose-onnx", "precision.no-place"),
            texts=("Bundle…", "ONNX…", "None"),
        )
        self._showing = False
        self._set_methods((PLAN,), choices.method)
        self._set_backends((), choices.backend)
        self._lay_out()
        self._show_choices(choices)
        self.set_out(None)
        self.accuracy.changed.connect(self._chosen)
        self.sizes.changed.connect(self.changed)
        self.pre.changed.connect(self.changed)
        self.method.currentIndexChanged.connect(self._chosen)
        self.backend.currentIndexChanged.connect(self._chosen)
        self.limit.valueChanged.connect(self._chosen)
        self.data.counted.connect(self.changed)
        context.settings.changed.connect(self._reread)

    @property
    def choices(self) -> PrecisionChoices:
        limit_s = self.limit.value()
        return PrecisionChoices(
            **asdict(self.accuracy.choices),
            method=str(self.method.currentData()),
            backend=str(self.backend.currentData() or ""),
            time_limit_s=limit_s if limit_s >= MINIMUM_LIMIT_S else None,
        )

    @property
    def problem(self) -> str:
        """The first problem with the settings, as a sentence; "" if there is none."""
        return self.data.problem or self._problem_of_accuracy() or self.sizes.problem

    def command(self, model: Path, data: Path | None) -> Command:
        return self.choices.command(model, data, self.out, shape=self.sizes.shape, pre=self.pre.path)

    def set_metrics(
        self, metrics: Sequence["MetricChoice"], check_accuracy: Callable[[AccuracyChoices], str]
    ) -> None:
        self._check_accuracy = check_accuracy
        self.accuracy.set_metrics(metrics)

    def set_out(self, path: Path | None) -> None:
        self.out = path
        self.place.show_name(path, "Nothing is written")
        self.place.say(_NOT_SAVED if path is None else _SAVED.get(path.suffix, ""))
        self.changed.emit()

    def set_floor(self, value_db: float) -> None:
        """Makes it the user's own floor."""
        self.accuracy.own_db.setValue(value_db)
        self.accuracy.budgets[OWN].setChecked(True)

    def set_methods(self, names: Sequence[str]) -> None:
        self._set_methods(names, str(self.method.currentData()))

    def set_backends(self, names: Sequence[str]) -> None:
        """Fills the list of backends, and keeps the chosen one even if it is not available now."""
        self._set_backends(names, str(self.backend.currentData() or ""))

    def _set_methods(self, names: Sequence[str], chosen: str) -> None:
        titles = {PLAN: "A scheme for each layer"}
        known = names if chosen in names else (*names, chosen)
        _fill(self.method, [(titles.get(name, f"All layers {name}"), name) for name in known], chosen)

    def _set_backends(self, names: Sequence[str], chosen: str) -> None:
        known = names if chosen in {"", *names} else (*names, chosen)
        _fill(self.backend, [("The fastest", ""), *((name, name) for name in known)], chosen)

    def _show_choices(self, choices: PrecisionChoices) -> None:
        self._showing = True
        self.accuracy.set(choices)
        self.limit.setValue(choices.time_limit_s or self.limit.minimum())
        _pick(self.method, choices.method)
        _pick(self.backend, choices.backend)
        self._showing = False
        self._chosen()

    def _reread(self) -> None:
        """Shows the settings as they are stored, which may have been reset."""
        choices = remembered(self._settings)
        if choices != self.choices:
            self._show_choices(choices)

    def _chosen(self) -> None:
        if self._showing:
            return
        self.accuracy.say(self._problem_of_accuracy())
        remember(self._settings, self.choices)
        self.changed.emit()

    def _problem_of_accuracy(self) -> str:
        return self._check_accuracy(self.accuracy.choices) if self._check_accuracy is not None else ""

    def _lay_out(self) -> None:
        line = self.fontMetrics().height()
        self.fields = Scrolled()
        column = self.fields.column
        column.setContentsMargins(0, 0, line, 0)
        column.setSpacing(line // 3)
        self._rows = Rows()
        self._rows.add("Method", self.method)
        self._rows.add("Backend", self.backend)
        self._rows.add("Time limit", self.limit)
        groups = (
            ("Data", (self.data, self.pre, self.sizes)),
            ("Accuracy", (self.accuracy,)),
            ("Plan", (self._rows,)),
            ("Result", (self.place,)),
        )
        for title, fields in groups:
            column.addWidget(heading(title, 3))
            for field in fields:
                column.addWidget(field)
            column.addSpacing(line // 2)
        column.addStretch()
        self.setWidget(self.fields)


def _pick(box: QComboBox, name: str) -> None:
    if (index := box.findData(name)) >= 0:
        box.setCurrentIndex(index)


def _fill(box: QComboBox, items: Sequence[tuple[str, str]], chosen: str) -> None:
    box.blockSignals(True)
    box.clear()
    for title, name in items:
        box.addItem(title, name)
    box.setCurrentIndex(max(0, box.findData(chosen)))
    box.blockSignals(False)
