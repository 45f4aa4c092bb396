"""The control API as its clients see it: the edgeopt client, curl, and web pages that must not."""

import json
import os
import re
import shutil
import socket
import threading
import time

import msgspec
import pytest

from edgeopt.bundle.manifest import SIGNATURE, release_id, write_manifest
from edgeopt.bundle.sign import new_key, sign_bundle
from edgeopt.cli.fleet_show import show_status
from edgeopt.errors import ConstraintError, VerificationError
from edgeopt.events import ignore
from edgeopt.fleet.client import Agent
from edgeopt.hw.device import Device, fingerprint
from edgeopt_agent import tokens, trusted_keys
from edgeopt_agent.main import run


@pytest.fixture
def agent(start_agent):
    return start_agent(soak_s=0.0, soak_requests=1)


def test_it_tells_the_device_that_it_is(idle_agent, device_fingerprint):
    status, headers, answer = idle_agent.ask("GET", "/api/v1/device")
    assert (status, headers["edgeopt-trust"], answer["trust"]) == (200, "unsigned", "unsigned")
    assert fingerprint(msgspec.convert(answer["device"], Device)) == device_fingerprint


def test_the_client_of_edgeopt_deploys_and_goes_back(agent, old_bundle, new_bundle):
    client = Agent(f"127.0.0.1:{agent.port}")
    phases = []
    first = client.deploy(old_bundle, lambda event: phases.append(event.phase))
    assert first.state == "COMMITTED"
    assert "soaking" in phases
    client.deploy(new_bundle, ignore)
    assert client.status().serving.release == release_id(new_bundle)
    assert [(r.id, r.state) for r in client.releases().releases] == [
        (release_id(new_bundle), "serving"),
        (release_id(old_bundle), "previous"),
    ]
    assert client.rollback(ignore).kind == "rollback"
    assert client.status().serving.release == release_id(old_bundle)


def test_the_client_of_edgeopt_hears_why_not(agent, old_bundle, make_null_bundle):
    client = Agent(f"127.0.0.1:{agent.port}")
    with pytest.raises(ConstraintError, match="No release to roll back to"):
        client.rollback(ignore)
    with pytest.raises(VerificationError, match="SIGSEGV"):
        client.deploy(make_null_bundle(crash="load"), ignore)


def test_status_tells_what_serves(agent, old_bundle):
    before = time.time()
    agent.deploy(old_bundle)
    serving = agent.status()["serving"]
    assert (serving["name"], serving["summary"], serving["backend"]) == ("null", "a test", "null")
    assert before <= serving["since_s"] <= time.time()
    os.kill(serving["pid"], 0)


def test_events_can_be_waited_for(agent, old_bundle):
    answers = []
    path = "/api/v1/events?after=0&wait_s=20"
    waiting = threading.Thread(target=lambda: answers.append(agent.ask("GET", path)[2]))
    waiting.start()
    agent.deploy(old_bundle)
    waiting.join()
    assert answers[0]["events"][0]["state"] == "ACCEPTED"
    assert answers[0]["next"] == answers[0]["events"][-1]["seq"]
    rest = agent.ask("GET", f"/api/v1/events?after={answers[0]['next']}")[2]
    assert rest["events"][-1]["state"] == "COMMITTED"
    assert agent.ask("GET", f"/api/v1/events?after={rest['next']}")[2] == {
        "events": [], "next": rest["next"], "trust": "unsigned",
    }  # fmt: skip


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Host": "evil.example:8080"},  # whose name was made to lead here
        {"Host": "[evil"},
    ],
)
@pytest.mark.parametrize(("method", "path"), [("POST", "/api/v1/rollback"), ("GET", "/api/v1/status")])
def test_web_pages_are_refused(idle_agent, method, path, headers):
    status, _, answer = idle_agent.ask(method, path, headers=headers)
    assert (status, answer["error"]["code"]) == (403, "browser")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/api/v1/nothing", 404),
        ("GET", "/api/v1/deployments/7", 404),
        ("GET", "/api/v1/deployments/99999999999999999999999", 404),
        ("GET", "/api/v1/deployments/-1", 404),
        ("GET", f"/api/v1/deployments/{'9' * 5000}", 404),
        ("GET", "/api/v1/deploy", 405),
        ("POST", "/api/v1/status", 405),
        ("GET", "/api/v1/events?after=x", 400),
        ("GET", "/api/v1/events?wait_s=nan", 400),
        ("GET", "/api/v1/events?after=-1", 400),
        ("POST", "/api/v1/deploy?soak_s=-1", 400),
    ],
)
def test_what_makes_no_sense_is_a_sentence(idle_agent, method, path, status):
    found, _, answer = idle_agent.ask(method, path, body=b"" if method == "POST" else None)
    assert found == status
    assert set(answer["error"]) == {"code", "message", "hint"}
    assert answer["error"]["message"].endswith(".")


@pytest.mark.parametrize(
    ("method", "path", "says"),
    [
        ("POST", "/api/v1/deploy?soak=3", "Did you mean 'soak_s'?"),
        ("GET", "/api/v1/events?wait=1", "Did you mean 'wait_s'?"),
        ("GET", "/api/v1/status?soak_s=3", "There are: model."),
        ("GET", "/api/v1/releases?x", "There are: model."),
        ("POST", "/api/v1/rollback?force=1", "There are: to, model."),
        ("GET", "/api/v1/deployments/1?x=", "There are: model."),
        ("GET", "/metrics?x=1", "It takes none."),
        ("GET", "/v2/health/ready?x=1", "It takes none."),
        ("POST", "/v2/models/null/infer?timeout=1", "It takes none."),
    ],
)
def test_a_query_parameter_that_a_route_does_not_take_is_refused(idle_agent, method, path, says):
    status, _, answer = idle_agent.ask(method, path, body=b"" if method == "POST" else None)
    assert status == 400
    said = answer["error"] if isinstance(answer["error"], str) else answer["error"]["message"]
    assert said.endswith(says)


def test_refused_bundles_are_listed_by_name_and_digest_and_no_rollback_to_them_is_promised(
    agent, old_bundle, new_bundle, tmp_path
):
    for name in ("trusted", "other"):
        new_key(tmp_path / name)
    before = shutil.copytree(old_bundle, tmp_path / "before.edgeopt")
    after = shutil.copytree(new_bundle, tmp_path / "after.edgeopt")
    sign_bundle(after, tmp_path / "trusted")
    agent.deploy(before)
    agent.deploy(after)
    assert "reason" not in agent.status()["previous"]
    trusted_keys.add(agent.data_dir, tmp_path / "trusted.pub")
    why_not = agent.status()["previous"]["reason"]
    status, _, refused = agent.ask("POST", "/api/v1/rollback")
    assert (status, refused["error"]["message"]) == (403, why_not)
    shown = " ".join(each.text for each in show_status(Agent(f"127.0.0.1:{agent.port}").status()))
    assert f"No rollback to null (release {release_id(before)}): " in shown
    assert "A rollback leads to" not in shown

    unsigned = agent.deploy(before, name="before.edgeopt")
    called = f"'null' (release {release_id(before)})"
    assert unsigned["reason"] == f"The bundle {called} is not signed."
    sign_bundle(before, tmp_path / "other")
    other = agent.deploy(before)
    assert other["reason"].startswith(f"The bundle {called} is signed by the key ")
    damaged = agent.deploy(b"no zip", name="cut.edgeopt")
    assert damaged["reason"].startswith("The bundle 'cut.edgeopt' is refused: ")
    listed = agent.ask("GET", "/api/v1/releases")[2]["releases"]
    assert [(each["id"], each["name"], each["reason"]) for each in listed if each["state"] == "refused"] == [
        ("", "cut.edgeopt", damaged["reason"]),
        (release_id(before), "null", other["reason"]),
    ]


def raw(agent, head, body=b""):
    """The status of what a request by hand is answered with; the connection is closed after sending."""
    with socket.create_connection(("127.0.0.1", agent.port), timeout=60) as connection:
        connection.sendall(head.encode() + body)
        connection.shutdown(socket.SHUT_WR)
        return connection.makefile("rb").read()


def test_a_bundle_without_a_length_is_refused(idle_agent):
    head = "POST /api/v1/deploy HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert raw(idle_agent, head, b"3\r\nabc\r\n0\r\n\r\n").startswith(b"HTTP/1.1 411")


def test_a_bundle_that_is_too_large_is_refused_before_it_is_sent(start_agent, old_bundle):
    agent = start_agent(max_bundle_bytes=1000)
    status, _, answer = agent.send(old_bundle)
    assert (status, answer["error"]["code"]) == (413, "too-large")
    assert agent.status()["deployment"] is None


def test_a_connection_that_ends_early_fails_the_deployment_and_nothing_else(agent, old_bundle, pack):
    agent.deploy(old_bundle)
    content = pack(old_bundle)
    with socket.create_connection(("127.0.0.1", agent.port), timeout=60) as connection:
        head = f"POST /api/v1/deploy HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(content)}\r\n\r\n"
        connection.sendall(head.encode() + content[:500])
    agent.until(lambda: agent.status()["deployment"]["id"] == 2, "the deployment")
    done = agent.ended(2)
    assert done["state"] == "FAILED"
    assert re.fullmatch(rf"The connection ended after \d+ of {len(content)} bytes.", done["reason"])
    agent.serves(old_bundle)
    assert list((agent.data_dir / "partial").iterdir()) == []


def test_with_a_trusted_key_only_signed_bundles_serve(agent, old_bundle, tmp_path):
    new_key(tmp_path / "key")
    shutil.copyfile(tmp_path / "key.pub", agent.data_dir / "trust" / "one.pub")
    refused = agent.deploy(old_bundle)
    assert refused["state"] == "FAILED"
    assert "not signed" in refused["reason"]
    signed = shutil.copytree(old_bundle, tmp_path / "signed.edgeopt")
    sign_bundle(signed, tmp_path / "key")
    done = agent.deploy(signed)
    assert done["state"] == "COMMITTED", done["reason"]
    assert done["detail"]["signed_by"]
    assert agent.ask("GET", "/api/v1/status")[1]["edgeopt-trust"] == "signed"
    assert json.dumps(agent.status()).count('"signed"') >= 1


def test_unsigned_release_that_serves_is_named_until_its_signed_copy_is_deployed(
    agent, old_bundle, tmp_path, capsys
):
    def shown():
        return " ".join(each.text for each in show_status(Agent(f"127.0.0.1:{agent.port}").status()))

    def doctor():
        run(["doctor", "--port", str(agent.port), "--data-dir", str(agent.data_dir)])
        return " ".join(capsys.readouterr().out.split())

    agent.deploy(old_bundle)
    assert "unsigned:" not in shown() + doctor()
    new_key(tmp_path / "key")
    trusted_keys.add(agent.data_dir, tmp_path / "key.pub")
    sentence = f"Release {release_id(old_bundle)} serves model null unsigned: deploy a signed copy."
    assert sentence in shown()
    assert f"WARNING signature {sentence}" in doctor()

    signed = shutil.copytree(old_bundle, tmp_path / "signed.edgeopt")
    key = sign_bundle(signed, tmp_path / "key").key_id
    done = agent.deploy(signed)
    assert (done["state"], done["release"]) == ("COMMITTED", release_id(old_bundle))
    assert done["reason"].endswith(f"already serves; it is now signed by {key}.")
    assert (agent.data_dir / "current" / SIGNATURE).read_bytes() == (signed / SIGNATURE).read_bytes()
    assert "serves model null" not in shown() + doctor()
    agent.serves(old_bundle)
    assert agent.deploy(signed)["reason"].endswith("already serves; nothing was changed.")


def test_added_model_that_serves_unsigned_is_named(agent, null_bundle, tmp_path, capsys):
    agent.deploy(null_bundle("first"))
    second = null_bundle("second")
    agent.deploy(second, add=1)
    new_key(tmp_path / "key")
    trusted_keys.add(agent.data_dir, tmp_path / "key.pub")
    sentence = f"Release {release_id(second)} serves model second unsigned: deploy a signed copy"
    assert any(sentence in each.text for each in show_status(Agent(f"127.0.0.1:{agent.port}").status()))
    run(["doctor", "--port", str(agent.port), "--data-dir", str(agent.data_dir)])
    assert f"signature of second {sentence}" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("host", ["localhost:8080", "127.0.0.1:1", "[::1]:8080", "192.168.1.7"])
def test_its_own_names_are_answered(idle_agent, host):
    assert idle_agent.ask("GET", "/api/v1/status", headers={"Host": host})[0] == 200


def test_a_sender_that_falls_silent_does_not_keep_the_next_one_waiting(start_agent, old_bundle, pack):
    agent = start_agent(body_timeout_s=0.3)
    content = pack(old_bundle)
    with socket.create_connection(("127.0.0.1", agent.port), timeout=60) as connection:
        head = f"POST /api/v1/deploy HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(content)}\r\n\r\n"
        connection.sendall(head.encode() + content[:500])
        agent.until(lambda: agent.status()["deployment"], "the deployment")
        assert agent.ended(1)["reason"] == "Nothing came for 0.3 s after 500 bytes."
        assert agent.deploy(old_bundle)["state"] == "COMMITTED"


def test_nobody_goes_back_to_what_is_not_trusted_any_more(agent, old_bundle, new_bundle, tmp_path):
    agent.deploy(old_bundle)
    agent.deploy(new_bundle)
    new_key(tmp_path / "key")
    shutil.copyfile(tmp_path / "key.pub", agent.data_dir / "trust" / "one.pub")
    status, _, answer = agent.ask("POST", "/api/v1/rollback")
    assert (status, answer["error"]["code"]) == (403, "untrusted")
    assert "is not signed" in answer["error"]["message"]
    agent.serves(new_bundle)


def test_who_can_be_reached_by_others_takes_nothing_without_a_trusted_key(start_agent, old_bundle, tmp_path):
    data_dir = tmp_path / "reached"
    (data_dir / "trust").mkdir(parents=True)
    new_key(tmp_path / "key")
    shutil.copyfile(tmp_path / "key.pub", data_dir / "trust" / "one.pub")
    token = tokens.add(data_dir, "one", "deploy").token
    agent = start_agent(data_dir, host="0.0.0.0", tls="off")  # noqa: S104 - that is the point
    agent.token = token
    (data_dir / "trust" / "one.pub").unlink()
    done = agent.deploy(old_bundle)
    assert done["state"] == "FAILED"
    assert "No key is trusted, and" in done["reason"]


def test_a_name_that_would_write_all_over_a_terminal_is_refused(agent, make_null_bundle, tmp_path):
    bundle = shutil.copytree(make_null_bundle(), tmp_path / "odd.edgeopt")
    file = bundle / "deployment.toml"
    file.write_text(file.read_text().replace('name = "null"', 'name = "\\u001b[2J"', 1))
    write_manifest(bundle)
    assert "name or summary" in agent.deploy(bundle)["reason"]


def test_the_status_tells_what_limits_the_worker_that_serves(start_agent, old_bundle):
    agent = start_agent()
    assert agent.status()["worker_limits"] is None
    agent.deploy(old_bundle)
    limits = agent.status()["worker_limits"]
    assert [limit["name"] for limit in limits] == [
        "memory",
        "network",
        "files",
        "user",
        "capabilities",
        "processes",
        "resources",
    ]
    assert all(limit["how"] for limit in limits)


def test_a_candidate_that_takes_too_much_memory_fails_with_the_figure(
    start_serving, old_bundle, new_bundle, make_null_bundle
):
    agent = start_serving(worker_memory_bytes=300 << 20)
    failed = agent.deploy(make_null_bundle(eat_memory_at="run"))
    assert failed["state"] == "FAILED"
    assert "took more than 300 MiB of memory" in failed["reason"]
    agent.serves(old_bundle)
    assert agent.deploy(new_bundle)["state"] == "COMMITTED"


def test_the_status_tells_whether_requests_share_runs(start_agent, make_null_bundle):
    agent = start_agent(batch_max_size=4)
    agent.deploy(make_null_bundle(latency_ms=2.0))
    batching = agent.status()["batching"]
    assert (batching["max_size"], batching["used"]) == (4, True)
    assert f"Batches of up to 4 rows: {batching['reason']}" in shown_status(agent)
    agent.deploy(make_null_bundle(row_ms=20.0))
    reason = agent.status()["batching"]["reason"]
    assert f"No batches: {reason}" in shown_status(agent)


def shown_status(agent):
    return " ".join(block.text for block in show_status(Agent(agent.address).status()))
