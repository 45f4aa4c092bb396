"""The jobs by which this app runs rollouts, or asks something of them."""

from PySide6.QtCore import QObject, Signal

from edgeopt_gui.jobs.command import Command
from edgeopt_gui.jobs.job import Job
from edgeopt_gui.jobs.runner import JobRunner


class RolloutRuns(QObject):
    changed = Signal()
    ended = Signal(str, str, object)
    """The name of the rollout, what was asked (`start`, `pause`, …) and the `Ending`."""

    def __init__(self, jobs: JobRunner, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._jobs = jobs
        self._running: dict[Job, tuple[str, str]] = {}

    def run(self, name: str, action: str, command: Command) -> None:
        job = self._jobs.run(command)
        self._running[job] = (name, action)
        job.ended.connect(self._look_for_ended)
        self._look_for_ended()  # it may not even have been started
        self.changed.emit()

    def runs(self, name: str) -> bool:
        """Whether this app advances the rollout."""
        return any(each == name and action != "pause" for each, action in self._running.values())

    def is_ending(self, name: str) -> bool:
        """Whether this app is pausing or cancelling the rollout."""
        return any(each == name and action in {"pause", "cancel"} for each, action in self._running.values())

    def _look_for_ended(self) -> None:
        for job, (name, action) in list(self._running.items()):
            if job.ending is not None:
                del self._running[job]
                self.changed.emit()
                self.ended.emit(name, action, job.ending)
