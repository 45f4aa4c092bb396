"""Starts jobs, keeps them until they end, and ends them all when the app goes."""

from pathlib import Path

from PySide6.QtCore import QCoreApplication, QEvent, QObject, Signal

from edgeopt_gui.jobs.command import Command
from edgeopt_gui.jobs.job import PATIENCE_MS, Job


class JobRunner(QObject):
    started = Signal(object)
    """The `Job`, before it emits any event."""
    ended = Signal(object)
    """The `Job`, with its `ending`."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.lock: Path | None = None
        """Path of the file that a window locks while it measures; None if windows do not wait for each other."""
        self._jobs: list[Job] = []

    @property
    def jobs(self) -> tuple[Job, ...]:
        return tuple(self._jobs)

    def run(self, command: Command) -> Job:
        """Starts a job; connect to its signals before going back to the event loop, and nothing is missed."""
        job = Job(command, self, self.lock)
        self._jobs.append(job)
        job.ended.connect(self._let_go)
        self.started.emit(job)
        job.start()
        return job

    def close(self) -> None:
        """Cancels everything and waits as long as a polite end may take."""
        for job in self.jobs:
            job.cancel()
        for job in self.jobs:
            if not job.wait(PATIENCE_MS):
                job.kill()
                job.wait(PATIENCE_MS)
        # The event loop that would delete the jobs has ended, and they must not outlive this runner.
        QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)

    def _let_go(self) -> None:
        """Removes each job that has ended and emits `ended` for it."""
        for job in self.jobs:
            if job.ending is not None:
                self._jobs.remove(job)
                self.ended.emit(job)
                job.deleteLater()
