"""Requests to a watched agent: its status, a deployment, a rollback."""

from typing import Any

from PySide6.QtCore import QObject, Signal

from edgeopt.events import Event, Progress
from edgeopt_gui.agents import commands
from edgeopt_gui.agents.states import words
from edgeopt_gui.jobs.command import Command
from edgeopt_gui.jobs.ending import Ending
from edgeopt_gui.jobs.runner import JobRunner


class AgentLink(QObject):
    doing = Signal(str)
    """Progress of the requested change, as a sentence; "" once it has ended."""
    failed = Signal(object, str)
    """The `Ending`, and the key of the action that tries again."""
    answered = Signal(str, object)
    """The address, and the result of `edgeopt fleet status`."""

    def __init__(self, jobs: JobRunner, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.changing = False
        """Whether a deployment or rollback requested here is in progress."""
        self._jobs = jobs
        self._asking: str | None = None

    def ask_status(self, url: str) -> None:
        """Requests the status of an agent, unless a request is running."""
        if self._asking is not None:
            return
        self._asking = url
        self._jobs.run(commands.status(url)).ended.connect(self._status_known)

    def change(self, command: Command | None, retry: str, url: str) -> None:
        if command is None:
            return

        def ended(ending: Ending) -> None:
            self.changing = False
            self.doing.emit("")
            if not ending.good and ending.how != "cancelled":
                self.failed.emit(ending, retry)
            self.ask_status(url)

        self.changing = True
        job = self._jobs.run(command)
        job.event_received.connect(lambda event: self._show_progress(command, event))
        job.ended.connect(ended)
        self.doing.emit(f"{command.title}.")

    def _show_progress(self, command: Command, event: Event) -> None:
        if isinstance(event, Progress):
            share = f" {100 * (event.done or 0) // event.total} %" if event.total else ""
            self.doing.emit(f"{command.title}: {words(event.phase)}{share}")

    def _status_known(self, ending: Ending) -> None:
        url, self._asking = self._asking, None
        data: dict[str, Any] | None = ending.data if ending.good else None
        if url is not None and data is not None:
            self.answered.emit(url, data)
