"""The running jobs, in the status bar: where the newest stands, how to cancel it, and the others in a menu."""

from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import QHBoxLayout, QLabel, QMenu, QProgressBar, QToolButton, QWidget

from edgeopt.units import time_left
from edgeopt_gui import job_words, theme
from edgeopt_gui.jobs.job import Job
from edgeopt_gui.jobs.runner import JobRunner
from edgeopt_gui.theme.icons import icon

# What is over in a moment is not announced.
_QUIET_MS = 300
_MAX_LETTERS = 60
_TICK_MS = 500


class JobsBar(QWidget):
    def __init__(self, jobs: JobRunner) -> None:
        super().__init__()
        self._runner = jobs
        self._job: Job | None = None
        letter = self.fontMetrics().averageCharWidth()
        self.label = QLabel()
        self.label.setMinimumWidth(letter * 20)
        self.bar = QProgressBar(textVisible=False)
        self.bar.setAccessibleName("Progress of the job")
        self.bar.setFixedSize(letter * 16, self.fontMetrics().height() * 2 // 3)
        self.left = QLabel()
        self.cancel = QToolButton(autoRaise=True)
        self.cancel.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.cancel.setText("Cancel")
        self.cancel.clicked.connect(self._cancel)
        self.others = QToolButton(autoRaise=True, popupMode=QToolButton.ToolButtonPopupMode.InstantPopup)
        self.others.setAccessibleName("Other running jobs")
        self.others.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self._menu = QMenu(self.others)
        self.others.setMenu(self._menu)
        row = QHBoxLayout(self)
        row.setContentsMargins(letter, 0, letter, 0)
        for widget in (self.label, self.bar, self.left, self.cancel, self.others):
            row.addWidget(widget)
        self.hide()
        self._reveal = QTimer(self, singleShot=True, interval=_QUIET_MS)
        self._reveal.timeout.connect(self._show_newest)
        self._tick = QTimer(self, interval=_TICK_MS)
        self._tick.timeout.connect(self._refresh)
        jobs.started.connect(self._started)
        jobs.ended.connect(lambda _: self._show_newest())
        theme.scheme_changed.connect(self._dress)
        self._dress()

    def _started(self, job: Job) -> None:
        job.event_received.connect(lambda _: self._refresh() if job is self._job else None)
        self._reveal.start()

    def _show_newest(self) -> None:
        jobs = self._runner.jobs
        self._job = jobs[-1] if jobs else None
        self.setVisible(self._job is not None)
        if self._job is None:
            self._tick.stop()
        else:
            self._tick.start()
        others = jobs[:-1]
        self.others.setVisible(bool(others))
        self.others.setText(f"+{len(others)}")
        self.others.setToolTip(f"{len(others)} more running")
        self._menu.clear()
        for job in others:
            self._menu.addAction(f"Cancel: {job.command.title}", job.cancel)
        self._refresh()

    def _refresh(self) -> None:
        job = self._job
        if job is None:
            return
        whole = job_words.status(job.command, job.progress)
        text = job_words.silence(job.command, job.progress, job.silent_s) or whole
        if job.cancelled:
            text = whole = f"Cancelling: {job.command.title}"
        maximum = min(self.fontMetrics().averageCharWidth() * _MAX_LETTERS, self.window().width() // 2)
        self.label.setText(
            self.fontMetrics().elidedText(
                text, Qt.TextElideMode.ElideRight if text != whole else Qt.TextElideMode.ElideMiddle, maximum
            )
        )
        self.label.setToolTip(f"{whole}\n{job.command.line}")
        percent = job_words.percent(job.progress, job.share_of_time)
        self.bar.setRange(0, 0 if percent is None else 100)
        self.bar.setValue(percent or 0)
        self.left.setText(time_left(job.left_s))
        self.left.setVisible(bool(self.left.text()))
        self.cancel.setEnabled(not job.cancelled)
        self.cancel.setToolTip(f"Cancel: {job.command.title}")
        self.cancel.setAccessibleName(f"Cancel: {job.command.title}")

    def _cancel(self) -> None:
        if self._job is not None:
            self._job.cancel()
            self._refresh()

    def _dress(self) -> None:
        self.cancel.setIcon(icon("cancel"))
