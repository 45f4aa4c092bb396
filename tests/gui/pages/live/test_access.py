"""An agent that asks for a token: the page offers the field, and keeps the token where nobody else reads it."""

import subprocess
import sys

import pytest
from PySide6.QtCore import Qt

from edgeopt.fleet import pairing
from edgeopt_agent import tokens
from edgeopt_gui.agents.access_dialog import AccessDialog
from edgeopt_gui.jobs.ending import Ending
from edgeopt_gui.pages.live import page as live
from edgeopt_gui.widgets.action_button import ActionButton

LONG_MS = 60_000
FINGERPRINT = "SHA256:" + "ab" * 32


@pytest.fixture(autouse=True)
def config(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("EDGEOPT_TOKEN", raising=False)


def ask(page):
    next(each for each in live.ACTIONS if each.key == "live.access").run(page)
    return page.findChild(AccessDialog)


def refused(page, code):
    page._ended(Ending("failed", {}, "It asks for a token.", code=code))
    return {button.key for button in page.findChildren(ActionButton) if button.isVisibleTo(page)}


@pytest.fixture
def connected(page, monkeypatch):
    monkeypatch.setattr(page._watcher, "watch", lambda _: None)
    page.connect_to("pi:8080")
    return page


def test_what_is_typed_goes_to_the_pairings_and_nowhere_else(qtbot, connected, context, tmp_path):
    assert "live.access" in refused(connected, "no-token")
    dialog = ask(connected)
    qtbot.keyClicks(dialog.token, "0123secret")
    assert dialog.token.displayText() != "0123secret"
    qtbot.keyClicks(dialog.fingerprint, FINGERPRINT)
    qtbot.keyClick(dialog.fingerprint, Qt.Key.Key_Return)
    assert pairing.known_pairings() == {"https://pi:8080": pairing.Pairing("0123secret", FINGERPRINT)}
    assert connected.url == "https://pi:8080"
    assert "0123secret" not in " ".join(connected.command_of_start().arguments)
    kept = [file for file in tmp_path.rglob("*") if file.is_file() and b"0123secret" in file.read_bytes()]
    assert kept == [pairing.pairings_file()]


def test_other_failures_do_not_ask_for_a_token(connected):
    assert "live.access" not in refused(connected, "unreachable")


def test_what_is_no_fingerprint_is_told_in_the_dialog(qtbot, connected):
    dialog = ask(connected)
    qtbot.keyClicks(dialog.fingerprint, "SHA256:short")
    qtbot.keyClick(dialog.fingerprint, Qt.Key.Key_Return)
    assert dialog.isVisible()
    assert "not the fingerprint" in dialog.problem.text()
    assert pairing.known_pairings() == {}


def test_a_field_left_empty_keeps_what_is_known(qtbot, connected):
    pairing.store_pairing("https://pi:8080", pairing.Pairing("old", FINGERPRINT))
    dialog = ask(connected)
    qtbot.keyClicks(dialog.token, "new")
    dialog.accept()
    assert pairing.known_pairings() == {"https://pi:8080": pairing.Pairing("new", FINGERPRINT)}


def test_an_agent_that_asks_for_a_token_is_watched_once_it_is_typed(qtbot, page, tmp_path):
    token = tokens.add(tmp_path / "agent", "app", "deploy").token
    command = [sys.executable, "-m", "edgeopt_agent.main", "run", "--port", "0", "--data-dir", tmp_path / "agent"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as agent:
        try:
            page.connect_to(agent.stdout.readline().split()[3].rstrip(","))
            qtbot.waitUntil(lambda: page.state == "error", timeout=LONG_MS)
            assert page._failure.code == "no-token"
            dialog = ask(page)
            qtbot.keyClicks(dialog.token, token)
            dialog.accept()
            qtbot.waitUntil(lambda: page.situation.connected, timeout=LONG_MS)
        finally:
            page.stop()
            agent.kill()
