"""The page in a window of its own: empty, with samples, and while it watches."""

import time

import pytest

from edgeopt.data.demo import MODEL
from edgeopt.events import Metric
from edgeopt_gui.pages.live.page import ENTRY
from edgeopt_gui.subject import Subject

LONG_MS = 60_000


@pytest.fixture
def sample():
    return MODEL


@pytest.fixture
def page(qtbot, open_page):
    made = open_page(ENTRY)
    qtbot.waitUntil(lambda: made.view is not None, timeout=LONG_MS)
    return made


@pytest.fixture
def watched(qtbot, context, page, sample):
    context.open(Subject(sample, "model"))
    page.view.rate.setValue(50.0)  # not both cores at once: the tests beside this one need theirs
    page.start()
    qtbot.waitUntil(lambda: page.session.history.moments > 5, timeout=LONG_MS)
    return page


@pytest.fixture
def filled(page):
    """A page with a minute of samples, and nothing that runs."""
    begin = time.time() - 60
    for moment in range(600):
        page.session.history.take(Metric("latency_ms", 1.0 + moment / 600), begin + moment / 10)
    page.view.chart.redraw()
    return page
