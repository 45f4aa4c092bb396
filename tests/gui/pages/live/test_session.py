"""A recorded session with an agent, and runs one after the other, without a window."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import Qt

from edgeopt.events import Log, Metric, Progress
from edgeopt_gui.agents.known import known_address
from edgeopt_gui.jobs.command import Command
from edgeopt_gui.pages.live import page as live
from edgeopt_gui.pages.live import situation
from edgeopt_gui.pages.live.absent import awaited, nothing_of
from edgeopt_gui.pages.live.agent import AgentRecord
from edgeopt_gui.pages.live.history import History
from edgeopt_gui.pages.live.readouts import NOTHING, read
from edgeopt_gui.pages.live.runs import Runs
from edgeopt_gui.pages.live.session import Session
from edgeopt_gui.pages.live.situation import Situation, shown
from edgeopt_gui.settings import MAX_AGENTS
from edgeopt_gui.subject import Subject
from edgeopt_gui.widgets.ask_text import AskText

NOW_S = 1_790_000_000.0


@pytest.fixture
def session():
    return Session()


def metric(name, value, at):
    return Metric(name, value, time_s=NOW_S + at)


def labels(session):
    return [marker.label for marker in session.history.markers]


def test_what_ran_before_is_there_to_compare(session):
    session.begin("model.onnx", "")
    assert session.take(metric("latency_p50_ms", 0.26, 0), NOW_S) == "sample"
    session.end("stopped", NOW_S + 1)
    session.begin("model.edgeopt", "")
    assert session.comparison() == ""
    session.take(metric("latency_p50_ms", 0.1, 3), NOW_S + 3)
    assert session.comparison() == "p50 of model.onnx before: 260 µs; now: 100 µs."
    assert (session.level().key, session.level().value) == ("latency_p50_ms", 0.26)
    assert labels(session) == ["started model.onnx", "stopped", "started model.edgeopt"]
    session.clear()
    assert session.level() is None


def test_speed_of_texts_is_shown_only_where_the_model_generates_text(session):
    session.begin("the agent at device", "device")
    session.take(metric("latency_p50_ms", 3.0, 0), NOW_S)
    names = [each.name for each in session.readouts()]
    assert not {"Tokens per second", "First token"} & set(names)
    session.take(metric("generated_tokens", 0.0, 0), NOW_S)
    reserved = [each.name for each in session.readouts()]
    for name, value in (("generated_tokens", 640.0), ("tokens_per_s", 41.27), ("first_token_p50_ms", 86.0)):
        session.take(metric(name, value, 1), NOW_S + 1)
    shown = {each.name: each for each in session.readouts()}
    assert list(shown) == reserved
    assert [each for each in reserved if each in names] == names
    assert (shown["Tokens per second"].value, shown["First token"].value) == ("41.3", "86.0 ms")
    assert shown["Tokens per second"].note == "640 tokens since the agent started"


def test_a_request_to_an_agent_is_not_compared_with_a_run_in_a_process(session):
    session.begin("the agent at device", "device")
    session.take(metric("latency_p50_ms", 0.298, 0), NOW_S)
    session.begin("model.onnx", "")
    session.take(metric("latency_p50_ms", 0.386, 1), NOW_S + 1)
    assert session.comparison() == ""
    assert session.level() is None
    session.begin("model.edgeopt", "")
    session.take(metric("latency_p50_ms", 0.1, 2), NOW_S + 2)
    assert session.comparison() == "p50 of model.onnx before: 386 µs; now: 100 µs."


def test_another_model_of_an_agent_begins_without_deployments(session):
    session.begin("the agent at device", "device")
    session.agent.take_status({"state": "serving", "models": [{"name": "a", "state": "serving"}]})
    session.take(Progress("committed", subject="deployment 1"), NOW_S)
    session.begin("b on the agent at device", "device", model="b")
    assert (session.agent.model, session.agent.steps) == ("b", [])
    assert session.agent.models == (("", "a"),)
    assert session.take(Log("info", "The model 'c' was added.", kind="models-changed"), NOW_S) == "models"


def test_the_same_again_is_no_comparison(session):
    session.begin("model.onnx", "")
    session.take(metric("latency_p50_ms", 0.26, 0), NOW_S)
    session.begin("model.onnx", "", again=True)
    assert session.level() is None
    assert labels(session) == ["started model.onnx"]


def test_before_there_are_samples_it_says_what_is_done(session):
    session.begin("model.onnx", "")
    assert session.take(Progress("loading", "model.onnx"), NOW_S) == "text"
    assert session.phase == "Loading model.onnx"
    assert session.state(True, False, None) == "Starting"
    session.take(metric("load_percent", 5.0, 0), NOW_S)
    assert session.state(True, False, None) == "Running"
    assert session.state(True, True, None) == "Stopping"
    assert session.state(False, False, None) == "Stopped"
    assert session.state(True, False, 0) == "Paused, 1 new samples"


def test_why_a_metric_is_missing_is_kept(session):
    session.begin("model.onnx", "")
    session.take(
        Log(
            "info",
            "It is not told.",
            kind="no-metric",
            subject="clock_hz",
            reason="the kernel has no cpufreq files",
        ),
        NOW_S,
    )
    clock = next(each for each in session.readouts() if each.name == "Clock")
    assert clock.note == "The kernel has no cpufreq files"


def test_a_session_with_an_agent(session):
    session.begin("the agent at device", "device")
    session.take(metric("load_percent", 5.0, 0), NOW_S)
    soaking = Progress("soaking", "digits", subject="deployment 1", time_s=NOW_S + 1)
    assert session.take(soaking, NOW_S + 1) == "step"
    assert session.take(Progress("committed", "digits", subject="deployment 1"), NOW_S + 2) == "settled"
    gone = Log("warning", "It is waited for.", kind="agent-away")
    assert session.take(gone, NOW_S + 3) == "away"
    assert session.state(True, False, None) == "Waiting for the agent"
    assert session.history.latest == {}
    # Requests of one's own are counted while nobody answers them.
    assert session.take(metric("sent_requests", 40.0, 4), NOW_S + 4) == "sample"
    assert session.agent.away
    session.begin("the agent at device", "device", again=True)
    assert not session.agent.away, "a watch that is started anew has reached the agent, or ends"
    session.take(gone, NOW_S + 6)
    back = Log("info", "The agent at device is back.", kind="agent-back")
    assert session.take(back, NOW_S + 9) == "back"
    assert session.take(metric("load_percent", 6.0, 9.1), NOW_S + 9.1) == "sample"
    assert session.problem == ""
    assert labels(session) == [
        "connected to the agent at device",
        "deployment 1 soaking",
        "deployment 1 committed",
        *("agent lost", "agent lost"),
        "agent is back",
    ]
    times, _ = session.history.rings["load_percent"].all()
    joined = session.history.rings["load_percent"].window(times[0], times[-1], 100).joined
    assert joined[0] == 0


def test_an_agent_that_serves_after_all_is_asked_again(session):
    session.begin("the agent at device", "device")
    assert session.take(metric("process_memory_bytes", 1e6, 0), NOW_S) == "sample"
    session.agent.take_status({"state": "empty"})
    assert session.take(metric("process_memory_bytes", 1e6, 1), NOW_S + 1) == "serves"
    assert session.take(metric("process_memory_bytes", 1e6, 1.1), NOW_S + 1.1) == "sample"
    assert session.take(metric("process_memory_bytes", 1e6, 2.2), NOW_S + 2.2) == "serves"
    session.agent.take_status({"state": "serving", "serving": {"release": "0123456789ab"}})
    assert session.take(metric("process_memory_bytes", 1e6, 9), NOW_S + 9) == "sample"


def test_the_same_agent_is_remembered_and_another_one_is_not(session):
    session.begin("the agent at a", "a")
    session.take(Progress("committed", "", subject="deployment 1"), NOW_S)
    session.begin("the agent at a", "a", again=True)
    assert len(session.agent.steps) == 1
    session.begin("the agent at b", "b")
    assert session.agent.steps == []
    session.begin("model.onnx", "")
    assert session.agent is None


def test_another_place_begins_without_the_curves_of_the_one_before(session):
    session.begin("the agent at a", "a")
    session.take(metric("load_percent", 5.0, 0), NOW_S)
    session.end("stopped", NOW_S + 1)
    session.begin("the agent at b", "b")
    session.end("ended unexpectedly", NOW_S + 3)
    assert (session.history.moments, session.history.latest, labels(session)) == (0, {}, [])
    assert {each.value for each in session.readouts()} == {NOTHING}


def test_a_refused_connection_is_no_connection(session):
    session.begin("the agent at a", "a")
    session.take(metric("load_percent", 5.0, 0), NOW_S)
    session.end("stopped", NOW_S + 1)
    session.begin("the agent at a", "a")
    session.end("ended unexpectedly", NOW_S + 3)
    assert labels(session) == ["connected to the agent at a", "stopped"]


def test_a_picture_says_what_it_is_of(session):
    session.begin("model.onnx", "")
    session.take(metric("latency_p50_ms", 0.26, 0), NOW_S)
    assert session.caption().split("  ·  ") == ["model.onnx", "p50 260 µs"]


def test_runs_over_a_limit_are_counted_exactly():
    runs = Runs()
    runs.add(1.0, [4.0, 5.0, 5.001, 6.0])
    assert runs.over(5.0, 0.0, 2.0) == (2, 4)
    assert runs.over(5.0, 2.0, 3.0) == (0, 0)


def test_the_latest_runs_stay_when_there_is_no_room_for_all():
    runs = Runs(capacity=100)
    for tick in range(33):
        runs.add(float(tick), [float(tick + 1)] * 7)
    found = runs.distribution(0.0, 100.0)
    assert found.runs == 100
    assert dict(found.percentiles)["p99"] == 33.0
    assert found.since_s == 18.0
    assert runs.distribution(20.0, 100.0).since_s is None


def test_p999_needs_a_thousand_runs():
    runs = Runs()
    runs.add(1.0, np.linspace(1, 2, 999).tolist())
    found = runs.distribution(0.0, 2.0)
    assert [label for label, _ in found.percentiles] == ["p50", "p95", "p99"]
    assert found.runs_missing == 1
    runs.add(1.5, [50.0, 60.0])
    found = runs.distribution(0.0, 2.0)
    assert found.runs_missing == 0
    assert dict(found.percentiles)["p99.9"] == pytest.approx(50.0)


def test_runs_of_what_was_watched_before_do_not_count():
    history = History()
    history.take(Metric("latency_ms", 2.0, samples=(1.0, 2.0, 3.0)), 10.0)
    assert history.runs.distribution(0.0, 20.0).runs == 3
    history.begin()
    assert history.runs.distribution(0.0, 20.0) is None


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
    page._take_event(Metric("load_percent", 5.0))
    assert context.settings.agents() == ("https://pi:8080",)


def test_the_last_eight_are_kept_the_latest_first(settings):
    for number in range(12):
        settings.remember_agent(f"http://pi{number}:8080")
    settings.remember_agent("http://pi9:8080")
    assert len(settings.agents()) == MAX_AGENTS == 8
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
    page._take_event(Metric("load_percent", 5.0))
    assert context.settings.text(live.AGENT_URL) == before
    assert context.settings.agents() == ()
    assert known_address(url) == ""


MINE, OTHER = Command("mine", ("watch", "m.onnx")), Command("other", ("watch", "o.onnx"))
NOTHING_SITUATION = Situation()
RUNNING = Situation(start=MINE, watched=MINE, sampled=True, moments=9, follows=True)
AGENT = Situation(
    start=MINE, watched=MINE, url="http://d:8080", agent=AgentRecord("http://d:8080"), connected=True
)


@pytest.mark.parametrize(
    ("what", "now", "words"),
    [
        ("start", NOTHING_SITUATION, "Open a model or a bundle first"),
        ("start", replace(NOTHING_SITUATION, start=MINE), ""),
        ("start", RUNNING, "A watch is running"),
        ("start", replace(RUNNING, start=OTHER), "A watch is running; stop it first"),
        ("start", replace(RUNNING, stopping=True), "previous watch is stopping"),
        ("stop", NOTHING_SITUATION, "Nothing is being watched"),
        ("stop", RUNNING, ""),
        ("stop", replace(RUNNING, stopping=True), "Nothing is being watched"),
        ("pause", NOTHING_SITUATION, "Nothing is being watched"),
        ("pause", RUNNING, ""),
        ("pause", replace(RUNNING, moments=0), "no samples yet"),
        ("pause", replace(RUNNING, watched=None), "Nothing is being watched"),
        ("pause", replace(RUNNING, stopping=True), "Nothing is being watched"),
        ("draw", NOTHING_SITUATION, "no samples yet"),
        ("draw", RUNNING, ""),
        ("follow", NOTHING_SITUATION, "no samples yet"),
        ("follow", RUNNING, "already follow the newest sample"),
        ("follow", replace(RUNNING, follows=False), ""),
        ("write", NOTHING_SITUATION, "no samples yet"),
        ("write", replace(RUNNING, writing=True), "Another file is being written"),
        ("write", RUNNING, ""),
        ("leave", RUNNING, "No agent is connected"),
        ("leave", AGENT, ""),
        ("deploy", AGENT, "There is no bundle yet"),
        ("deploy", replace(AGENT, has_bundle=True), ""),
        ("deploy", replace(AGENT, has_bundle=True, connected=False), "Connect to an agent first"),
        ("deploy", replace(RUNNING, has_bundle=True, connected=True), "Connect to an agent first"),
        ("deploy", replace(AGENT, has_bundle=True, changing=True), "A deployment is in progress"),
        ("roll_back", AGENT, "The agent has not said yet what it serves"),
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
        (NOTHING_SITUATION, "empty"),
        (replace(NOTHING_SITUATION, failed=True), "error"),
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


def row(history, name, missing=None):
    return next(each for each in read(history, missing or {}) if each.name == name)


@pytest.fixture
def history():
    made = History()
    for name, value in (
        ("latency_p50_ms", 0.26231),
        ("latency_p99_ms", 12.34),
        ("throughput_per_s", 3811.9),
        ("process_memory_bytes", 300 * 2**20),
        ("process_memory_bytes", 120 * 2**20),
        ("load_percent", 50.4),
        ("clock_hz", 2.4e9),
    ):
        made.take(Metric(name, float(value)), 1e9)
    return made


def test_values_have_units_and_the_digits_that_mean_something(history):
    assert (row(history, "p50").value, row(history, "p50").unit) == ("262", "µs")
    assert (row(history, "p99").value, row(history, "p99").unit) == ("12.3", "ms")
    assert (row(history, "Runs per second").value, row(history, "Runs per second").note) == ("3,812", "")
    history.take(Metric("runs", 54321.0), 1e9)
    assert row(history, "Runs per second").note == "54,321 runs so far"
    assert row(history, "Load").value == "50 %"
    assert row(history, "Clock").value == "2.40 GHz"
    memory = row(history, "Process memory")
    assert (memory.value, memory.note) == ("120 MiB", "peak 300 MiB")


def test_what_is_not_told_says_why(history):
    assert row(history, "p90").value == NOTHING
    temperature = row(history, "Temperature", {"temperature_c": "no sensor"})
    assert (temperature.value, temperature.note) == (NOTHING, "No sensor")


def test_requests_of_this_side_are_counted(history):
    assert all(each.name != "Test requests per second" for each in read(history, {}))
    history.take(Metric("sent_per_s", 20.0), 1e9)
    history.take(Metric("sent_requests", 1200.0), 1e9)
    history.take(Metric("failed_requests", 3.0), 1e9)
    requests = row(history, "Test requests per second")
    assert (requests.value, requests.note) == ("20.0", "1,200 sent, 3 failed")


def test_percentiles_say_over_how_many_runs_they_are_taken(history):
    assert row(history, "p99").note == ""
    history.take(Metric("percentile_runs", 12345.0), 1e9)
    assert row(history, "p99").note == "p50 to p99 of the last 12,345 runs"
    assert row(history, "p50").note == ""


def test_there_is_a_way_on_whatever_is_open():
    assert nothing_of("", None)[1:] == ("app.open-model", "live.connect")
    model = nothing_of("", Subject(Path("a/m.onnx"), "model"))
    assert model.sentence.startswith("Run m.onnx")
    assert model[1:] == ("live.start", "live.connect")
    assert nothing_of("http://pi:8080", None)[1:] == ("live.start", "live.disconnect")


def test_what_is_waited_for_is_said():
    assert awaited("http://pi:8080", "", "x") == "Connecting to the agent at http://pi:8080…"
    assert awaited("", "Loading m.onnx", "m.onnx") == "Loading m.onnx…"
    assert awaited("", "", "m.onnx") == "Starting m.onnx…"


def test_what_was_measured_is_said_in_a_line(session):
    session.begin("model.onnx", "", inputs="inputs from data.npz")
    assert session.measured() == "on this device, inputs from data.npz"
    session.take(metric("runs", 1234, 0), NOW_S)
    assert session.measured() == "1,234 runs, on this device, inputs from data.npz"
    session.begin("the agent at device", "device", inputs="requests of clients")
    assert session.measured() == "requests of clients"


def test_nothing_is_rolled_back_before_the_agent_says_what_it_serves():
    asked = Situation(url="http://device:8080", connected=True, agent=AgentRecord("http://device:8080"))
    assert situation.why_not_roll_back(asked) == "The agent has not said yet what it serves."


def test_the_buttons_of_an_agent_stay_where_they_are_whatever_it_says(qtbot):
    from edgeopt_gui.pages.live.agent_panel import AgentPanel

    panel = AgentPanel()
    qtbot.addWidget(panel)
    panel.resize(300, 700)
    panel.show()
    agent = AgentRecord("http://device:8080")
    panel.show_agent(agent, watched=True)

    def places():
        panel.layout().activate()
        return [widget.y() for widget in (panel.deploy, panel.roll_back, panel.table)]

    before = places()
    agent.take_status({"state": "empty", "trust": "unsigned"})
    agent.take_progress(Progress("soaking", "digits", subject="deployment 3"), 1.0)
    panel.show_agent(agent, watched=True)
    panel.show_doing("Sending the bundle, which is large, to the agent: 12 of 40 MiB")
    assert panel.trust.text()
    assert places() == before
    assert before[1] - before[0] > 2 * panel.deploy.height(), "Deploy and Roll back stand apart"
