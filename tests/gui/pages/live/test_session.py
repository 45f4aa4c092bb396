"""A recorded session with an agent, and runs one after the other, without a window."""

import pytest

from edgeopt.events import Log, Metric, Progress
from edgeopt_gui.pages.live.readouts import NOTHING
from edgeopt_gui.pages.live.session import Session

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
    assert session.said == ""
    assert labels(session) == [
        "connected to the agent at device",
        "deployment 1 on probation",
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
