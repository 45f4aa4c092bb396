"""Addresses of agents that answered are offered again, and can be removed; secrets are never kept."""

import pytest
from PySide6.QtCore import Qt

from edgeopt.events import Metric
from edgeopt_gui.pages.live import page as live
from edgeopt_gui.pages.live.agent_link import known_address
from edgeopt_gui.settings import MOST_AGENTS
from edgeopt_gui.widgets.ask_text import AskText


@pytest.fixture
def ask(page):
    def asked():
        next(each for each in live.ACTIONS if each.key == "live.connect").run(page)
        return page.findChild(AskText)

    return asked


def test_an_agent_that_answers_is_remembered(page, context, monkeypatch):
    monkeypatch.setattr(page._watcher, "watch", lambda _: None)
    monkeypatch.setattr(page._link, "ask_status", lambda _: None)
    page.connect_to("pi:8080")
    assert context.settings.agents() == ()
    page._told(Metric("load_percent", 5.0))
    assert context.settings.agents() == ("https://pi:8080",)


def test_the_last_eight_are_kept_the_latest_first(settings):
    for number in range(12):
        settings.remember_agent(f"http://pi{number}:8080")
    settings.remember_agent("http://pi9:8080")
    assert len(settings.agents()) == MOST_AGENTS == 8
    assert settings.agents()[:2] == ("http://pi9:8080", "http://pi11:8080")


def test_they_are_offered_in_the_field(qtbot, page, context, ask, monkeypatch):
    monkeypatch.setattr(page._watcher, "watch", lambda _: None)
    context.settings.remember_agent("http://jetson:8080")
    context.settings.remember_agent("https://pi:8080")
    dialog = ask()
    assert [dialog.earlier.itemText(k) for k in range(dialog.earlier.count())] == [
        "https://pi:8080",
        "http://jetson:8080",
    ]
    dialog.earlier.setCurrentIndex(1)
    qtbot.keyClick(dialog.field, Qt.Key.Key_Return)
    assert page.url == "http://jetson:8080"


def test_each_can_be_removed(qtbot, context, ask):
    context.settings.remember_agent("http://jetson:8080")
    context.settings.remember_agent("https://pi:8080")
    dialog = ask()
    qtbot.keyClicks(dialog.field, "http://other:8080")
    assert not dialog.forget.isEnabled()
    dialog.earlier.setCurrentIndex(0)
    qtbot.mouseClick(dialog.forget, Qt.MouseButton.LeftButton)
    assert context.settings.agents() == ("http://jetson:8080",)
    assert dialog.earlier.findText("https://pi:8080") == -1
    assert dialog.field.text() == ""
    dialog.reject()


def test_nothing_to_forget_without_earlier_addresses(ask):
    dialog = ask()
    assert not dialog.forget.isVisible()
    dialog.reject()


@pytest.mark.parametrize("url", ["http://token@pi:8080", "http://pi:8080/?token=abc", "pi:8080/abc#secret"])
def test_an_address_with_a_secret_is_not_kept(page, context, url, monkeypatch):
    monkeypatch.setattr(page._watcher, "watch", lambda _: None)
    monkeypatch.setattr(page._link, "ask_status", lambda _: None)
    before = context.settings.text(live.AGENT_URL)
    page.connect_to(url)
    page._told(Metric("load_percent", 5.0))
    assert context.settings.text(live.AGENT_URL) == before
    assert context.settings.agents() == ()
    assert known_address(url) == ""
