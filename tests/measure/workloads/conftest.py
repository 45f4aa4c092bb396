"""Sides of null models on a host whose trials are known, and what was told meanwhile."""

import os

import pytest

from edgeopt.events import Metric, Progress
from edgeopt.measure.contender import Side
from edgeopt.workers.host import LocalHost


class Bench:
    """Remembers the trials that were started and what was said; `at` does something once a metric is told."""

    def __init__(self, folder, load_null):
        self.host = LocalHost(folder)
        self.trials, self.said = [], []
        self.at = None
        self._load_null = load_null
        start = self.host.start

        def remember(*module):
            self.trials.append(start(*module))
            return self.trials[-1]

        self.host.start = remember

    def side(self, name, **behaviour):
        return Side(name, self._load_null(name, **behaviour))

    def emit(self, event):
        self.said.append(event)
        if self.at is not None and self.at[0](event):
            act, self.at = self.at[1], None
            act()

    def when(self, name, subject, act):
        """Once, when such a metric of that subject is told."""
        self.at = (lambda e: isinstance(e, Metric) and (e.name, e.subject) == (name, subject), act)

    def when_done(self, number, act):
        """Once, when so much of a phase is done."""
        self.at = (lambda e: isinstance(e, Progress) and e.done == number, act)

    def kill(self, position, number):
        os.kill(self.trials[position].pid, number)

    def metrics(self, name, subject=None):
        return [e for e in self.said if isinstance(e, Metric) and e.name == name and subject in {None, e.subject}]

    def warnings(self):
        return [e.message for e in self.said if getattr(e, "level", "") == "warning"]


@pytest.fixture
def bench(tmp_path, load_null):
    made = Bench(tmp_path, load_null)
    yield made
    for trial in made.trials:
        trial.close()
