"""The job that follows the fleet: what it told so far, and whether the broker is there."""

from typing import Literal

import msgspec
from PySide6.QtCore import QObject, Signal

from edgeopt.decoding import thread_safe
from edgeopt.events import Event, Log, Update
from edgeopt.fleet.devices import FleetDevice
from edgeopt.fleet.fleet_watch import FleetUpdate
from edgeopt.fleet.rollout_commands import RolloutReport
from edgeopt_gui.jobs.ending import Ending
from edgeopt_gui.jobs.job import Job
from edgeopt_gui.jobs.runner import JobRunner
from edgeopt_gui.pages.fleet import commands
from edgeopt_gui.pages.fleet.connection import Connection

LinkState = Literal["off", "connecting", "connected", "away"]


class FleetLink(QObject):
    updated = Signal(object)
    """The `FleetUpdate`; `devices` and `rollouts` have it already."""
    changed = Signal()
    """Emitted when the state of the connection has changed."""
    ended = Signal(object)
    """The `Ending` of a connection that the user did not end."""

    def __init__(self, jobs: JobRunner, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.connection: Connection | None = None
        self.state: LinkState = "off"
        self.reason = ""
        """The reason why the broker is unreachable; "" while it is connected."""
        self.devices: dict[str, FleetDevice] = {}
        self.rollouts: dict[str, RolloutReport] = {}
        """Rollouts by name, the newest last."""
        self.known = False
        """Whether the state that the broker retains has arrived."""
        self._jobs = jobs
        self._job: Job | None = None

    def connect_to(self, connection: Connection) -> None:
        self.disconnect_from()
        self.connection = connection
        self._set("connecting")
        job = self._job = self._jobs.run(commands.follow(connection))
        job.event_received.connect(self.take_event)
        job.ended.connect(self._ended)
        if job.ending is not None:  # it could not even be started
            self._ended(job.ending)

    def disconnect_from(self) -> None:
        """Cancels the watch and clears the state of the fleet."""
        job, self._job = self._job, None
        if job is not None:
            job.event_received.disconnect(self.take_event)
            job.ended.disconnect(self._ended)
            job.cancel()
        self._forget()
        self._set("off")

    def take_event(self, event: Event) -> None:
        """Applies an event of the job to the state of the fleet."""
        if isinstance(event, Log) and event.kind in {"broker-connected", "broker-back"}:
            self._set("connected")
        elif isinstance(event, Log) and event.kind == "broker-away":
            self._set("away", event.reason)
        elif isinstance(event, Update) and event.kind == "fleet":
            self._take(msgspec.convert(event.data, thread_safe(FleetUpdate)))

    def _forget(self) -> None:
        self.known = False
        self.devices.clear()
        self.rollouts.clear()

    def _take(self, update: FleetUpdate) -> None:
        for name in update.removed_devices:
            self.devices.pop(name, None)
        for gone in update.removed_rollouts:
            self.rollouts.pop(gone, None)
        self.devices |= {each.device: each for each in update.devices}
        self.rollouts |= {each.name: each for each in update.rollouts}
        self.known = True
        self.updated.emit(update)

    def _ended(self, ending: Ending) -> None:
        self._job = None
        self._forget()
        self._set("off")
        self.ended.emit(ending)

    def _set(self, state: LinkState, reason: str = "") -> None:
        self.state, self.reason = state, reason
        self.changed.emit()
