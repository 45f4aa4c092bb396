"""The one job that watches: started, stopped, and restarted when its settings change."""

from PySide6.QtCore import QObject, Signal

from edgeopt_gui.jobs.command import Command
from edgeopt_gui.jobs.ending import Ending
from edgeopt_gui.jobs.job import Job
from edgeopt_gui.jobs.runner import JobRunner


class Watcher(QObject):
    event_received = Signal(object)
    """Each event of the running job."""
    ended = Signal(object)
    """The `Ending`, unless another watch follows at once."""

    def __init__(self, jobs: JobRunner, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._jobs = jobs
        self._job: Job | None = None
        self._next: Command | None = None

    @property
    def running(self) -> bool:
        return self._job is not None

    @property
    def stopping(self) -> bool:
        return self._job is not None and self._job.cancelled and self._next is None

    @property
    def job(self) -> Job | None:
        return self._job

    def watch(self, command: Command) -> None:
        """Starts a watch once the running one has ended, because two would disturb each other."""
        if self._job is not None:
            self._next = command
            self._job.cancel()
            return
        job = self._jobs.run(command)
        self._job = job
        job.event_received.connect(self._forward)
        job.ended.connect(self._end)
        if job.ending is not None:  # it could not even be started
            self._end(job.ending)

    def stop(self) -> None:
        self._next = None
        if self._job is not None:
            self._job.cancel()

    def _forward(self, event: object) -> None:
        if self._job is not None and not self._job.cancelled:
            self.event_received.emit(event)

    def _end(self, ending: Ending) -> None:
        if self._job is None:
            return
        self._job = None
        command, self._next = self._next, None
        if command is not None:
            self.watch(command)
        else:
            self.ended.emit(ending)
