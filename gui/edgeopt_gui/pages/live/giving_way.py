"""The app's own watch gives way to whatever measures, and says so."""

from collections.abc import Callable

from PySide6.QtCore import QObject, Signal

from edgeopt_gui.jobs.job import Job
from edgeopt_gui.jobs.runner import JobRunner


class GivingWay(QObject):
    changed = Signal()

    def __init__(self, jobs: JobRunner, stop: Callable[[], bool], parent: QObject) -> None:
        """`stop` ends the watch, and says whether there was one that loads this device."""
        super().__init__(parent)
        self._stop = stop
        self._jobs: list[Job] = []
        self.paused_for = ""
        """The title of what the watch was stopped for, until it is started again."""
        jobs.started.connect(self._started)
        jobs.ended.connect(self._ended)

    @property
    def measuring(self) -> str:
        """The title of what measures now; "" where nothing does."""
        return self._jobs[-1].command.title if self._jobs else ""

    @property
    def sentence(self) -> str:
        """What the page says; "" where the watch did not give way."""
        if not self.paused_for:
            return ""
        if self.measuring:
            return f"Paused while the app measures: {self.paused_for}."
        return f"Paused for a measurement, which has ended: {self.paused_for}."

    def resume(self) -> None:
        self.paused_for = ""

    def _started(self, job: Job) -> None:
        if not job.command.measures:
            return
        self._jobs.append(job)
        if self._stop():
            self.paused_for = job.command.title
        self.changed.emit()

    def _ended(self, job: Job) -> None:
        if job in self._jobs:
            self._jobs.remove(job)
            self.changed.emit()
