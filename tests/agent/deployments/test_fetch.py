"""Bundles that the agent fetches itself, from a real server that breaks off, lies, redirects or falls silent."""

import contextlib
import json
import random
import shutil
import ssl
from hashlib import sha256

import pytest

from edgeopt.bundle.manifest import write_manifest
from edgeopt.bundle.sign import new_key, sign_bundle
from edgeopt.errors import InputError
from edgeopt.events import ignore
from edgeopt.fleet.client import Agent
from edgeopt_agent import certificate, trusted_keys
from edgeopt_agent.deployments.download import may_lead_to
from edgeopt_agent.releases import release_id
from tests.agent.conftest import packed
from tests.agent.deployments.file_server import FileServer

PADDING_BYTES = 400_000
RETRIES = {"fetch_retry_s": 0.01, "fetch_retry_most_s": 0.05}


def digest_of(content):
    return f"sha256:{sha256(content).hexdigest()}"


@pytest.fixture
def bundle(new_bundle, tmp_path):
    """A sound bundle that is long enough to be broken off."""
    folder = shutil.copytree(new_bundle, tmp_path / "padded.edgeopt")
    with (folder / "model" / "model.null.json").open("a") as file:
        file.write(" " * PADDING_BYTES)  # JSON may end with spaces
    write_manifest(folder)
    return folder


@pytest.fixture
def make_server():
    with contextlib.ExitStack() as stack:

        def make(content, tls=None):
            server = FileServer(content, tls)
            stack.callback(server.close)
            return server

        yield make


@pytest.fixture
def server(make_server, bundle):
    return make_server(packed(bundle))


@pytest.fixture
def start_fetching(start_serving, server):
    """Starts an agent that serves the old bundle and may fetch from the server."""

    def start(**settings):
        return start_serving(**{"fetch_from": [server.prefix], **RETRIES, **settings})

    return start


def want(agent, url, digest, **more):
    """The answer to a request by reference, whatever it is."""
    return agent.ask("POST", "/api/v1/desired", json.dumps({"bundle": url, "digest": digest, **more}))


def begin(agent, server, **more):
    status, _, answer = want(agent, server.url, digest_of(server.content), **more)
    assert status == 202, answer
    return answer["deployment"]["id"]


def end(agent, server, **more):
    return agent.ended(begin(agent, server, **more))


def states(done):
    return [moment["state"] for moment in done["history"]]


def received(agent, least):
    """Waits until so many bytes of the running download have come."""
    return agent.until(
        lambda: (agent.status()["deployment"]["progress"] or {}).get("received_bytes", 0) >= least, "the bytes"
    )


def partial_files(agent):
    return [file.name for file in (agent.data_dir / "partial").iterdir()]


def test_bundle_is_fetched_proved_and_served(start_fetching, server, bundle):
    agent = start_fetching()
    done = end(agent, server)
    assert done["state"] == "COMMITTED", done["reason"]
    assert states(done) == [
        *("ACCEPTED", "FETCHING", "VERIFYING", "STAGED", "PROBING", "SWITCHING", "SOAKING", "COMMITTED")
    ]
    agent.serves(bundle)
    assert server.requests == [("/bundles/model.edgeopt", None)]
    assert partial_files(agent) == []


def test_fetched_release_is_not_fetched_again(start_fetching, server):
    agent = start_fetching()
    first = end(agent, server)
    assert end(agent, server)["id"] == first["id"]
    assert len(server.requests) == 1


def test_nothing_is_fetched_without_the_setting(agent, server, old_bundle):
    status, _, answer = want(agent, server.url, digest_of(server.content))
    assert (status, answer["error"]["code"]) == (403, "place-not-allowed")
    assert f'fetch_from = ["{server.prefix}"]' in answer["error"]["hint"]
    assert server.requests == []
    with pytest.raises(InputError, match="does not fetch from"):
        Agent(f"127.0.0.1:{agent.port}").deploy_from(server.url, digest_of(server.content), ignore)
    agent.serves(old_bundle)


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "http://user:secret@127.0.0.1:{port}/bundles/model.edgeopt",
        "http://127.0.0.1:{port}/bundles/../other",
        "http://127.0.0.1:{port}/bundles/%2e%2e/other",
        "http://127.0.0.1:{port}/bundles-of-others/model.edgeopt",
        "http://127.0.0.1:{port}@169.254.169.254/bundles/model.edgeopt",
        "http://127.0.0.1:{port}/bundles/a b",
        "https://127.0.0.1:{port}/bundles/model.edgeopt",
        "http://localhost:{port}/bundles/model.edgeopt",
    ],
)
def test_other_places_are_refused(start_fetching, server, url):
    agent = start_fetching()
    status, _, answer = want(agent, url.format(port=server.port), digest_of(server.content))
    assert status in {400, 403}, answer
    assert "secret" not in json.dumps(answer)
    assert server.requests == []


@pytest.mark.parametrize("document", ["[]", "{", '{"bundle": "x"}', '{"bundle": 1, "digest": ""}', "[" * 60_000])
def test_unreadable_document_is_refused(start_fetching, document):
    agent = start_fetching()
    assert agent.ask("POST", "/api/v1/desired", document)[0] == 400
    assert agent.ask("POST", "/api/v1/desired", " " * 1_000_000)[0] == 413
    assert want(agent, "http://h/b", "sha256:12")[2]["error"]["code"] == "bad-digest"
    assert agent.settled()


@pytest.mark.parametrize("ranges", [True, False])
def test_broken_download_goes_on(start_fetching, server, bundle, ranges):
    agent = start_fetching()
    server.ranges = ranges
    cuts = random.Random(7)  # noqa: S311 - no secret
    server.plans = [{"cut": cuts.randrange(1, len(server.content) // 8)} for _ in range(7)]
    done = end(agent, server)
    assert done["state"] == "COMMITTED", done["reason"]
    agent.serves(bundle)
    assert len(server.requests) == 8
    if ranges:
        assert sum(server.sent) == len(server.content)
    assert all(asked for _, asked in server.requests[1:])


def test_server_errors_are_tried_again(start_fetching, server):
    agent = start_fetching()
    server.plans = [{"status": 500}, {"cut": 1000}, {"status": 503}, {"cut": 1000}, {"status": 429}]
    assert end(agent, server)["state"] == "COMMITTED"
    assert sum(server.sent) == len(server.content)


@pytest.mark.parametrize("etag", [True, False])
def test_file_that_changes_in_the_middle_is_fetched_from_its_begin(start_fetching, server, bundle, etag):
    agent = start_fetching()
    server.etag = etag
    right = server.content
    server.content = bytes(len(right))

    def change():
        server.content = right

    server.plans = [{"cut": 100_000, "then": change}]
    status, _, answer = want(agent, server.url, digest_of(right))
    assert status == 202
    done = agent.ended(answer["deployment"]["id"])
    assert done["state"] == "COMMITTED", done["reason"]
    agent.serves(bundle)
    assert len(server.requests) == (2 if etag else 3)


def test_wrong_digest_is_never_proved(start_fetching, server, old_bundle):
    agent = start_fetching()
    _, _, answer = want(agent, server.url, digest_of(b"another"))
    done = agent.ended(answer["deployment"]["id"])
    assert states(done) == ["ACCEPTED", "FETCHING", "FAILED"]
    assert digest_of(server.content) in done["reason"]
    assert len(server.requests) == 1
    assert partial_files(agent) == []
    agent.serves(old_bundle)


@pytest.mark.parametrize(
    ("plan", "requests"),
    [({}, 1), ({"announce": -1}, 1), ({"chunked": True}, 1)],
    ids=["announced", "until-the-end", "chunked"],
)
def test_too_large_bundle_is_refused(start_fetching, server, old_bundle, plan, requests):
    agent = start_fetching(max_bundle_bytes=100_000)
    server.plans = [plan]
    done = end(agent, server)
    assert states(done) == ["ACCEPTED", "FETCHING", "FAILED"]
    assert "at most 100000 are taken" in done["reason"]
    assert len(server.requests) == requests
    assert partial_files(agent) == []
    agent.serves(old_bundle)


@pytest.mark.parametrize("plan", [{"announce": -1}, {"chunked": True}])
def test_bundle_of_unknown_size_is_fetched(start_fetching, server, bundle, plan):
    agent = start_fetching()
    server.plans = [plan]
    assert end(agent, server)["state"] == "COMMITTED"
    agent.serves(bundle)


def test_no_room_ends_the_download_before_it_begins(start_fetching, server):
    agent = start_fetching(disk_reserve_bytes=1 << 60)
    done = end(agent, server)
    assert states(done) == ["ACCEPTED", "FETCHING", "FAILED"]
    assert "is full" in done["reason"]
    assert partial_files(agent) == []


def test_redirect_is_followed_to_allowed_places_only(start_fetching, make_server, server, bundle):
    foreign = make_server(server.content)
    agent = start_fetching()
    server.plans = [{"status": 302, "to": foreign.url}]
    done = end(agent, server)
    assert states(done) == ["ACCEPTED", "FETCHING", "FAILED"]
    assert "does not allow it" in done["reason"]
    assert foreign.requests == []
    for place in ("file:///etc/passwd", "http://169.254.169.254/latest", ""):
        server.plans = [{"status": 302, "to": place}, *[{"status": 302, "to": server.url}] * 10]
        assert end(agent, server)["state"] == "FAILED"
    server.plans = [{"status": 307, "to": "/bundles/elsewhere/model.edgeopt"}]
    done = end(agent, server)
    assert done["state"] == "COMMITTED", done["reason"]
    agent.serves(bundle)
    assert server.requests[-1][0] == "/bundles/elsewhere/model.edgeopt"


@pytest.mark.parametrize("trusted", [True, False])
def test_certificate_must_be_trusted(start_serving, make_server, bundle, tmp_path, monkeypatch, trusted):
    made = certificate.renew(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.file)
    server = make_server(packed(bundle), context)
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(made.file))
    agent = start_serving(fetch_from=[server.prefix], **RETRIES)
    done = end(agent, server)
    if trusted:
        assert done["state"] == "COMMITTED", done["reason"]
        agent.serves(bundle)
    else:
        assert (done["state"], "is not trusted" in done["reason"]) == ("FAILED", True), done["reason"]
        assert server.requests == []


@pytest.mark.parametrize(
    ("host", "address", "may"),
    [
        ("host", "192.0.2.1", True),
        ("host", "10.0.0.1", True),
        ("host", "169.254.169.254", False),
        ("169.254.169.254", "169.254.169.254", True),
        ("host", "fe80::1%eth0", False),
        ("host", "::ffff:169.254.169.254", False),
        ("host", "127.0.0.1", False),
        ("127.1", "127.0.0.1", False),
        ("localhost", "127.0.0.1", True),
        ("host", "::1", False),
        ("host", "0.0.0.0", False),  # noqa: S104 - nobody listens
        ("host", "224.0.0.1", False),
    ],
)
def test_name_must_not_lead_to_this_device_or_its_link(host, address, may):
    assert may_lead_to(host, address) is may


def test_length_that_is_a_lie_ends_with_the_download(start_fetching, server, old_bundle):
    agent = start_fetching(fetch_timeout_s=30.0)
    server.plans = [{"announce": len(server.content) + 1000}] * 100
    done = end(agent, server)
    assert states(done) == ["ACCEPTED", "FETCHING", "FAILED"], done["reason"]
    agent.serves(old_bundle)


def test_server_that_sends_another_part_is_asked_from_the_begin(start_fetching, server, bundle):
    agent = start_fetching()
    server.plans = [{"cut": 1000}, {"shift": 7}]
    assert end(agent, server)["state"] == "COMMITTED"
    agent.serves(bundle)
    assert server.requests[2][1] is None


def test_missing_file_fails_at_once(start_fetching, server, old_bundle):
    agent = start_fetching()
    server.plans = [{"status": 404}]
    done = end(agent, server)
    assert states(done) == ["ACCEPTED", "FETCHING", "FAILED"]
    assert "404" in done["reason"]
    assert len(server.requests) == 1
    agent.serves(old_bundle)


def test_silent_server_ends_at_the_time_limit(start_fetching, server, old_bundle):
    agent = start_fetching(fetch_timeout_s=2.0)
    server.plans = [{"hold": 150_000}]
    done = end(agent, server)
    assert states(done) == ["ACCEPTED", "FETCHING", "FAILED"]
    assert "limit of 2 s" in done["reason"]
    agent.serves(old_bundle)


def test_request_after_a_failed_download_asks_for_the_rest(start_fetching, server, bundle):
    agent = start_fetching()
    server.plans = [{"cut": 150_000}, {"status": 404}]
    assert end(agent, server)["state"] == "FAILED"
    assert len(partial_files(agent)) == 1
    assert end(agent, server)["state"] == "COMMITTED"
    agent.serves(bundle)
    assert sum(server.sent) == len(server.content)
    assert partial_files(agent) == []


def test_left_part_is_removed_at_the_next_start(start_fetching, start_agent, server):
    agent = start_fetching()
    server.plans = [{"cut": 150_000}, {"status": 404}]
    assert end(agent, server)["state"] == "FAILED"
    agent.stop()
    again = start_agent(agent.data_dir)
    again.settled()
    assert partial_files(again) == []


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_restarted_agent_goes_on_with_its_download(start_fetching, start_agent, server, bundle, old_bundle, how):
    agent = start_fetching()
    server.plans = [{"hold": 250_000}]
    number = begin(agent, server)
    received(agent, 250_000)
    if how == "kill":
        agent.process.kill()
        agent.process.wait()
    else:
        agent.stop()
    server.plans = [{"hold": 0}]
    again = start_agent(agent.data_dir, fetch_from=[server.prefix], **RETRIES)
    again.until(lambda: again.status()["serving"], "the old release, which serves meanwhile")
    again.until(lambda: len(server.requests) == 2, "the second request")
    offset = int(server.requests[1][1].removeprefix("bytes=").removesuffix("-"))
    assert 200_000 <= offset <= 250_000
    assert again.status()["serving"]["release"] == release_id(old_bundle)
    again.process.kill()
    again.process.wait()
    third = start_agent(agent.data_dir, fetch_from=[server.prefix], **RETRIES)
    done = third.ended(number)
    assert done["state"] == "COMMITTED", done["reason"]
    third.serves(bundle)
    assert server.sent[-1] == len(server.content) - offset


def test_setting_that_changed_while_it_was_down_ends_the_download(start_fetching, start_agent, server):
    agent = start_fetching()
    server.plans = [{"hold": 250_000}]
    number = begin(agent, server)
    received(agent, 250_000)
    agent.stop()
    again = start_agent(agent.data_dir)
    done = again.ended(number)
    assert done["state"] == "FAILED"
    assert "fetch_from" in done["reason"]
    assert len(server.requests) == 1


def test_newest_request_wins(start_fetching, make_server, server, bundle, make_null_bundle):
    other = make_server(packed(make_null_bundle(model={"noise": 0.5})))
    agent = start_fetching(fetch_from=[server.prefix, other.prefix])
    other.plans = [{"hold": 100}]
    first = begin(agent, other)
    received(agent, 100)
    again = begin(agent, other)
    assert again == first
    second = begin(agent, server)
    done = agent.ended(second)
    assert done["state"] == "COMMITTED", done["reason"]
    ended = agent.ended(first)
    assert (ended["state"], ended["reason"]) == ("FAILED", "A newer request took its place.")
    agent.serves(bundle)


def test_newest_request_ends_the_soak_of_the_one_before(
    start_fetching, make_server, server, bundle, make_null_bundle
):
    other = make_server(packed(make_null_bundle(model={"noise": 0.5})))
    agent = start_fetching(fetch_from=[server.prefix, other.prefix])
    first = begin(agent, other, soak_s=3600)
    agent.until(lambda: agent.status()["deployment"]["state"] == "SOAKING", "the soak")
    assert end(agent, server)["state"] == "COMMITTED"
    assert agent.ended(first)["state"] == "ROLLED_BACK"
    agent.serves(bundle)


def test_bundle_that_is_sent_ends_a_download(start_fetching, server, old_bundle, make_null_bundle):
    agent = start_fetching()
    server.plans = [{"hold": 100}]
    first = begin(agent, server)
    received(agent, 100)
    sent = make_null_bundle(model={"noise": 0.5})
    assert agent.deploy(sent)["state"] == "COMMITTED"
    assert agent.ended(first)["state"] == "FAILED"
    agent.serves(sent)
    assert partial_files(agent) == []


@pytest.mark.parametrize("way", ["cancel", "rollback"])
def test_download_can_be_cancelled_and_rolled_back_over(start_fetching, server, old_bundle, new_bundle, way):
    agent = start_fetching()
    assert agent.deploy(new_bundle)["state"] == "COMMITTED"
    server.plans = [{"hold": 100}]
    first = begin(agent, server)
    received(agent, 100)
    status, _, answer = agent.ask("POST", f"/api/v1/{way}")
    assert status == 202
    agent.ended(answer["deployment"]["id"])
    assert agent.ended(first)["state"] == "FAILED"
    agent.serves(old_bundle if way == "rollback" else new_bundle)


def test_worker_that_crashes_during_a_download_is_started_again(start_fetching, server, old_bundle):
    agent = start_fetching()
    server.plans = [{"hold": 100}]
    begin(agent, server)
    received(agent, 100)
    pid = agent.status()["serving"]["pid"]
    next(worker for worker in agent.workers() if worker.pid == pid).kill()
    served = agent.until(
        lambda: (s := agent.status()["serving"]) and s["pid"] != pid and s, "the worker that follows"
    )
    assert served["release"] == release_id(old_bundle)
    assert agent.status()["deployment"]["state"] == "FETCHING"


def test_release_that_keeps_crashing_during_a_download_is_rolled_back(
    start_fetching, server, old_bundle, new_bundle
):
    agent = start_fetching(crash_window_s=3600.0)
    assert agent.deploy(new_bundle)["state"] == "COMMITTED"
    server.plans = [{"hold": 100}]
    first = begin(agent, server)
    received(agent, 100)
    killed = set()

    def goes_back():
        serving = agent.status()["serving"]
        if serving and serving["release"] == release_id(old_bundle):
            return True
        if serving and serving["pid"] not in killed:
            killed.add(serving["pid"])
            next(worker for worker in agent.workers() if worker.pid == serving["pid"]).kill()
        return False

    agent.until(goes_back, "the release before")
    assert agent.ended(first)["state"] == "FAILED"


def test_fetched_bundle_needs_a_trusted_signature(start_fetching, make_server, server, bundle, tmp_path):
    new_key(tmp_path / "key")
    agent = start_fetching()
    trusted_keys.add(agent.data_dir, tmp_path / "key.pub")
    done = end(agent, server)
    assert states(done) == ["ACCEPTED", "FETCHING", "VERIFYING", "FAILED"]
    sign_bundle(bundle, tmp_path / "key", 5)
    server.content = packed(bundle)
    done = end(agent, server)
    assert (done["state"], done["detail"]["sequence"]) == ("COMMITTED", 5)


def test_client_follows_a_download(start_fetching, server, bundle):
    agent = start_fetching()
    server.plans = [{"cut": 1000}, {"cut": 1000}]
    told = []
    done = Agent(f"127.0.0.1:{agent.port}").deploy_from(
        server.url, digest_of(server.content).removeprefix("sha256:"), told.append
    )
    assert done.state == "COMMITTED"
    assert "fetching" in [event.phase for event in told]


def test_added_model_is_fetched_by_its_name(start_fetching, make_server, server, null_bundle):
    other = make_server(packed(null_bundle(name="second")))
    agent = start_fetching(fetch_from=[other.prefix])
    assert want(agent, other.url, digest_of(other.content), add=True)[2]["error"]["code"] == "no-name"
    for name, state in (("third", "FAILED"), ("second", "COMMITTED")):
        status, _, answer = want(agent, other.url, digest_of(other.content), add=True, model=name)
        assert status == 202
        done = agent.ended(answer["deployment"]["id"], name)
        assert done["state"] == state, done["reason"]
