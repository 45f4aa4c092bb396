"""The page Fleet: connects its views with the jobs that follow the fleet and run rollouts."""

from html import escape

from PySide6.QtWidgets import QHBoxLayout, QLabel, QSizePolicy, QVBoxLayout, QWidget

from edgeopt.fleet.fleet_watch import FleetUpdate
from edgeopt.fleet.rollout_commands import RolloutReport
from edgeopt.fleet.rollout_documents import Action
from edgeopt_gui.context import Context
from edgeopt_gui.jobs.command import Command
from edgeopt_gui.jobs.ending import Ending
from edgeopt_gui.pages.base import Page
from edgeopt_gui.pages.fleet import commands
from edgeopt_gui.pages.fleet.commands import RolloutChoices
from edgeopt_gui.pages.fleet.connection import Connection, keep_connection, known_connection
from edgeopt_gui.pages.fleet.connection_dialog import ConnectionDialog
from edgeopt_gui.pages.fleet.device_view import DeviceView
from edgeopt_gui.pages.fleet.form_words import ending_in_the_form
from edgeopt_gui.pages.fleet.getting_started import GettingStarted
from edgeopt_gui.pages.fleet.link import FleetLink
from edgeopt_gui.pages.fleet.rollout_view import RolloutView
from edgeopt_gui.pages.fleet.runs import RolloutRuns
from edgeopt_gui.pages.fleet.situation import FleetSituation, why_not_control
from edgeopt_gui.pages.fleet.start_dialog import StartDialog
from edgeopt_gui.widgets import dialogs
from edgeopt_gui.widgets.action_button import ActionButton
from edgeopt_gui.widgets.ask_text import ask_whether
from edgeopt_gui.widgets.counted_tabs import CountedTabs
from edgeopt_gui.widgets.message_bar import MessageBar

_NOT_CONNECTED = "Connect to the MQTT broker of a fleet to see its devices and to start rollouts."
_OWN = (
    "This app runs the rollout. If it is closed, no further wave begins; the broker keeps the state, and any "
    "client can take it over."
)
_FOREIGN = "Another client runs the rollout, unless it has ended. Take it over to continue it here."
_ANSWERS = {
    "cancel": ("End the rollout", "Keep it running"),
    "rollback": ("Roll back", "Keep the bundle"),
    "pause": ("Pause the rollout", "Keep it running"),
}
"""Texts of the buttons that do it, and that change nothing."""
_CONSEQUENCES = {
    "cancel": "No further wave begins, and orders that devices have not followed yet are withdrawn. Devices that "
    "have begun finish their deployment.",
    "rollback": "All devices that took the bundle return to what they served before, without a trial period.",
    "pause": "No further wave begins until the rollout is resumed. Devices that were ordered go on.",
}


class FleetPage(Page):
    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.link = FleetLink(context.jobs, self)
        self.runs = RolloutRuns(context.jobs, self)
        self.connection = known_connection(context.settings)
        self.devices, self.rollouts = DeviceView(), RolloutView()
        self.message, self.summary = MessageBar(), QLabel()
        self.tabs = CountedTabs()
        self.getting_started = GettingStarted()
        self._empty.middle.addWidget(self.getting_started)
        self._shown_rollout = ""
        self._key = ""
        """Path of the private key that signs orders."""
        self._stale = False
        """Whether the fleet changed while the page was hidden."""
        self.set_content(self._lay_out())
        self.link.updated.connect(self._updated)
        self.link.changed.connect(self._link_changed)
        self.link.ended.connect(self._link_ended)
        self.runs.changed.connect(self._show_rollout)
        self.runs.ended.connect(self._run_ended)
        self.rollouts.chosen.connect(self.choose_rollout)
        self.message.details_requested.connect(context.report)
        self.show_empty(_NOT_CONNECTED, "fleet.connect")

    @property
    def rollout(self) -> RolloutReport | None:
        """Report of the rollout that is shown; None if there is none."""
        return self.link.rollouts.get(self._shown_rollout)

    @property
    def situation(self) -> FleetSituation:
        name = self._shown_rollout
        return FleetSituation(
            self.link.state, len(self.link.devices), self.rollout, self.runs.runs(name), self.runs.is_ending(name)
        )

    def entered(self) -> None:
        self.devices.watch_ages(on=True)
        if self._stale:
            self._show_all()

    def left(self) -> None:
        self.devices.watch_ages(on=False)

    def show_refusal(self, ending: Ending) -> None:
        """Shows the refusal in a dialog, because the page continues to show the fleet."""
        self.context.report(ending)

    def watched(self) -> str:
        return "" if self.link.state == "off" else f"{self.connection.fleet} at {self.connection.broker}"

    def command(self) -> Command | None:
        return commands.follow(self.connection) if self.connection.broker else None

    # The connection

    def ask_for_connection(self) -> None:
        dialog = ConnectionDialog(self, self.connection)
        dialog.submitted.connect(self.connect_to)
        dialog.open()

    def connect_to(self, connection: Connection) -> None:
        self.connection = connection
        self.message.hide()
        self.devices.show_devices(())
        self.link.connect_to(connection)

    def disconnect_from(self) -> None:
        self.link.disconnect_from()

    def _link_changed(self) -> None:
        if self.link.state == "connected":
            keep_connection(self.context.settings, self.connection)
        self._show_state()
        self.context.changed.emit()

    def _link_ended(self, ending: Ending) -> None:
        if ending.how == "cancelled":
            return
        self.show_error(ending_in_the_form(ending), "fleet.connect")

    def _show_state(self) -> None:
        """Shows the state of the page that fits the connection, and the summary of the fleet."""
        link, broker = self.link, self.connection.broker
        self.getting_started.show_broker("" if link.state == "off" else broker)
        if link.state == "off":
            self.show_empty(_NOT_CONNECTED, "fleet.connect")
        elif not link.known:
            self.show_busy(f"Connecting to {broker}…", "fleet.disconnect")
        elif not link.devices:
            fleet = self.connection.fleet
            self.show_empty(
                f"No device has reported to {broker} in the fleet '{fleet}' yet.",
                "fleet.disconnect",
                "fleet.connect",
            )
        else:
            self.show_content()
        online = sum(each.online for each in link.devices.values())
        state = "Connected" if link.state == "connected" else "The broker is away; connecting again…"
        unknown = sum(each.unknown_since_s is not None for each in link.devices.values())
        counted = "" if link.state == "connected" else "last known: "
        counted += f"{online:,} of {len(link.devices):,} devices online"
        counted += f", {unknown:,} unknown since the broker went away" if unknown else ""
        self.summary.setText(f"<b>{escape(state)}</b>  ·  {counted}")
        self.summary.setToolTip(link.reason or self.connection.broker)

    # Updates from the fleet

    def _updated(self, update: FleetUpdate) -> None:
        if not self.isVisible():
            self._stale = True
            self._show_state()
            return
        self._show_state()
        self.devices.take(update, self.link.devices)
        self._show_rollout()

    def _show_all(self) -> None:
        self._stale = False
        self._show_state()
        self.devices.show_devices(self.link.devices.values())
        self._show_rollout()

    def _show_rollout(self) -> None:
        known = self.link.rollouts
        if self._shown_rollout not in known:
            self._shown_rollout = next(reversed(known), "")
        self.rollouts.show_rollouts(known, self._shown_rollout)
        self.rollouts.show_report(self.rollout, self._owner())
        self.tabs.set_count(self.devices, f"{len(self.link.devices):,}")
        self.tabs.set_count(self.rollouts, f"{len(known):,}" if known else "")
        self.context.changed.emit()

    def _owner(self) -> str:
        if self.rollout is None or self.rollout.phase not in {"running", "rolling-back"}:
            return ""
        return _OWN if self.runs.runs(self._shown_rollout) else _FOREIGN

    # Rollouts

    def choose_rollout(self, name: str) -> None:
        self._shown_rollout = name
        self._show_rollout()

    def ask_to_start(self) -> None:
        chosen = self.devices.selected
        dialog = StartDialog(
            self,
            self.context.jobs,
            self.connection,
            self.link.devices,
            chosen if len(chosen) > 1 else (),
            self._key,
        )
        dialog.confirmed.connect(self.start)
        dialog.open()

    def start(self, choices: RolloutChoices) -> None:
        self._key = choices.key or self._key
        self._shown_rollout = choices.name
        self.message.hide()
        self.tabs.setCurrentWidget(self.rollouts)
        self.runs.run(choices.name, "start", commands.start(self.connection, choices))

    def ask_to_control(self, action: Action) -> None:
        """Asks the user to confirm pausing, cancelling or rolling back."""
        report = self.rollout
        if report is None:
            return
        does, keeps = _ANSWERS[action]
        question = f"{does} {report.name} of {_bundle_of(report)}?"
        ask_whether(self, question, _CONSEQUENCES[action], does, keeps, lambda: self.control(action, report.name))

    def resume(self) -> None:
        self.control("resume", self._shown_rollout)

    def control(self, action: Action, name: str) -> None:
        report = self.link.rollouts.get(name)
        if report is None:
            return
        if report.signed and action != "pause" and not self._key:
            path = dialogs.choose_file(self, "Private key that signed the rollout", "All files (*)", "signing-key")
            if path is None:
                return
            self._key = str(path)
        self.message.hide()
        key = self._key if report.signed else ""
        self.runs.run(name, action, commands.control(self.connection, action, name, key))

    def _run_ended(self, name: str, action: str, ending: Ending) -> None:
        if ending.code == "rollout-stopped" or ending.good:
            phase = str(ending.data.get("phase", "stopped")).replace("-", " ")
            self.context.say(f"The rollout {name} is {phase}.")
        elif ending.how == "cancelled" and action in {"start", "resume"}:
            self.message.show_or_hide(
                f"This app no longer runs the rollout {name}: no further wave begins. The broker keeps its state."
            )
        elif ending.how != "cancelled":
            if "--key" in ending.next_step:  # the wrong one: it is asked for again
                self._key = ""
            self.message.show_ending(ending_in_the_form(ending))

    def command_of(self, action: Action) -> Command | None:
        return None if self.rollout is None else commands.control(self.connection, action, self._shown_rollout)

    def why_not(self, action: Action) -> str:
        return why_not_control(self.situation, action)

    def _lay_out(self) -> QWidget:
        content, line = QWidget(), self.fontMetrics().height()
        self.summary.setAccessibleName("State of the connection")
        self.summary.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        strip = QHBoxLayout()
        strip.setSpacing(line // 2)
        strip.addWidget(self.summary, 1)
        strip.addWidget(ActionButton("fleet.disconnect", text="Disconnect"))
        strip.addWidget(ActionButton("fleet.start"))
        self.tabs.add(self.devices, "Devices")
        self.tabs.add(self.rollouts, "Rollouts")
        rows = QVBoxLayout(content)
        rows.setContentsMargins(line, line // 2, line, line // 2)
        rows.setSpacing(line // 2)
        rows.addLayout(strip)
        rows.addWidget(self.message)
        rows.addWidget(self.tabs, 1)
        return content


def _bundle_of(report: RolloutReport) -> str:
    """Returns the name of the model and release, or else of the file or address of the bundle."""
    if report.model_name:
        return f"{report.model_name} (release {report.release})" if report.release else report.model_name
    return report.bundle.rstrip("/").rpartition("/")[2] or report.digest
