"""Quitting: asks about running jobs, cancels them and waits for them, without freezing the window."""

from PySide6.QtCore import QObject, QTimer, Signal
from PySide6.QtWidgets import QMessageBox, QWidget

from edgeopt_gui.job_words import loss
from edgeopt_gui.jobs.job import PATIENCE_MS
from edgeopt_gui.jobs.runner import JobRunner
from edgeopt_gui.settings import Settings
from edgeopt_gui.widgets.settings_dialog import CONFIRM_QUIT


class Quitting(QObject):
    ready = Signal()
    """Emitted when no job runs any more and the window may close."""

    def __init__(self, window: QWidget, jobs: JobRunner, settings: Settings) -> None:
        super().__init__(window)
        self._window, self._jobs, self._settings = window, jobs, settings
        self._leaving = False
        self._question: QMessageBox | None = None
        jobs.ended.connect(self._look_again)

    def may_close(self) -> bool:
        """Whether the window can go now; where not, it has been seen to that it will, or the user is asked."""
        if not self._jobs.jobs:
            return True
        if self._leaving:
            return False
        losses = {job.command.title: loss(job.command) for job in self._jobs.jobs}
        losses = {title: lost for title, lost in losses.items() if lost}
        if losses and self._settings.flag(CONFIRM_QUIT, True):
            self._ask(losses)
        else:
            self.leave()
        return False

    def leave(self) -> None:
        """Cancels everything; `ready` comes when all have ended, after three seconds at the latest."""
        self._leaving = True
        self._window.setEnabled(False)
        for job in self._jobs.jobs:
            job.cancel()
        QTimer.singleShot(PATIENCE_MS, self, self._insist)

    def _insist(self) -> None:
        for job in self._jobs.jobs:
            job.kill()

    def _look_again(self) -> None:
        if self._leaving and not self._jobs.jobs:
            self.ready.emit()

    def _ask(self, losses: dict[str, str]) -> None:
        """Asks the user whether to quit; `losses` maps the title of each running job to what is lost."""
        if self._question is not None:
            self._question.raise_()
            return
        box = QMessageBox(QMessageBox.Icon.Question, "Quit edgeopt?", "", parent=self._window)
        box.setObjectName("quit")
        box.setText(f"Still running: {', '.join(losses)}.")
        box.setInformativeText(" ".join(["Quitting cancels it.", *dict.fromkeys(losses.values())]))
        stop = box.addButton("Cancel it and quit", QMessageBox.ButtonRole.DestructiveRole)
        stay = box.addButton("Stay", QMessageBox.ButtonRole.RejectRole)
        box.setDefaultButton(stay)
        box.setEscapeButton(stay)
        box.finished.connect(lambda _: self._answered(box.clickedButton() is stop))
        self._question = box
        box.open()

    def _answered(self, leave: bool) -> None:
        if self._question is not None:
            self._question.deleteLater()
        self._question = None
        if leave:
            if self._jobs.jobs:
                self.leave()
            else:
                self.ready.emit()
