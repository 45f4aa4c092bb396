"""The agent that is watched: its release, its deployments and their actions."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QCheckBox, QComboBox, QDoubleSpinBox, QGridLayout, QLabel, QVBoxLayout, QWidget

from edgeopt_gui.pages.live.agent import AgentRecord, Step
from edgeopt_gui.plots.ticks import clock_text
from edgeopt_gui.widgets.action_button import ActionButton
from edgeopt_gui.widgets.heading import keep_room
from edgeopt_gui.widgets.records import Column, Look, RecordsModel
from edgeopt_gui.widgets.records_table import RecordsTable

COLUMNS: tuple[Column[Step], ...] = (
    Column("At", lambda step: step.time_s, lambda step: clock_text(step.time_s), tip=lambda step: step.reason),
    Column(
        "Deployment",
        lambda step: (step.deployment, step.time_s),
        lambda step: step.listed,
        tip=lambda step: f"{step.listed}\n{step.reason}".strip(),
        stretch=True,
    ),
)
_ROWS = 5
_LINES = 2
_DEFAULT_RATE = 20.0


class AgentPanel(QWidget):
    traffic_changed = Signal()
    model_chosen = Signal(str)
    """The key of one of the agent's models, as `AgentRecord.models` has it."""

    def __init__(self) -> None:
        super().__init__()
        line = self.fontMetrics().height()
        self._title = QLabel("Agent")
        self._title.setProperty("role", "heading")
        self.model = QComboBox()
        self.model.setAccessibleName("Model of the agent")
        self.model.activated.connect(lambda _: self.model_chosen.emit(str(self.model.currentData())))
        self.model.hide()
        self.serves, self.trust, self.latest, self.doing = (QLabel() for _ in range(4))
        for label in (self.serves, self.trust, self.latest, self.doing):
            label.setWordWrap(True)
            label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        for label in (self.serves, self.trust, self.latest, self.doing):
            # Reserved, so that the buttons and the table stay where they are whatever the agent says.
            label.setFixedHeight(self.fontMetrics().lineSpacing() * _LINES)
            label.setAlignment(Qt.AlignmentFlag.AlignTop)
            keep_room(label)
        for label in (self.trust, self.latest, self.doing):
            label.hide()
        self.trust.setProperty("role", "muted")
        self.steps: RecordsModel[Step] = RecordsModel(
            COLUMNS, lambda step: (step.deployment, step.state, step.time_s), _look
        )
        self.table = RecordsTable(self.steps, "Deployments of this agent")
        self.table.verticalHeader().setDefaultSectionSize(round(line * 1.5))
        self.table.setFixedHeight(round(line * (1.5 * _ROWS + 2.2)))
        self.traffic = QCheckBox("Send test requests")
        self.traffic.setToolTip(
            "The agent measures latency on the requests that it serves. Without requests there is no latency."
        )
        self.rate = QDoubleSpinBox(minimum=0.0, maximum=100_000.0, decimals=1, singleStep=10.0)
        self.rate.setValue(_DEFAULT_RATE)
        self.rate.setSuffix(" per second")
        self.rate.setSpecialValueText("Unlimited")
        self.rate.setKeyboardTracking(False)
        self.rate.setAccessibleName("Test requests per second")
        self.traffic.toggled.connect(lambda _: self.traffic_changed.emit())
        self.rate.valueChanged.connect(self._rate_changed)
        grid = QGridLayout()
        grid.setSpacing(line // 2)
        # One below the other: the texts are long, because they name bundles. Deploy and Roll back stand apart,
        # so that a click that misses one does not hit the other.
        self.deploy, self.roll_back = ActionButton("live.deploy"), ActionButton("live.rollback")
        for row, widget in enumerate((self.deploy, self.traffic, self.rate, self.roll_back)):
            grid.addWidget(widget, row, 0)
        rows = QVBoxLayout(self)
        rows.setContentsMargins(0, 0, 0, 0)
        rows.setSpacing(line // 3)
        for widget in (self._title, self.model, self.serves, self.trust):
            rows.addWidget(widget)
        rows.addLayout(grid)
        for label in (self.doing, self.latest):
            rows.addWidget(label)
        rows.addWidget(self.table)

    @property
    def send_per_s(self) -> float | None:
        return self.rate.value() if self.traffic.isChecked() else None

    def show_agent(self, agent: AgentRecord, *, watched: bool) -> None:
        self._title.setText(f"Agent at {agent.url}")
        self._show_models(agent)
        self.serves.setText(agent.serves(watched=watched))
        self.serves.setToolTip(self.serves.text())
        trust = {
            "unsigned": "Unsigned: accepts any bundle sent from that device.",
            "signed": "Signed: accepts only bundles signed with a trusted key.",
        }
        self.trust.setText(trust.get(agent.trust, agent.trust))
        self.trust.setVisible(bool(agent.trust))
        self.traffic.setEnabled(self.traffic.isChecked() or agent.serves_something)
        self.latest.setText(agent.latest())
        self.latest.setToolTip(f"{agent.latest()}\n{agent.reason()}".strip())
        self.latest.setVisible(bool(agent.steps))
        newest_first = tuple(reversed(agent.steps))
        if newest_first != self.steps.rows:
            self.steps.set_rows(newest_first)
            self.table.fit()

    def stop_traffic(self) -> None:
        """Unchecks the requests after they failed, without a signal; the next watch starts without them."""
        before = self.traffic.blockSignals(True)
        self.traffic.setChecked(False)
        self.traffic.blockSignals(before)

    def show_doing(self, sentence: str) -> None:
        """Progress of a deployment that this app started; "" hides it."""
        self.doing.setText(sentence)
        self.doing.setVisible(bool(sentence))

    def _show_models(self, agent: AgentRecord) -> None:
        """Lists the models if there are several; rebuilt only after a change, as the list may be open."""
        shown = tuple((self.model.itemData(k), self.model.itemText(k)) for k in range(self.model.count()))
        if agent.models != shown:
            self.model.clear()
            for key, title in agent.models:
                self.model.addItem(title, key)
        self.model.setCurrentIndex(self.model.findData(agent.model))
        self.model.setVisible(len(agent.models) > 1)

    def _rate_changed(self) -> None:
        if self.traffic.isChecked():
            self.traffic_changed.emit()


def _look(step: Step) -> Look:
    return "strong" if step.final else "plain"
