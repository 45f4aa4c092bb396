"""Runs the commands of one deployment: the plan, the deployment itself, its end by the user."""

from pathlib import Path

import msgspec
from PySide6.QtCore import QObject, Signal

from edgeopt.decoding import thread_safe
from edgeopt.events import Event, Progress
from edgeopt.fleet.records import DeployPlan
from edgeopt.units import time_left
from edgeopt_gui.agents import commands
from edgeopt_gui.agents.states import words
from edgeopt_gui.jobs.command import Command
from edgeopt_gui.jobs.ending import Ending
from edgeopt_gui.jobs.job import Job
from edgeopt_gui.jobs.runner import JobRunner


class Deployer(QObject):
    planned = Signal(object)
    """The `DeployPlan` of the agent."""
    progressed = Signal(str, float)
    """Progress of the deployment: a sentence, and a share from 0 to 1, or below 0 if it is unknown."""
    served = Signal(object)
    """The plan whose release is now served."""
    failed = Signal(object)
    """The `Ending` of the command that failed."""
    cancelled = Signal()

    def __init__(self, jobs: JobRunner, bundle: Path, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.bundle = bundle
        self.plan: DeployPlan | None = None
        self.ways: tuple[str, ...] = ()
        """Options of `edgeopt deploy` for the exceptions that the user allows."""
        self._jobs = jobs
        self._url = ""
        self._asking: Job | None = None
        self._job: Job | None = None
        self._accepted = False
        self._cancelling = False

    @property
    def deploying(self) -> bool:
        return self._job is not None

    @property
    def cancelling(self) -> bool:
        return self._cancelling

    def ask(self, url: str, ways: tuple[str, ...] = ()) -> None:
        """Requests the plan for an address, and cancels an earlier request."""
        self.forget()
        self._url, self.ways = url, ways
        self._asking = self._jobs.run(commands.plan(self.bundle, url, ways))
        self._asking.ended.connect(self._answered)

    def forget(self) -> None:
        """Discards the plan, and cancels the request for one."""
        asking, self._asking, self.plan = self._asking, None, None
        if asking is not None:
            asking.ended.disconnect(self._answered)
            asking.cancel()

    def command(self) -> Command:
        return commands.deploy(self.bundle, self._url, self.ways)

    def deploy(self) -> None:
        self._accepted = self._cancelling = False
        self._job = self._jobs.run(self.command())
        self._job.event_received.connect(self._report_progress)
        self._job.ended.connect(self._ended)

    def cancel(self) -> None:
        """Cancels the deployment: ends the transfer, or asks the agent to cancel if it has accepted the bundle."""
        if self._job is None or self._cancelling:
            return
        self._cancelling = True
        if self._accepted:
            self._jobs.run(commands.cancel(self._url)).ended.connect(self._cancel_answered)
        else:
            self._job.cancel()

    def _answered(self, ending: Ending) -> None:
        self._asking = None
        if not ending.good:
            self.failed.emit(ending)
            return
        try:
            self.plan = msgspec.convert(ending.data, thread_safe(DeployPlan))
        except msgspec.ValidationError as error:
            what = "The answer of the command line cannot be read."
            self.failed.emit(Ending("failed", {}, what, "Install one version of edgeopt.", str(error)))
            return
        self.planned.emit(self.plan)

    def _report_progress(self, event: Event) -> None:
        if not isinstance(event, Progress):
            return
        self._accepted = self._accepted or bool(event.subject)
        share = (event.done or 0) / event.total if event.total else -1.0
        left = f", {time_left(event.time_left_s)}" if time_left(event.time_left_s) else ""
        # The first messages of the agent are the name of the bundle, which the dialog shows already.
        detail = f": {event.message}" if event.phase in {"soaking", "sending"} and event.message else ""
        phase = words(event.phase)
        self.progressed.emit(f"{phase[:1].upper()}{phase[1:]}{detail}{left}", share)

    def _cancel_answered(self, ending: Ending) -> None:
        if not ending.good and self._job is not None:
            self._cancelling = False
            self.progressed.emit(f"Not cancelled: {ending.what}", -1.0)

    def _ended(self, ending: Ending) -> None:
        self._job = None
        cancelled, self._cancelling = self._cancelling, False
        if ending.good:
            self.served.emit(self.plan)
        elif cancelled or ending.how == "cancelled":
            self.cancelled.emit()
        else:
            self.failed.emit(ending)
