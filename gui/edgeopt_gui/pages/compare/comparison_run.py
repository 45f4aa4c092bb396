"""Runs the jobs of a comparison one after the other; each may fail or be cancelled without the others."""

from collections.abc import Mapping

from PySide6.QtCore import QObject, Signal

from edgeopt_gui.jobs.command import Command
from edgeopt_gui.jobs.ending import Ending
from edgeopt_gui.jobs.job import Job
from edgeopt_gui.jobs.runner import JobRunner
from edgeopt_gui.pages.compare.sides import Part, Sides

_CANCELLED = Ending("cancelled", {}, "Cancelled.")


class ComparisonRun(QObject):
    progressed = Signal()
    """Emitted when the running job makes progress, or another one runs."""
    part_ended = Signal(str)
    """The `Part`, whose ending is in `endings`."""

    def __init__(self, jobs: JobRunner, sides: Sides, commands: Mapping[Part, Command], parent: QObject) -> None:
        super().__init__(parent)
        self.sides, self.commands = sides, dict(commands)
        self.endings: dict[Part, Ending] = {}
        self.part: Part | None = None
        """The part that runs; None if none does."""
        self.job: Job | None = None
        self.cancelled = False
        self._jobs = jobs

    @property
    def running(self) -> bool:
        return len(self.endings) < len(self.commands)

    def start(self) -> None:
        part = self.part = next((each for each in self.commands if each not in self.endings), None)
        if part is None:
            self.job = None
            return
        job = self.job = self._jobs.run(self.commands[part])
        job.event_received.connect(lambda _: self.progressed.emit())
        job.ended.connect(lambda ending: self._ended(part, ending))
        self.progressed.emit()

    def cancel(self) -> None:
        """Cancels the job that is running and those after it; results of completed jobs stay."""
        self.cancelled = True
        if self.job is not None:
            self.job.cancel()
        self.progressed.emit()

    def _ended(self, part: Part, ending: Ending) -> None:
        self.endings[part] = ending
        if self.cancelled:
            for each in self.commands:
                self.endings.setdefault(each, _CANCELLED)
        self.start()
        self.part_ended.emit(part)
