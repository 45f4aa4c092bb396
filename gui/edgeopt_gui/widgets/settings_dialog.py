"""The settings that concern the whole app; each is kept as soon as it is changed."""

from collections.abc import Sequence

from PySide6.QtCore import Signal
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QDialog,
    QDialogButtonBox,
    QFormLayout,
    QLabel,
    QLineEdit,
    QSpinBox,
    QVBoxLayout,
    QWidget,
)

from edgeopt.fleet.address import DEFAULT_URL
from edgeopt_gui.pages.optimize.choices import BUDGETS, LONGEST_LIMIT_S, METRIC, OWN, SHORTEST_LIMIT_S, Choices
from edgeopt_gui.settings import Settings
from edgeopt_gui.theme.apply import CHOICES, SETTING

# The pages read the same keys.
AGENT_URL = "agent.url"
BUDGET = "optimize.budget"
TIME_LIMIT_S = "optimize.time-limit-s"
CONFIRM_QUIT = "confirm-quit"

_BY_SIZE_S = SHORTEST_LIMIT_S - 1


class SettingsDialog(QDialog):
    reset = Signal()
    """Request to reset all settings; the window does it, because its own layout is one of them."""

    def __init__(self, settings: Settings, parent: QWidget) -> None:
        super().__init__(parent)
        self.setObjectName("settings")
        self.setWindowTitle("Settings")
        self._settings = settings
        self.theme = self._choice(SETTING, [(name.title(), name) for name in CHOICES], CHOICES[0])
        kept = settings.text(BUDGET, Choices().budget)
        # A floor or metric of the user's own needs figures from the page Optimize, so it cannot be chosen here.
        budgets = [(b.title, b.key) for b in BUDGETS if b.key not in {OWN, METRIC} or b.key == kept]
        self.budget = self._choice(BUDGET, budgets, Choices().budget)
        self.limit = QSpinBox(minimum=_BY_SIZE_S, maximum=LONGEST_LIMIT_S, singleStep=5, suffix=" s")
        self.limit.setSpecialValueText("Automatic")
        self.limit.setToolTip("Automatic depends on the model size")
        self.limit.setValue(int(settings.number(TIME_LIMIT_S, 0)))
        self.limit.valueChanged.connect(self._keep_limit)
        self.url = QLineEdit(settings.text(AGENT_URL, DEFAULT_URL), placeholderText=DEFAULT_URL)
        self.url.setMinimumWidth(self.fontMetrics().averageCharWidth() * 36)
        self.url.editingFinished.connect(self._keep_url)
        self.confirm = QCheckBox("Ask before quitting while a job runs")
        self.confirm.setChecked(settings.flag(CONFIRM_QUIT, True))
        self.confirm.toggled.connect(lambda on: settings.keep(CONFIRM_QUIT, on))
        form = QFormLayout()
        form.setSpacing(self.fontMetrics().height() // 2)
        for title, field in (
            ("&Theme", self.theme),
            ("Accuracy &floor", self.budget),
            ("Time &limit of a search", self.limit),
            ("&Address of the agent", self.url),
        ):
            form.addRow(title, field)
            field.setAccessibleName(title.replace("&", ""))
        form.addRow("", self.confirm)
        note = QLabel("Changes apply immediately.")
        note.setProperty("role", "muted")
        form.addRow("", note)
        buttons = QDialogButtonBox(
            QDialogButtonBox.StandardButton.RestoreDefaults | QDialogButtonBox.StandardButton.Close
        )
        buttons.rejected.connect(self.accept)
        defaults = buttons.button(QDialogButtonBox.StandardButton.RestoreDefaults)
        defaults.setText("Reset everything")
        defaults.setToolTip("Restores settings, window layout and recent files to those of the first start")
        defaults.clicked.connect(self._reset)
        column = QVBoxLayout(self)
        margin = self.fontMetrics().height()
        column.setContentsMargins(margin, margin, margin, margin)
        column.setSpacing(margin)
        column.addLayout(form)
        column.addWidget(buttons)

    def done(self, result: int) -> None:
        self._keep_url()
        super().done(result)

    def _choice(self, key: str, choices: Sequence[tuple[str, str]], default: str) -> QComboBox:
        box = QComboBox()
        for title, name in choices:
            box.addItem(title, name)
        known = box.findData(self._settings.text(key, default))
        box.setCurrentIndex(known if known >= 0 else box.findData(default))
        box.currentIndexChanged.connect(lambda _: self._settings.keep(key, str(box.currentData())))
        return box

    def _keep_limit(self, value: int) -> None:
        self._settings.keep(TIME_LIMIT_S, 0 if value == _BY_SIZE_S else value)

    def _keep_url(self) -> None:
        self._settings.keep(AGENT_URL, self.url.text().strip() or DEFAULT_URL)

    def _reset(self) -> None:
        self.reset.emit()
        super().done(QDialog.DialogCode.Accepted)
