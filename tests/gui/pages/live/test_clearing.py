"""What belongs to something else is not shown any more: an agent that was left, a model that was closed."""

import time

import pytest

from edgeopt.events import Metric
from edgeopt_gui.pages.live.readouts import NOTHING
from edgeopt_gui.subject import Subject

LONG_MS = 60_000


@pytest.fixture
def of_an_agent(filled):
    """A page with the curves and figures of an agent that is connected no more."""
    page = filled
    page.url = "http://device:8080"
    page.session.clear()
    page.session.begin("the agent at http://device:8080", page.url)
    for moment in range(60):
        page.session.take(Metric("latency_p50_ms", 1.0 + moment / 600), time.time() - 60 + moment)
    page._settle()
    page.view.chart.redraw()
    assert page.state == "content"
    assert page.view.figures.text_of("p50") != NOTHING
    return page


def left_of_before(page):
    """Moments, p50, and the names of the curves that the charts draw once they are shown."""
    page.show_content()
    page.view.chart.redraw()
    page._settle()
    panels = [panel for panel in page.view.chart.panels if panel.isVisible()]
    drawn = [key for panel in panels for key, curve in panel.plot._curves.items() if curve.isVisible()]
    return page.session.history.moments, page.view.figures.text_of("p50"), drawn


def test_disconnected_nothing_of_the_agent_is_left(of_an_agent):
    page = of_an_agent
    page.leave_agent()
    assert page.state == "empty"
    assert left_of_before(page) == (0, NOTHING, [])
    assert page.session.history.markers == []


def test_after_a_refused_connection_nothing_of_the_agent_before_is_left(qtbot, of_an_agent):
    page = of_an_agent
    page.connect_to("127.0.0.1:9")
    assert left_of_before(page) == (0, NOTHING, [])
    qtbot.waitUntil(lambda: page.state == "error", timeout=LONG_MS)
    assert page.session.history.markers == []


def test_another_model_ends_the_watch_and_clears_what_it_showed(qtbot, watched, context, conv_model):
    page = watched
    page.pause()
    context.open(Subject(conv_model, "model"))
    assert page.paused_at is None
    assert left_of_before(page) == (0, NOTHING, [])
    qtbot.waitUntil(lambda: not page._watcher.running, timeout=LONG_MS)
    assert page.state == "empty"
    assert conv_model.name in page._empty.sentence.text()
    assert page.session.history.markers == []


def test_the_same_model_opened_again_is_watched_on(watched, context, sample):
    context.open(Subject(sample, "model"))
    assert watched._watcher.running
    assert not watched._watcher.stopping
    assert watched.session.history.moments


def test_an_agent_is_watched_on_while_a_model_is_opened(of_an_agent, context, sample):
    context.open(Subject(sample, "model"))
    assert of_an_agent.state == "content"
    assert of_an_agent.session.history.moments
