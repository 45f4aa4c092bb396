"""The dialog that starts a rollout: the bundle, the devices, the waves and when it stops."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import msgspec
from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QDialog,
    QFormLayout,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from edgeopt.decoding import thread_safe
from edgeopt.errors import EdgeoptError
from edgeopt.fleet.devices import FleetDevice
from edgeopt.fleet.rollout_commands import RolloutReport
from edgeopt_gui.jobs.ending import Ending
from edgeopt_gui.jobs.job import Job
from edgeopt_gui.jobs.runner import JobRunner
from edgeopt_gui.pages.fleet import commands
from edgeopt_gui.pages.fleet.commands import USUAL, RolloutChoices
from edgeopt_gui.pages.fleet.connection import Connection
from edgeopt_gui.pages.fleet.file_field import FileField
from edgeopt_gui.pages.fleet.form_words import ending_in_the_form, in_the_form
from edgeopt_gui.pages.fleet.preview import preview, selections
from edgeopt_gui.pages.fleet.waves import plan_text
from edgeopt_gui.widgets.fold import Fold
from edgeopt_gui.widgets.heading import quiet

_LETTERS = 92
_LIMITS = (
    ("max_errors", "&Errors at most", "Share of failed requests in the trial period: 1%"),
    ("min_agreement_db", "A&greement at least", "With the release before, in dB: 40"),
    ("max_slowdown", "S&lower at most", "Than the release before on the same device: 20%"),
    ("soak_seconds", "&Trial period", "In seconds; set by the agent if empty"),
    ("device_timeout", "Time in one &state", "In seconds, then a device failed: 3600"),
    ("model", "&Model", "The first one of the device if empty"),
    ("name", "&Name of the rollout", "Bundle and time if empty"),
)
_WAYS = (
    ("force", "Deploy even where the bundle failed before"),
    ("rename", "Deploy even if the model has another name"),
    ("allow_downgrade", "Deploy even if a newer signature was served before"),
)


class StartDialog(QDialog):
    """The dialog; call `open`, and it deletes itself when closed."""

    confirmed = Signal(object)
    """The `RolloutChoices`, after the user has seen the waves."""

    def __init__(
        self,
        parent: QWidget,
        jobs: JobRunner,
        connection: Connection,
        devices: Mapping[str, FleetDevice],
        chosen: Sequence[str] = (),
        key: str = "",
    ) -> None:
        """`chosen` are the devices that are selected in the table, if there are several."""
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setObjectName("fleet-start")
        self.setWindowTitle("Start a rollout")
        self._jobs, self._connection, self._devices = jobs, connection, devices
        self._asking: Job | None = None
        self.planned: RolloutChoices | None = None
        """The choices shown for confirmation, with the planned name and digest; None before there is a plan."""
        self.bundle, self.digest = QLineEdit(), QLineEdit()
        self.bundle.setPlaceholderText("https://models.example.com/bundles/model.edgeopt")
        self.bundle.setAccessibleName("Address of the bundle")
        self.digest.setPlaceholderText("sha256:…; read from the bundle if empty")
        self.digest.setAccessibleName("Digest of the bundle file")
        self.to = QComboBox(editable=True, insertPolicy=QComboBox.InsertPolicy.NoInsert)
        self.to.setAccessibleName("Devices: names, patterns, labels or @FILE, separated by commas")
        self.to.addItems([",".join(chosen)] if chosen else [])
        self.to.addItems(selections(devices))
        self.waves, self.stop = QLineEdit(USUAL.waves), QLineEdit(USUAL.stop_at_failures)
        self.waves.setAccessibleName("Sizes of the waves: devices, percentages of all, rest")
        self.stop.setAccessibleName("Stop if more than this share of the devices fails")
        self.fields = {name: QLineEdit(placeholderText=hint) for name, _, hint in _LIMITS}
        self.ways = {name: QCheckBox(title) for name, title in _WAYS}
        self.key = FileField("Private key that signs the orders", "signing-key", key)
        self.preview, self.problem, self.plan = (QLabel(wordWrap=True) for _ in range(3))
        self.preview.setProperty("role", "muted")
        self.problem.setProperty("role", "problem")
        for label in (self.problem, self.plan):
            label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.more = Fold("Limits, trial period and signing", self._more())
        self.form = QWidget()
        self.go, self.back, self.leave = QPushButton(), QPushButton("Change it"), QPushButton("Cancel")
        self.go.setProperty("primary", True)
        self.go.setDefault(True)
        self.go.clicked.connect(self._go)
        self.back.clicked.connect(self._edit)
        self.leave.clicked.connect(self.reject)
        texts = (self.waves, self.stop, *(self.fields[name] for name in ("max_errors", "max_slowdown")))
        for field in (self.bundle, self.digest, *texts):
            field.textChanged.connect(self._look)
        self.to.currentTextChanged.connect(self._look)
        self._lay_out()
        self._edit()

    def choices(self) -> RolloutChoices:
        digest = self.digest.text().split()
        found = digest[0] if digest else ""  # sha256sum prints the file beside it
        if found and not found.startswith("sha256:"):
            found = f"sha256:{found}"
        texts = {name: field.text().strip() for name, field in self.fields.items()}
        ways = {name: box.isChecked() for name, box in self.ways.items()}
        plain = RolloutChoices(
            bundle=self.bundle.text().strip(),
            digest=found,
            to=self.to.currentText().strip(),
            waves=self.waves.text().strip(),
            stop_at_failures=self.stop.text().strip(),
            key=self.key.text,
        )
        return replace(plain, **texts, **ways)  # type: ignore[arg-type]

    def done(self, result: int) -> None:
        asking, self._asking = self._asking, None
        if asking is not None:
            asking.ended.disconnect(self._answered)
            asking.cancel()
        super().done(result)

    def _look(self) -> None:
        """Shows the waves of the form's choices, or what is wrong with them."""
        choices = self.choices()
        problem = ""
        try:
            self.preview.setText(preview(choices, self._devices))
        except EdgeoptError as error:
            problem = in_the_form(error)
            self.preview.setText("")
        self.problem.setText(problem)
        self.problem.setVisible(bool(problem))
        missing = not choices.bundle
        self.go.setEnabled(self._asking is None and not problem and not missing)
        self.go.setToolTip("Give the address of the bundle first." if missing else problem)

    def _go(self) -> None:
        if self.planned is not None:
            choices = self.planned
            self.accept()
            self.confirmed.emit(choices)
            return
        choices = self.choices()
        self._asking = self._jobs.run(commands.plan(self._connection, choices))
        self._asking.ended.connect(self._answered)
        self.go.setEnabled(False)
        self.go.setText("Asking the broker…")

    def _answered(self, ending: Ending) -> None:
        self._asking = None
        self.go.setText("Show the waves…")
        if not ending.good:
            ending = ending_in_the_form(ending)
            self._look()
            self.problem.setText(f"{ending.what} {ending.next_step}".strip())
            self.problem.show()
            return
        report = msgspec.convert(ending.data, thread_safe(RolloutReport))
        # The page finds its rollout by the planned name, and only the bundle that was confirmed is rolled out.
        self.planned = replace(self.choices(), name=report.name, digest=report.digest)
        self.plan.setText(plan_text(report, self.planned.stop_at_failures))
        self._show(planned=True)

    def _edit(self) -> None:
        self.planned = None
        self._show(planned=False)
        self._look()
        self.bundle.setFocus()

    def _show(self, *, planned: bool) -> None:
        self.form.setVisible(not planned)
        for widget in (self.plan, self.back):
            widget.setVisible(planned)
        if planned:
            self.problem.hide()
            self.go.setFocus()
        self.go.setText("Start the rollout" if planned else "Show the waves…")
        self.go.setEnabled(planned)
        self.adjustSize()

    def _more(self) -> QWidget:
        content = QWidget()
        form = QFormLayout(content)
        form.setContentsMargins(0, 0, 0, 0)
        for name, title, hint in _LIMITS:
            field = self.fields[name]
            field.setAccessibleName(f"{title.replace('&', '')}. {hint}")
            form.addRow(title, field)
        form.addRow("Signing &key", self.key)
        for box in self.ways.values():
            form.addRow("", box)
        return content

    def _lay_out(self) -> None:
        line = self.fontMetrics().height()
        form = QFormLayout()
        form.addRow("&Bundle", self.bundle)
        form.addRow("D&igest", self.digest)
        form.addRow("&Devices", self.to)
        form.addRow("&Waves", self.waves)
        form.addRow("Sto&p at failures", self.stop)
        inside = QVBoxLayout(self.form)
        inside.setContentsMargins(0, 0, 0, 0)
        inside.setSpacing(line // 2)
        inside.addWidget(quiet("The devices fetch the bundle from this address, if their agents allow it."))
        inside.addLayout(form)
        inside.addWidget(self.preview)
        inside.addWidget(self.more)
        buttons = QHBoxLayout()
        buttons.addStretch()
        for button in (self.leave, self.back, self.go):
            buttons.addWidget(button)
        rows = QVBoxLayout(self)
        rows.setContentsMargins(line, line, line, line)
        rows.setSpacing(line // 2)
        for widget in (self.form, self.plan, self.problem):
            rows.addWidget(widget)
        rows.addStretch()
        rows.addLayout(buttons)
        letter = self.fontMetrics().averageCharWidth()
        self.setMinimumWidth(letter * _LETTERS)
