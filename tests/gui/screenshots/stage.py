"""The window that is photographed, and how to wait for what it shows.

A job may have ended before anybody looks. Where the picture is of one that has not, it is held at its very start.
"""

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
from PySide6.QtCore import QEventLoop, QProcess, QSize, QTimer
from PySide6.QtGui import QPixmap
from PySide6.QtWidgets import QApplication

from edgeopt.data.demo import DATA, MODEL
from edgeopt_gui.context import Context
from edgeopt_gui.jobs.job import Job
from edgeopt_gui.pages import PAGES
from edgeopt_gui.pages.base import Page
from edgeopt_gui.settings import Settings
from edgeopt_gui.theme.apply import SETTING
from edgeopt_gui.window import Window

LONGEST_S = 120.0
_STILL = {psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE, ""}
# A shell that stops itself before it executes the job.
_STOPPED = 'kill -STOP $$; exec "$0" "$@"'


class Stage:
    """One window with all pages; `folder` is for the sample and for what the states write on the disk.

    What the window begins by itself is held until `go_on` or `wait_for_jobs`.
    """

    def __init__(self, settings: Settings, folder: Path) -> None:
        self.settings = settings
        self.folder = folder
        self.model, self.data = (Path(shutil.copy(file, folder)) for file in (MODEL, DATA))
        self.context = Context(settings)
        self.context.quiet.enabled = False
        self.shown = ""
        """Key of the page that was requested last."""
        self._holding = True
        self._held: list[Job] = []
        self.context.jobs.started.connect(self._begin)
        self.window = Window(self.context, PAGES)
        self.window.show()
        self.window.make_all()

    def page(self, key: str) -> Page:
        """Shows it."""
        self.shown = key
        self.window.show_page(key)
        return self.window.page(key)

    def do(self, action: str) -> None:
        self.window.book[action].shown.trigger()

    def wait(self, seconds: float) -> None:
        loop = QEventLoop()
        QTimer.singleShot(round(seconds * 1000), loop.quit)
        loop.exec()

    def wait_until(self, condition: Callable[[], bool], longest_s: float = LONGEST_S) -> None:
        deadline = time.monotonic() + longest_s
        while not condition():
            if time.monotonic() > deadline:
                raise TimeoutError("the page did not come to the state that was to be shown")
            self.wait(0.02)

    def hold(self) -> None:
        """Holds the jobs that start from now on, until `go_on`."""
        self._holding = True

    def go_on(self) -> None:
        """Continues the jobs that are held."""
        self._holding = False
        # A job that is continued before it has stopped itself would wait for ever.
        self.wait_until(lambda: all(j.ending is not None or _status(j.pid) in _STILL for j in self._held))
        for job in self._held:
            with suppress(psutil.Error):
                psutil.Process(job.pid).resume()
        self._held.clear()

    def wait_for_jobs(self) -> None:
        self.go_on()
        self.wait_until(lambda: not self.context.jobs.jobs)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stops the clocks of all jobs, in the middle of what they do, while pictures of it are taken."""
        family = [p for job in self.context.jobs.jobs for p in _family(job.pid)]
        for process in family:
            with suppress(psutil.Error):
                process.suspend()
        try:
            yield
        finally:
            for process in family:
                with suppress(psutil.Error):
                    process.resume()

    def resize(self, size: QSize) -> None:
        """Resizes the window; it may become smaller than its minimum, as on a small screen."""
        self.window.setMinimumSize(self.window.minimumSize().boundedTo(size))
        self.window.resize(size)

    def photograph(self, theme: str) -> QPixmap:
        """Returns a picture of the window, in the light or dark theme."""
        self.settings.keep(SETTING, theme)
        self.window.statusBar().clearMessage()
        QApplication.processEvents()
        self.wait(0.15)
        return self.window.grab()

    def check(self, caption: str) -> None:
        """Raises where the page is not in the state that its picture is to show."""
        state = self.window.page(self.shown).state
        if state != (caption if caption in {"empty", "busy", "error"} else "content"):
            raise RuntimeError(f"the page '{self.shown}' showed '{state}' when it was to show '{caption}'")

    def close(self) -> None:
        self.go_on()
        self.context.jobs.close()
        self.window.close()
        self.window.deleteLater()
        self.wait(0.05)

    def _begin(self, job: Job) -> None:
        process = job.findChild(QProcess)
        if self._holding and isinstance(process, QProcess):
            process.setArguments(["-c", _STOPPED, process.program(), *process.arguments()])
            process.setProgram("/bin/sh")
            self._held.append(job)


def _status(pid: int) -> str:
    """Returns the status of a process; "" if it has ended."""
    try:
        return str(psutil.Process(pid).status())
    except psutil.NoSuchProcess:
        return ""


def _family(pid: int) -> list[psutil.Process]:
    try:
        job = psutil.Process(pid)
        return [job, *job.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []
