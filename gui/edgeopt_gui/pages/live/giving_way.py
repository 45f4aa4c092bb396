"""The app's own watch gives way to whatever measures or is to run alone, and says so."""

from collections.abc import Callable

from PySide6.QtCore import QObject, Signal

from edgeopt_gui.jobs.command import Command
from edgeopt_gui.jobs.job import Job
from edgeopt_gui.jobs.runner import JobRunner

_MEASURES = ("while the app measures", "for a measurement, which has ended")
_ANALYZES = ("while the app analyzes", "for an analysis, which has ended")


class GivingWay(QObject):
    changed = Signal()

    def __init__(self, jobs: JobRunner, stop: Callable[[Command], bool], parent: QObject) -> None:
        """`stop` ends a watch that this command would disturb, and says whether there was one."""
        super().__init__(parent)
        self._stop = stop
        self._jobs: list[Job] = []
        self.paused_for = ""
        """Title of the job that stopped the watch; "" once it is started again."""
        self._words = ("", "")
        """Words of the sentence while the other job runs, and after it has ended."""
        jobs.started.connect(self._started)
        jobs.ended.connect(self._ended)

    @property
    def measuring(self) -> str:
        """Title of the job that measures now; "" if none does."""
        return next((job.command.title for job in reversed(self._jobs) if job.command.measures), "")

    @property
    def sentence(self) -> str:
        """A sentence that says why the watch is paused; "" if it is not."""
        if not self.paused_for:
            return ""
        return f"Paused {self._words[0 if self._jobs else 1]}: {self.paused_for}."

    def resume(self) -> None:
        self.paused_for = ""

    def _started(self, job: Job) -> None:
        if not job.command.measures and not job.command.alone:
            return
        self._jobs.append(job)
        if self._stop(job.command):
            self.paused_for = job.command.title
            self._words = _MEASURES if job.command.measures else _ANALYZES
        self.changed.emit()

    def _ended(self, job: Job) -> None:
        if job in self._jobs:
            self._jobs.remove(job)
            self.changed.emit()
