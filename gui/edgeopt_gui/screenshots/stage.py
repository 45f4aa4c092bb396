"""The window that is photographed, and how to wait for what it shows."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
from PySide6.QtCore import QEventLoop, QTimer
from PySide6.QtGui import QPixmap
from PySide6.QtWidgets import QApplication

from edgeopt_gui.context import Context
from edgeopt_gui.pages import PAGES
from edgeopt_gui.pages.base import Page
from edgeopt_gui.settings import Settings
from edgeopt_gui.theme.apply import SETTING
from edgeopt_gui.window import Window

WIDTH, HEIGHT = 1200, 800
LONGEST_S = 120.0


class Stage:
    """One window with all pages; `folder` is for what the states write on the disk."""

    def __init__(self, settings: Settings, folder: Path) -> None:
        self.settings = settings
        self.folder = folder
        self.context = Context(settings)
        self.window = Window(self.context, PAGES)
        self.window.resize(WIDTH, HEIGHT)
        self.window.show()
        self.window.make_all()

    def page(self, key: str) -> Page:
        """Shows it."""
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

    def wait_for_jobs(self) -> None:
        self.wait_until(lambda: not self.context.jobs.jobs)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Stops the clocks of all jobs: what is busy stays so while its pictures are taken."""
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

    def photograph(self, theme: str) -> QPixmap:
        """The window as it is, in light or dark."""
        self.settings.keep(SETTING, theme)
        self.window.statusBar().clearMessage()
        QApplication.processEvents()
        self.wait(0.15)
        return self.window.grab()

    def close(self) -> None:
        self.context.jobs.close()
        self.window.close()
        self.window.deleteLater()
        self.wait(0.05)


def _family(pid: int) -> list[psutil.Process]:
    try:
        job = psutil.Process(pid)
        return [job, *job.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []
