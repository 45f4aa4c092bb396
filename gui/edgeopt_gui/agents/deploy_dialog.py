"""The dialog *Deploy*: which agent, what would change there, and the deployment as it goes."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QComboBox,
    QDialog,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QProgressBar,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from edgeopt.fleet.records import DeployPlan
from edgeopt.views.deploy_plan import consequence, plan_rows
from edgeopt_gui.agents.access_dialog import AccessDialog, wants_access
from edgeopt_gui.agents.deployer import Deployer
from edgeopt_gui.agents.known import known_address, known_agents
from edgeopt_gui.context import Context
from edgeopt_gui.jobs.ending import Ending
from edgeopt_gui.widgets.fact import Fact, FactGroup
from edgeopt_gui.widgets.facts import FactsView

_LETTERS = 84
_SHARES = 1000
# Exceptions that the user may allow after the agent refuses: text of the button, and option.
_WAYS = {
    "other-name": (("Replace it anyway", "--rename"), ("Serve both", "--add")),
    "other-device": (("Deploy it anyway", "--force"),),
}
_NEXT_STEPS = {
    "unsigned": "Sign it with edgeopt sign, with a key that the agent trusts, and deploy the signed copy.",
    "busy": "Wait for its end, or cancel it, and ask again.",
    "other-name": "",
    "other-device": "Optimize the model on that device, or deploy it anyway.",
}


class DeployDialog(QDialog):
    """The dialog; call `open`. It deletes itself when closed; a running deployment continues as a job."""

    def __init__(
        self,
        parent: QWidget,
        context: Context,
        bundle: Path,
        figures: Sequence[tuple[str, str]] = (),
        url: str = "",
    ) -> None:
        """`figures` are what else is known of the bundle; `url` is that of the agent, where that is decided."""
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setObjectName("deploy")
        self.setWindowTitle(f"Deploy {bundle.name}")
        self._context, self._bundle, self._figures = context, bundle, tuple(figures)
        self.deployer = Deployer(context.jobs, bundle, self)
        self.deployer.planned.connect(self._show_plan)
        self.deployer.progressed.connect(self._show_progress)
        self.deployer.served.connect(self._show_success)
        self.deployer.failed.connect(self._show_failure)
        self.deployer.cancelled.connect(self._show_cancelled)
        self.agent = QComboBox(editable=True, insertPolicy=QComboBox.InsertPolicy.NoInsert)
        self.agent.setAccessibleName("Agent")
        self.agent.addItems([url] if url else known_agents(context.settings))
        self.agent.setEnabled(not url)
        field = self.agent.lineEdit() or QLineEdit()  # an editable box has one
        field.setPlaceholderText("For example device:8080")
        self.ask = QPushButton("Ask the agent")
        self.ask.setToolTip("Asks what the deployment would change; nothing is sent")
        self.facts = FactsView(name_letters=16)
        self.facts.setAccessibleName("What changes")
        self.consequence, self.problem, self.doing = (QLabel(wordWrap=True) for _ in range(3))
        self.problem.setProperty("role", "problem")
        self.problem.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.ways = QHBoxLayout()
        self.bar = QProgressBar(textVisible=False)
        self.bar.setAccessibleName("Progress of the deployment")
        self.go, self.stop, self.watch = (QPushButton() for _ in range(3))
        self.go.setProperty("primary", True)
        self.stop.setText("Cancel the deployment")
        self.watch.setText("Watch it on Live")
        self.leave = QPushButton("Cancel")
        self.agent.editTextChanged.connect(self._forget)
        self.agent.activated.connect(lambda _: self._ask())
        self.ask.clicked.connect(lambda _: self._ask())
        self.go.clicked.connect(self._deploy)
        self.stop.clicked.connect(self._cancel)
        self.watch.clicked.connect(self._watch)
        self.leave.clicked.connect(self.reject)
        self._lay_out()
        self._forget()
        if url or context.settings.agents():
            self._ask()

    @property
    def url(self) -> str:
        return self.agent.currentText().strip()

    def _ask(self, ways: tuple[str, ...] = ()) -> None:
        if self.url and not self.deployer.deploying:
            self._forget()
            self._say(doing="Asking the agent…")
            self.deployer.ask(self.url, ways)

    def _deploy(self) -> None:
        self.deployer.deploy()
        self._say(doing="Starting…")
        self.bar.setRange(0, 0)
        self._settle()

    def _cancel(self) -> None:
        self.deployer.cancel()
        self._say(doing="Cancelling…")
        self._settle()

    def _watch(self) -> None:
        self._context.watch_agent(self.url)
        self.accept()

    def _forget(self) -> None:
        """Clears the plan and the texts, which belong to another address."""
        self.deployer.forget()
        self._show_facts((("Bundle", self._bundle.name), *self._figures))
        self.consequence.setText("")
        self._say()
        self._settle()

    def _show_plan(self, plan: DeployPlan) -> None:
        self._context.settings.remember_agent(known_address(self.url))
        self._show_facts((*plan_rows(plan), *self._figures))
        self.consequence.setText(consequence(plan))
        self._say(problem=f"{plan.problem} {_NEXT_STEPS.get(plan.code, plan.hint)}".strip())
        for text, option in _WAYS.get(plan.code, ()):
            self._offer(text, partial(self._ask, (*self.deployer.ways, option)))
        self._settle()

    def _show_facts(self, rows: Iterable[tuple[str, str]]) -> None:
        self.facts.set_groups((FactGroup("", tuple(Fact(name, value) for name, value in rows)),))

    def _show_progress(self, sentence: str, share: float) -> None:
        if not self.deployer.cancelling:
            self._say(doing=sentence)
        self.bar.setRange(0, _SHARES if share >= 0 else 0)
        self.bar.setValue(round(_SHARES * max(0.0, share)))
        self._settle()

    def _show_success(self, plan: DeployPlan) -> None:
        before = plan.replaces
        rows = [("Serves now", f"{plan.name} (release {plan.release}): {plan.summary}")]
        if before is not None:
            rows.append(("For a rollback", f"{before.name} (release {before.release}), which stays on the device"))
        self._show_facts(rows)
        self.consequence.setText("")
        self._say(doing=f"{plan.name} (release {plan.release}) serves at {self.url}.")
        self._settle(served=True)

    def _show_failure(self, ending: Ending) -> None:
        self._say(problem=f"{ending.what} {ending.next_step}".strip())
        if wants_access(ending):
            self._offer("Enter an access token…", self._ask_for_access)
        self._settle()

    def _show_cancelled(self) -> None:
        self._say(doing="Cancelled. The agent serves what it served before.")
        self._settle()

    def _ask_for_access(self) -> None:
        dialog = AccessDialog(self, self.url)
        dialog.kept.connect(lambda _: self._ask(self.deployer.ways))
        dialog.open()

    def _offer(self, text: str, does: Callable[[], None]) -> None:
        button = QPushButton(text)
        button.clicked.connect(lambda _: does())
        self.ways.insertWidget(self.ways.count() - 1, button)

    def _say(self, *, problem: str = "", doing: str = "") -> None:
        while self.ways.count() > 1:
            item = self.ways.takeAt(0)
            widget = item.widget() if item is not None else None
            if widget is not None:
                widget.hide()
                widget.deleteLater()
        self.problem.setText(problem)
        self.doing.setText(doing)

    def _settle(self, *, served: bool = False) -> None:
        """Updates which buttons and labels are enabled, visible and default."""
        deploying, plan = self.deployer.deploying, self.deployer.plan
        ready = plan is not None and not plan.problem and plan.action != "none" and not served
        self.go.setText(f"Deploy to {self.url}" if self.url else "Deploy")
        self.go.setEnabled(ready and not deploying)
        self.go.setDefault(ready)
        self.go.setVisible(not deploying and not served)
        self.stop.setVisible(deploying)
        self.stop.setEnabled(not self.deployer.cancelling)
        self.watch.setVisible(served)
        self.bar.setVisible(deploying)
        self.leave.setText("Close" if deploying or served else "Cancel")
        self.ask.setEnabled(not deploying)
        self.ask.setDefault(not ready and not served)
        for label in (self.consequence, self.problem, self.doing):
            label.setVisible(bool(label.text()))

    def _lay_out(self) -> None:
        line = self.fontMetrics().height()
        address = QHBoxLayout()
        label = QLabel("&Agent")
        label.setBuddy(self.agent)
        address.addWidget(label)
        address.addWidget(self.agent, 1)
        address.addWidget(self.ask)
        self.ways.addStretch()
        buttons = QHBoxLayout()
        buttons.addStretch()
        for button in (self.leave, self.stop, self.watch, self.go):
            buttons.addWidget(button)
        rows = QVBoxLayout(self)
        rows.setContentsMargins(line, line, line, line)
        rows.setSpacing(line // 2)
        rows.addLayout(address)
        rows.addWidget(self.facts)
        for widget in (self.consequence, self.problem, self.doing, self.bar):
            rows.addWidget(widget)
        rows.addLayout(self.ways)
        rows.addStretch()
        rows.addLayout(buttons)
        letter = self.fontMetrics().averageCharWidth()
        self.setMinimumWidth(letter * _LETTERS)
        self.resize(letter * _LETTERS, line * 22)
