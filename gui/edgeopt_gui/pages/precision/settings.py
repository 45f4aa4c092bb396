"""The settings of a plan: data, floor, method, backend, time limit, and where the result is written."""

from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QComboBox, QDoubleSpinBox, QFrame, QScrollArea, QSpinBox

from edgeopt_gui.context import Context
from edgeopt_gui.pages.optimize.choices import OWN
from edgeopt_gui.pages.optimize.data_field import DataField
from edgeopt_gui.pages.optimize.path_field import PathField
from edgeopt_gui.pages.optimize.rows import Rows, narrow_combo
from edgeopt_gui.pages.precision.choices import (
    FLOORS,
    MAXIMUM_DB,
    MAXIMUM_LIMIT_S,
    MINIMUM_DB,
    MINIMUM_LIMIT_S,
    PLAN,
    PrecisionChoices,
    remember,
    remembered,
)
from edgeopt_gui.widgets.heading import heading
from edgeopt_gui.widgets.scrolled import Scrolled

_WIDE_LETTERS = 44
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
        self.floor, self.method, self.backend = narrow_combo(), narrow_combo(), narrow_combo()
        for key, title in FLOORS:
            self.floor.addItem(title, key)
        self.own_db = QDoubleSpinBox(minimum=MINIMUM_DB, maximum=MAXIMUM_DB, decimals=1, suffix=" dB")
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
        self.floor.currentIndexChanged.connect(self._chosen)
        self.own_db.valueChanged.connect(self._chosen)
        self.method.currentIndexChanged.connect(self._chosen)
        self.backend.currentIndexChanged.connect(self._chosen)
        self.limit.valueChanged.connect(self._chosen)
        self.data.counted.connect(self.changed)
        context.settings.changed.connect(self._reread)

    @property
    def choices(self) -> PrecisionChoices:
        limit_s = self.limit.value()
        return PrecisionChoices(
            method=str(self.method.currentData()),
            budget=str(self.floor.currentData()),
            own_db=self.own_db.value(),
            backend=str(self.backend.currentData() or ""),
            time_limit_s=limit_s if limit_s >= MINIMUM_LIMIT_S else None,
        )

    def set_out(self, path: Path | None) -> None:
        self.out = path
        self.place.show_name(path, "Nothing is written")
        self.place.say(_NOT_SAVED if path is None else _SAVED.get(path.suffix, ""))
        self.changed.emit()

    def set_floor(self, value_db: float) -> None:
        """Makes it the user's own floor."""
        self.own_db.setValue(value_db)
        self.floor.setCurrentIndex(self.floor.findData(OWN))

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
        self.floor.setCurrentIndex(self.floor.findData(choices.budget))
        self.own_db.setValue(choices.own_db)
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
        self._rows.show_row(self.own_db, self.floor.currentData() == OWN)
        remember(self._settings, self.choices)
        self.changed.emit()

    def _lay_out(self) -> None:
        line = self.fontMetrics().height()
        self.fields = Scrolled()
        column = self.fields.column
        column.setContentsMargins(0, 0, line, 0)
        column.setSpacing(line // 3)
        self._rows = Rows()
        self._rows.add("Floor", self.floor, "Accuracy floor")
        self._rows.add("At least", self.own_db, "Your own accuracy floor")
        self._rows.add("Method", self.method)
        self._rows.add("Backend", self.backend)
        self._rows.add("Time limit", self.limit)
        self._rows.show_row(self.own_db, self.floor.currentData() == OWN)
        for title, field in (("Data", self.data), ("Plan", self._rows), ("Result", self.place)):
            column.addWidget(heading(title, 3))
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
