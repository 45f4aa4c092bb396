"""The settings of a search; limits and rarely used ones are folded."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QCheckBox,
    QFrame,
    QLabel,
    QLineEdit,
    QScrollArea,
    QSizePolicy,
    QSpinBox,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from edgeopt.profiles.targets import TargetVerdict
from edgeopt_gui.context import Context
from edgeopt_gui.pages.optimize.accuracy_field import AccuracyField
from edgeopt_gui.pages.optimize.choices import (
    LATENCY,
    LONGEST_LIMIT_S,
    SHORTEST_LIMIT_S,
    Choices,
    remember,
    remembered,
)
from edgeopt_gui.pages.optimize.data_field import DataField
from edgeopt_gui.pages.optimize.in_the_app import TITLES
from edgeopt_gui.pages.optimize.input_fields import PreparationBox, SizesField
from edgeopt_gui.pages.optimize.limits_field import LimitsField
from edgeopt_gui.pages.optimize.rows import narrow_combo
from edgeopt_gui.pages.optimize.texts import SELECTABLE, large, problem_label, quiet, selectable
from edgeopt_gui.pages.optimize.today_field import TodayField
from edgeopt_gui.widgets.fold import Fold
from edgeopt_gui.widgets.scrolled import Scrolled

if TYPE_CHECKING:
    from edgeopt_gui.pages.optimize.core import Problems, Vocabulary

_WIDE_LETTERS = 44
_OPEN = "optimize.unfolded"
_ROOM_LETTERS = 180
"""Page width in letters below which the panel folds beside a result, to give the table of candidates room."""


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
        self._check: Callable[[Choices], Problems] | None = None
        """Function that checks the choices; None until the core is imported, after the first window."""
        self._busy = True
        self.problem = ""
        """The first problem with the choices, as a sentence; "" if there is none."""
        choices = remembered(context.settings)
        self.fields = Scrolled()
        """Container of all fields, disabled in a search instead of the scroll area, which must still scroll."""
        height = self.fontMetrics().height()
        self.fields.column.setContentsMargins(0, 0, height, 0)
        self.fields.column.setSpacing(height // 4)
        self.data, self.today = DataField(context), TodayField()
        self.accuracy, self.limits = AccuracyField(choices), LimitsField(choices)
        self._group(self.fields.column, TITLES["data"], self.data)
        self._group(self.fields.column, "Accuracy", self.accuracy)
        self._group(self.fields.column, TITLES["objective"], *self._objective(choices))
        self._group(self.fields.column, TITLES["time_limit_s"], *self._limit(choices))
        self.fields.column.addSpacing(height // 2)
        self.fold = Fold("More limits and settings", self._folded(choices))
        self.fold.set_open(context.settings.flag(_OPEN))
        self.fields.column.addWidget(self.fold)
        self.fields.column.addStretch()
        self.setWidget(self.fields)
        self._busy = False
        self._refresh()
        for signal in (self.data.counted, self.today.changed):
            signal.connect(self._refresh)
        for signal in (self.accuracy.changed, self.limits.changed):
            signal.connect(self._refresh)
        self.fold.toggled.connect(lambda on: context.settings.keep(_OPEN, on))
        context.settings.changed.connect(self._reread)

    @property
    def choices(self) -> Choices:
        limit_s = self.limit.value()
        limits: dict[str, Any] = {name: field.text().strip() for name, field in self.limits.fields.items()}
        return Choices(
            **asdict(self.accuracy.choices),
            target=str(self.target.currentData() or ""),
            time_limit_s=limit_s if limit_s >= SHORTEST_LIMIT_S else None,
            objective=str(self.objective.currentData()),
            on=self.on.text().strip(),
            single_file=self.single_file.isChecked(),
            plugins=self.plugins.isChecked(),
            **limits,
        )

    @property
    def pre(self) -> Path | None:
        """The preprocessing that goes into the bundle; None for several sizes, which do not allow one."""
        return self.with_pre.path if not self.shape else None

    @property
    def shape(self) -> tuple[str, ...]:
        """The sizes of open dimensions, as `--shape` takes them."""
        return self.sizes.shape

    def forget_model(self) -> None:
        """Clears the settings that apply to the previous model only."""
        self.today.set(None)
        self.with_pre.setChecked(True)
        self.sizes.line.clear()
        self.verticalScrollBar().setValue(0)

    def set_targets(self, verdicts: Sequence[TargetVerdict]) -> None:
        """Fills the list of targets from `edgeopt targets`, and keeps the chosen one if it is still listed."""
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
        self._refresh()

    def set_core(self, words: "Vocabulary", check: Callable[[Choices], "Problems"]) -> None:
        """Fills the lists from the core's vocabulary, keeps what was chosen, and stores the function `check`."""
        chosen = str(self.objective.currentData())
        self.objective.blockSignals(True)
        self.objective.clear()
        for each in words.objectives:
            self.objective.addItem(each.title, each.name)
        self.objective.setCurrentIndex(max(0, self.objective.findData(chosen)))
        self.objective.blockSignals(False)
        self._check = check
        self.accuracy.set_metrics(words.metrics)
        self.plugins.setToolTip("\n".join(words.plugins))
        self.plugins.setVisible(bool(words.plugins))
        self._refresh()

    def set_enabled(self, on: bool) -> None:
        """Whether the fields can be changed; they can be looked through in any case."""
        self.fields.setEnabled(on)
        for label in self.fields.findChildren(QLabel):
            if label.property("role") == "muted":  # Qt draws text that can be selected as if it were not disabled
                label.setTextInteractionFlags(SELECTABLE if on else Qt.TextInteractionFlag.NoTextInteraction)

    def _group(self, column: QVBoxLayout, title: str, *widgets: QWidget) -> None:
        if column.count():
            column.addSpacing(self.fontMetrics().height() * 2 // 3)
        column.addWidget(large(QLabel(title), 1.0))
        for widget in widgets:
            column.addWidget(widget)

    def _objective(self, choices: Choices) -> tuple[QWidget, ...]:
        self.objective = narrow_combo()
        self.objective.setAccessibleName("Objective: the metric to optimize")
        for name in dict.fromkeys((LATENCY, choices.objective)):
            self.objective.addItem(name.capitalize(), name)
        self.objective.setCurrentIndex(self.objective.findData(choices.objective))
        self.objective.currentIndexChanged.connect(self._refresh)
        return (self.objective,)

    def _limit(self, choices: Choices) -> tuple[QWidget, ...]:
        # One below the minimum means "automatic": Qt shows its special text for the lowest value.
        self.limit = QSpinBox(minimum=SHORTEST_LIMIT_S - 1, maximum=LONGEST_LIMIT_S, suffix=" s")
        self.limit.setSpecialValueText("Automatic")
        self.limit.setValue(choices.time_limit_s or self.limit.minimum())
        self.limit.setAccessibleName("Time limit in seconds")
        self.limit.setToolTip("Automatic is a minute, and more above 10 MB")
        self.limit.valueChanged.connect(self._refresh)
        return (self.limit,)

    def _folded(self, choices: Choices) -> QWidget:
        inside = QWidget()
        column = QVBoxLayout(inside)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(self.fontMetrics().height() // 4)
        self.target = narrow_combo()
        self.target.setAccessibleName("Target")
        self.target.addItem("Automatic", "")
        if choices.target:
            self.target.addItem(choices.target, choices.target)
            self.target.setCurrentIndex(1)
        self.target.currentIndexChanged.connect(self._refresh)
        self.reason = quiet(selectable(QLabel()))
        self.single_file = QCheckBox("Save bundles as one file")
        self.single_file.setToolTip("Instead of as a folder; either can be deployed")
        self.single_file.setChecked(choices.single_file)
        self.single_file.toggled.connect(self._refresh)
        self.with_pre = PreparationBox(self._context, "Bundle the preprocessing", "goes into the bundle")
        self.with_pre.changed.connect(self._refresh)
        self.plugins = QCheckBox("Try what plug-ins offer")
        self.plugins.setChecked(choices.plugins)
        self.plugins.hide()
        self.plugins.toggled.connect(self._refresh)
        self.sizes = SizesField(
            self._context,
            "seq=16:32:128 batch=1,4",
            "Minimum, typical and maximum, or a list. A program is built for each size where that is faster.",
        )
        self.sizes.changed.connect(self._refresh)
        self.on = QLineEdit(choices.on, placeholderText="this device")
        self.on.setAccessibleName("Address of the device to measure on")
        self.on.setToolTip("ssh://user@host, or the address of its agent, such as https://host:8080")
        self.on.textChanged.connect(self._refresh)
        self.on_problem = problem_label()
        column.addWidget(self.limits)
        self._group(column, TITLES["baseline"], self.today)
        column.addWidget(self.sizes)
        self._group(column, "Measure on", self.on, self.on_problem)
        self._group(column, TITLES["target"], self.target, self.reason)
        column.addSpacing(self.fontMetrics().height() // 2)
        column.addWidget(self.single_file)
        column.addWidget(self.with_pre)
        column.addWidget(self.plugins)
        return inside

    def _reread(self) -> None:
        """Reads the settings again after the app's dialog changed or reset them."""
        self.fold.set_open(self._context.settings.flag(_OPEN))
        choices = remembered(self._context.settings)
        if self._busy or choices == self.choices:
            return
        self._busy = True
        self.accuracy.set(choices)
        self.limits.set(choices)
        self.objective.setCurrentIndex(max(0, self.objective.findData(choices.objective)))
        self.target.setCurrentIndex(max(0, self.target.findData(choices.target)))
        self.limit.setValue(choices.time_limit_s or self.limit.minimum())
        self.on.setText(choices.on)
        self.single_file.setChecked(choices.single_file)
        self.plugins.setChecked(choices.plugins)
        self._busy = False
        self._refresh()

    def _refresh(self) -> None:
        if self._busy:
            return
        choices = self.choices
        fallback = "The target that fits this device best." if not choices.target else ""
        self.reason.setText(self._reasons.get(choices.target, fallback))
        self.reason.setVisible(bool(self.reason.text()))
        today = f"today {self.today.path.name}" if self.today.path is not None else ""
        found = self._check(choices) if self._check is not None else None
        hidden = (found.limits or found.speedup or found.place) if found is not None else ""
        self.on_problem.setText(found.place if found is not None else "")
        self.on_problem.setVisible(bool(self.on_problem.text()))
        hidden = hidden or self.today.problem
        pre = f"with {self.pre.name}" if self.pre is not None else ""
        summary = "; ".join(part for part in (choices.folded(), " ".join(self.shape), today, pre) if part)
        self.fold.say(hidden or summary[:1].upper() + summary[1:])
        self.accuracy.say(found.accuracy if found is not None else "")
        self.limits.say(found.limits if found is not None else "", found.speedup if found is not None else "")
        self.problem = self.data.problem and f"The data cannot be used: {self.data.problem}"
        self.problem = self.problem or (found.first if found is not None else "")
        self.problem = self.problem or (f"What runs today: {self.today.problem}" if self.today.problem else "")
        self._busy = True
        remember(self._context.settings, choices)
        self._busy = False
        self.changed.emit()


class FoldingPanel(QWidget):
    """The settings below a button that folds them away; a search folds them by itself."""

    def __init__(self, panel: SettingsPanel) -> None:
        super().__init__()
        self._panel = panel
        self._racing = self._found = self._narrow = False
        self._unfolded = True
        self.head = QToolButton(autoRaise=True)
        self.head.setCheckable(True)
        self.head.setText("Settings")
        self.head.setProperty("role", "fold")
        self.head.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.head.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.head.toggled.connect(self._show)
        self.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Preferred)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.addWidget(self.head, 0, Qt.AlignmentFlag.AlignTop)
        column.addWidget(panel, 1)
        self.head.setChecked(True)

    def race(self, on: bool, *, found: bool = False) -> None:
        """Sets whether a search is running; `found` is whether a result is shown."""
        self._panel.set_enabled(not on)
        self._racing, self._found = on, found
        self._follow()

    def set_room(self, width: int) -> None:
        """Sets the width of the whole page, in pixels."""
        self._narrow = width < self.fontMetrics().averageCharWidth() * _ROOM_LETTERS
        self._follow()

    def _follow(self) -> None:
        """Folds or unfolds when the reason comes or goes, so that what the user did in between stays."""
        unfolded = not self._racing and not (self._found and self._narrow)
        if unfolded != self._unfolded:
            self._unfolded = unfolded
            self.head.setChecked(unfolded)

    def _show(self, on: bool) -> None:
        self.head.setArrowType(Qt.ArrowType.DownArrow if on else Qt.ArrowType.RightArrow)
        self._panel.setVisible(on)
