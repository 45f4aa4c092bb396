"""The banner of a foreign load, on the pages that show what it spoils."""

import pytest

from edgeopt_gui.pages import PAGES

BUSY = ("Other processes took 63 % of the cores.",)


@pytest.fixture
def window(open_window):
    return open_window()


def told(context, *looks):
    for bad in looks:
        context.quiet.take(bad)


def test_a_foreign_load_is_said_on_every_page_that_measures(window, context):
    for key in ("device", "graph", "optimize", "compare", "live"):
        window.show_page(key)
        banner = window.page(key).banner
        assert not banner.isVisible()
        told(context, BUSY, BUSY)
        assert banner.isVisible(), key
        assert banner.sentence.text() == "Not a good moment to measure: Other processes took 63 % of the cores."
        assert banner.button.text() == "Measure again when quiet"
        told(context, (), ())
        assert not banner.isVisible()


def test_the_page_model_measures_nothing(window):
    assert window.page("model").banner is None
    assert {entry.key for entry in PAGES} == {"device", "model", "graph", "optimize", "compare", "live"}


def test_what_waits_measures_once_it_is_quiet(qtbot, window, context, monkeypatch):
    asked = []
    page = window.page("device")
    window.show_page("device")
    monkeypatch.setattr(window.book, "_trigger", lambda bound: asked.append(bound.action.key))
    told(context, BUSY, BUSY)
    page.banner.button.click()
    assert page.banner.button.text() == "Do not wait"
    told(context, ())
    assert asked == []
    told(context, ())
    qtbot.waitUntil(lambda: asked == ["device.probe"])
    assert not page.banner.isVisible()
    told(context, BUSY, BUSY, (), ())
    assert asked == ["device.probe"], "it measures once"
