"""What the page can do and shows, told without a window."""

from dataclasses import replace

import pytest

from edgeopt_gui.jobs.command import Command
from edgeopt_gui.pages.live import situation
from edgeopt_gui.pages.live.agent import AgentRecord
from edgeopt_gui.pages.live.situation import Situation, shown

MINE, OTHER = Command("mine", ("watch", "m.onnx")), Command("other", ("watch", "o.onnx"))
NOTHING = Situation()
RUNNING = Situation(start=MINE, watched=MINE, sampled=True, moments=9, follows=True)
AGENT = Situation(
    start=MINE, watched=MINE, url="http://d:8080", agent=AgentRecord("http://d:8080"), connected=True
)


@pytest.mark.parametrize(
    ("what", "now", "words"),
    [
        ("start", NOTHING, "Open a model or a bundle first"),
        ("start", replace(NOTHING, start=MINE), ""),
        ("start", RUNNING, "A watch is running"),
        ("start", replace(RUNNING, start=OTHER), "A watch is running; stop it first"),
        ("start", replace(RUNNING, stopping=True), "previous watch is stopping"),
        ("stop", NOTHING, "Nothing is being watched"),
        ("stop", RUNNING, ""),
        ("stop", replace(RUNNING, stopping=True), "Nothing is being watched"),
        ("pause", NOTHING, "Nothing is being watched"),
        ("pause", RUNNING, ""),
        ("pause", replace(RUNNING, moments=0), "no samples yet"),
        ("pause", replace(RUNNING, watched=None), "Nothing is being watched"),
        ("pause", replace(RUNNING, stopping=True), "Nothing is being watched"),
        ("draw", NOTHING, "no samples yet"),
        ("draw", RUNNING, ""),
        ("follow", NOTHING, "no samples yet"),
        ("follow", RUNNING, "already follow the newest sample"),
        ("follow", replace(RUNNING, follows=False), ""),
        ("write", NOTHING, "no samples yet"),
        ("write", replace(RUNNING, writing=True), "Another file is being written"),
        ("write", RUNNING, ""),
        ("leave", RUNNING, "No agent is connected"),
        ("leave", AGENT, ""),
        ("deploy", AGENT, "There is no bundle yet"),
        ("deploy", replace(AGENT, has_bundle=True), ""),
        ("deploy", replace(AGENT, has_bundle=True, connected=False), "Connect to an agent first"),
        ("deploy", replace(RUNNING, has_bundle=True, connected=True), "Connect to an agent first"),
        ("deploy", replace(AGENT, has_bundle=True, changing=True), "A deployment is in progress"),
        ("roll_back", AGENT, ""),
        ("roll_back", replace(AGENT, connected=False), "Connect to an agent first"),
    ],
)
def test_what_cannot_be_done_says_why(what, now, words):
    said = getattr(situation, f"why_not_{what}")(now)
    assert words in said
    assert bool(said) == bool(words)


@pytest.mark.parametrize(
    ("now", "state"),
    [
        (NOTHING, "empty"),
        (replace(NOTHING, failed=True), "error"),
        (replace(RUNNING, moments=0, sampled=False), "busy"),
        (replace(RUNNING, moments=0), "content"),
        (replace(AGENT, moments=0), "content"),
        (replace(RUNNING, failed=True), "content"),
        (replace(RUNNING, watched=None), "content"),
        (replace(RUNNING, watched=None, failed=True), "error"),
    ],
)
def test_the_state_follows_from_what_is_the_case(now, state):
    assert shown(now) == state
