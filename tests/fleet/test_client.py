import socket
import tempfile
import threading
import time

import pytest

from edgeopt import errors
from edgeopt.bundle.archive import pack_into
from edgeopt.bundle.manifest import write_manifest
from edgeopt.events import Progress, ignore
from edgeopt.fleet import client
from edgeopt.fleet.client import Agent, DeployOptions
from edgeopt.hw.device import fingerprint
from edgeopt.hw.probe import probe

DEPLOY, DEPLOYMENT = "POST /api/v1/deploy", "GET /api/v1/deployments/7"
EVENTS, ROLLBACK, STATUS = "GET /api/v1/events", "POST /api/v1/rollback", "GET /api/v1/status"


def deployment(*states, reason="", **more):
    history = [{"state": state, "time_s": 10.0 + k, "reason": f"because {k}"} for k, state in enumerate(states)]
    return 200, {"deployment": {"id": 7, "state": states[-1], "reason": reason, "history": history, **more}}


ACCEPTED = (202, deployment("ACCEPTED")[1])
NO_EVENTS = (200, {"events": [], "next": 3})
IDLE = (200, {"state": "serving"})


def in_turns(*answers):
    """One answer after the other, the last one for ever."""
    left = list(answers)
    return lambda _handler: left.pop(0) if len(left) > 1 else left[0]


def test_a_bundle_goes_into_service_and_back(start_agent, conv_bundle, bundle, change_deployment, told):
    agent = start_agent().agent
    assert agent.status().state == "empty"
    assert agent.releases().releases == ()
    assert fingerprint(agent.device()) == fingerprint(probe())
    done = agent.deploy(conv_bundle, told)
    assert (done.state, done.name, done.kind) == ("COMMITTED", "conv", "deploy")
    assert told.phases()[:2] == ["checking digests", "sending"]
    states = [e for e in told.events if isinstance(e, Progress) and e.subject == "deployment 1"]
    assert [e.phase for e in states if e.phase != "soaking"] == [
        "accepted", "receiving", "verifying", "staged", "probing", "switching", "committed",
    ]  # fmt: skip
    assert all(e.time_s for e in states if e.phase != "soaking")
    sent = [e for e in told.events if e.phase == "sending"]
    assert sent[0].done == 0
    assert sent[-1].done == sent[-1].total > 0
    first = agent.status()
    assert (first.state, first.serving.name, first.trust) == ("serving", "conv", "unsigned")
    change_deployment(bundle, summary="another")
    second = agent.deploy(bundle, ignore)
    assert agent.status().previous.release == first.serving.release
    assert {r.id: r.state for r in agent.releases().releases} == {
        second.release: "serving",
        first.serving.release: "previous",
    }
    back = agent.rollback(ignore)
    assert (back.kind, back.state, back.release) == ("rollback", "COMMITTED", first.serving.release)
    assert agent.status().serving.release == first.serving.release
    journal = agent.events()
    assert {entry.deployment for entry in journal.events} >= {1, 2, 3}
    assert agent.events(journal.next).events == ()


def test_rollback_during_a_soak_is_no_failure(start_agent, conv_bundle, bundle, change_deployment, told):
    agent = start_agent().agent
    first = agent.deploy(conv_bundle, ignore)
    change_deployment(bundle, summary="another")
    options = DeployOptions(soak_s=600.0)
    second = agent.deploy(bundle, ignore, options, wait=False)
    while agent.deployment(second.id).state != "SOAKING":
        time.sleep(0.02)
    ended = agent.rollback(told)
    assert (ended.id, ended.kind, ended.state) == (second.id, "deploy", "ROLLED_BACK")
    assert ended.requested
    assert agent.status().serving.release == first.release
    assert {r.id: r.state for r in agent.releases().releases} == {
        first.release: "serving",
        ended.release: "rolled back",
    }


def test_events_call_a_return_to_an_older_release_a_rollback(
    start_agent, conv_bundle, bundle, change_deployment, told
):
    agent = start_agent().agent
    agent.deploy(conv_bundle, ignore)
    change_deployment(bundle, summary="another")
    agent.deploy(bundle, ignore)
    agent.rollback(told)
    assert {e.subject for e in told.events if isinstance(e, Progress)} == {"rollback 3"}


def test_one_file_is_checked_and_sent_as_it_is(start_agent, conv_bundle, tmp_path, told):
    pack_into(conv_bundle, tmp_path / "one file.edgeopt")
    assert start_agent().agent.deploy(tmp_path / "one file.edgeopt", told).state == "COMMITTED"
    assert told.phases()[:2] == ["checking digests", "sending"]


def test_a_folder_is_sent_without_a_temporary_file(start_agent, conv_bundle, monkeypatch):
    agent = start_agent().agent
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    assert agent.deploy(conv_bundle, ignore).state == "COMMITTED"


def test_what_the_agent_refuses_is_an_error_with_its_reason(start_agent, bundle, change_deployment):
    started = start_agent()
    change_deployment(bundle, device={"cpu": "0" * 16, "host": "0" * 16})
    with pytest.raises(errors.VerificationError, match=r"Deployment 1.* failed: ") as caught:
        started.agent.deploy(bundle, ignore)
    assert "fleet releases" in caught.value.hint
    assert caught.value.hint.startswith("No release serves.")
    assert started.agent.deploy(bundle, ignore, DeployOptions(force=True)).state == "COMMITTED"
    change_deployment(bundle, summary="another")
    with pytest.raises(errors.VerificationError) as caught:
        started.agent.deploy(bundle, ignore)
    assert caught.value.hint.startswith("The previous release still serves.")


def test_nothing_to_go_back_to(serving):
    with pytest.raises(errors.ConstraintError, match="No release to roll back to"):
        serving.agent.rollback(ignore)


def test_what_is_no_bundle_is_not_sent(scripted, bundle, tmp_path):
    agent = Agent(scripted({}).url)
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("text")
    for path, says in (
        (tmp_path / "none", "no bundle at"),
        (tmp_path / "folder", "is not a bundle"),
        (tmp_path / "file", "is not a bundle"),
    ):
        with pytest.raises(errors.BundleError, match=says):
            agent.deploy(path, ignore)
    (bundle / "ledger.json").write_text("[1]")
    with pytest.raises(errors.BundleError, match="damaged"):
        agent.deploy(bundle, ignore)


def test_the_options_reach_the_agent(scripted, conv_bundle):
    server = scripted({DEPLOY: ACCEPTED})
    done = Agent(server.url).deploy(
        conv_bundle, ignore, DeployOptions(force=True, soak_s=2.5, soak_requests=7), wait=False
    )
    assert (done.id, done.state) == (7, "ACCEPTED")
    assert server.asked == ["POST /api/v1/deploy?force=1&soak_s=2.5&soak_requests=7&name=conv.edgeopt"]


def test_each_state_is_told_once_and_the_soak_with_what_is_left(scripted, told):
    figures = {"soak_s": 9, "elapsed_s": 4.5, "requests": 3, "soak_requests": 10}
    soaking = deployment("ACCEPTED", "SOAKING", name="digits", progress=figures)
    end = deployment("ACCEPTED", "SOAKING", "COMMITTED", name="digits")
    server = scripted(
        {ROLLBACK: ACCEPTED, DEPLOYMENT: in_turns(ACCEPTED, soaking, end), EVENTS: NO_EVENTS, STATUS: IDLE}
    )
    Agent(server.url).rollback(told)
    assert told.phases() == ["accepted", "soaking", "soaking", "committed"]
    entered, left = told.events[1:3]
    assert (entered.message, entered.time_s, entered.subject) == ("digits: because 1", 11.0, "deployment 7")
    assert (left.time_left_s, left.message) == (4.5, "3 requests of at least 10 served")


@pytest.mark.parametrize(
    ("state", "says"),
    [
        ("FAILED", "Deployment 7 of 'digits' failed: it is slow"),
        ("ROLLED_BACK", "Deployment 7 of 'digits' was rolled back: it is slow"),
        ("DEGRADED", "Deployment 7 of 'digits' could not be rolled back: it is slow"),
    ],
)
def test_a_deployment_that_does_not_stay_is_an_error(scripted, state, says, told):
    end = deployment("ACCEPTED", state, reason="it is slow", name="digits")
    server = scripted({ROLLBACK: ACCEPTED, DEPLOYMENT: end, STATUS: IDLE})
    with pytest.raises(errors.VerificationError) as caught:
        Agent(server.url).rollback(told)
    assert caught.value.message == says
    assert caught.value.hint
    assert told.phases() == ["accepted", state.lower()]


def test_it_waits_until_the_agent_takes_the_next_one(scripted, told):
    tidying = (200, {"state": "deploying", "deployment": deployment("COMMITTED")[1]["deployment"]})
    server = scripted(
        {ROLLBACK: ACCEPTED, DEPLOYMENT: deployment("COMMITTED"), STATUS: in_turns(tidying, tidying, IDLE)}
    )
    Agent(server.url).rollback(told)
    assert server.asked.count("GET /api/v1/status") == 3


def test_an_agent_that_restarts_in_the_middle_is_waited_for(scripted, told):
    end = deployment("ACCEPTED", "COMMITTED")
    server = scripted(
        {ROLLBACK: ACCEPTED, DEPLOYMENT: in_turns(ACCEPTED, None, None, end), EVENTS: NO_EVENTS, STATUS: IDLE}
    )
    assert Agent(server.url).rollback(told).state == "COMMITTED"
    assert told.logs() == [
        "The agent went away while deployment 7 was accepted; waiting for it.",
        "The agent is back.",
    ]


def test_an_agent_that_stays_away(scripted, monkeypatch, told):
    monkeypatch.setattr(client, "_PATIENCE_S", 0.5)
    server = scripted(
        {ROLLBACK: ACCEPTED, DEPLOYMENT: in_turns(deployment("SWITCHING"), None), EVENTS: NO_EVENTS, STATUS: IDLE}
    )
    with pytest.raises(
        errors.MissingError, match="went away while deployment 7 was switching, and has not come back"
    ):
        Agent(server.url).rollback(told)


def test_an_upload_that_is_refused_before_its_end_tells_why(bundle, monkeypatch):
    """The agent answers and closes while the client still sends."""
    (bundle / "model" / "big.bin").write_bytes(bytes(8 << 20))
    write_manifest(bundle)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def refuse():
            connection, _ = listener.accept()
            with connection:
                while b"\r\n\r\n" not in connection.recv(65536):
                    pass
                body = b'{"error": {"code": "too-large", "message": "Too large."}}'
                head = f"HTTP/1.1 413 Too Large\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
                connection.sendall(head.encode() + body)
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(1 << 16):
                    pass

        thread = threading.Thread(target=refuse)
        thread.start()
        with pytest.raises(errors.ConstraintError, match="Too large") as caught:
            Agent(f"127.0.0.1:{listener.getsockname()[1]}").deploy(bundle, ignore)
        thread.join()
    assert caught.value.code == "too-large"


def test_agents_of_other_versions_are_understood(scripted):
    server = scripted(
        {STATUS: (200, {"state": "sleeping", "colour": "blue", "serving": {"release": "1", "new": {}}})}
    )
    status = Agent(server.url).status()
    assert (status.state, status.serving.release) == ("sleeping", "1")
