"""Drives the app in its own process: the sample's button, the outcome, a second search, and the end amid it."""

import sys

from PySide6.QtCore import QObject, QTimer
from PySide6.QtWidgets import QLabel

from edgeopt_gui import application
from edgeopt_gui.main import main
from edgeopt_gui.widgets.action_button import ActionButton

LOOK_MS = 50


class Driver(QObject):
    """Does each step of the journey once its condition holds."""

    def __init__(self, window):
        super().__init__(window)
        self.window, self.context = window, window.context
        self.context.quiet.enabled = False  # what others do on this machine is not the test's
        self.context.settings.keep("optimize.time-limit-s", 2)
        self.steps = iter((self.begin, self.see_outcome, self.quit_amid_search))
        self.step = next(self.steps)
        self.timer = QTimer(self)
        self.timer.timeout.connect(self.look)
        self.timer.start(LOOK_MS)

    def look(self):
        if self.step():
            self.step = next(self.steps, None)
            if self.step is None:
                self.timer.stop()

    def begin(self):
        buttons = self.window.shown_page.findChildren(ActionButton)
        found = [each for each in buttons if each.key == "app.optimize-sample" and each.isEnabled()]
        for each in found[:1]:
            each.click()
        return bool(found)

    def see_outcome(self):
        page = self.window.shown_page
        if page.objectName() != "page-optimize" or page.state == "busy":
            return False
        say("outcome", page.state, self.context.bundle)
        if page.state != "content":
            say(*(label.text() for label in page.findChildren(QLabel) if label.isVisible()))
            self.window.quit_now()
            return True
        say("verdict", page.view.verdict.note.text())
        self.window.book["optimize.start"].shown.trigger()
        return True

    def quit_amid_search(self):
        jobs = self.context.jobs.jobs
        if not any(getattr(job.progress, "phase", "") == "screening" for job in jobs):
            return False
        say("searching")
        sys.stdin.readline()  # until the test has listed the processes
        self.window.quit_now()
        return True


def say(*words):
    sys.stdout.write(f"{' '.join(map(str, words))}\n")
    sys.stdout.flush()


def driven(*arguments):
    window = WINDOW(*arguments)
    Driver(window)
    return window


WINDOW = application.Window
application.Window = driven
sys.exit(main([]))
