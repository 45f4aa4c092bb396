"""From where the agent fetches bundles: requests, places, redirects, certificates and addresses."""

import json
import ssl

import pytest

from edgeopt.errors import InputError
from edgeopt.events import ignore
from edgeopt.fleet.client import Agent
from edgeopt_agent import certificate
from edgeopt_agent import main as cli
from edgeopt_agent.deployments.download import may_lead_to
from tests.agent.conftest import packed
from tests.agent.deployments.fetching import RETRIES, digest_of, end, states, want


def test_nothing_is_fetched_without_the_setting(agent, file_server, old_bundle):
    status, _, answer = want(agent, file_server.url, digest_of(file_server.content))
    assert (status, answer["error"]["code"]) == (403, "place-not-allowed")
    assert f'fetch_from = ["{file_server.prefix}"]' in answer["error"]["hint"]
    assert file_server.requests == []
    with pytest.raises(InputError, match="does not fetch from"):
        Agent(f"127.0.0.1:{agent.port}").deploy_from(file_server.url, digest_of(file_server.content), ignore)
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
def test_other_places_are_refused(start_fetching, file_server, url):
    agent = start_fetching()
    status, _, answer = want(agent, url.format(port=file_server.port), digest_of(file_server.content))
    assert status in {400, 403}, answer
    assert "secret" not in json.dumps(answer)
    assert file_server.requests == []


@pytest.mark.parametrize("document", ["[]", "{", '{"bundle": "x"}', '{"bundle": 1, "digest": ""}', "[" * 60_000])
def test_unreadable_document_is_refused(start_fetching, document):
    agent = start_fetching()
    assert agent.ask("POST", "/api/v1/desired", document)[0] == 400
    assert agent.ask("POST", "/api/v1/desired", " " * 1_000_000)[0] == 413
    assert want(agent, "http://h/b", "sha256:12")[2]["error"]["code"] == "bad-digest"
    assert agent.settled()


def test_redirect_is_followed_to_allowed_places_only(start_fetching, make_file_server, file_server, long_bundle):
    foreign = make_file_server(file_server.content)
    agent = start_fetching()
    file_server.plans = [{"status": 302, "to": foreign.url}]
    done = end(agent, file_server)
    assert states(done) == ["ACCEPTED", "FETCHING", "FAILED"]
    assert "does not allow it" in done["reason"]
    assert foreign.requests == []
    for place in ("file:///etc/passwd", "http://169.254.169.254/latest", ""):
        file_server.plans = [{"status": 302, "to": place}, *[{"status": 302, "to": file_server.url}] * 10]
        assert end(agent, file_server)["state"] == "FAILED"
    file_server.plans = [{"status": 307, "to": "/bundles/elsewhere/model.edgeopt"}]
    done = end(agent, file_server)
    assert done["state"] == "COMMITTED", done["reason"]
    agent.serves(long_bundle)
    assert file_server.requests[-1][0] == "/bundles/elsewhere/model.edgeopt"


@pytest.mark.parametrize("trusted", [True, False])
def test_certificate_must_be_trusted(start_serving, make_file_server, long_bundle, tmp_path, monkeypatch, trusted):
    made = certificate.renew(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.file)
    file_server = make_file_server(packed(long_bundle), context)
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(made.file))
    agent = start_serving(fetch_from=[file_server.prefix], **RETRIES)
    done = end(agent, file_server)
    if trusted:
        assert done["state"] == "COMMITTED", done["reason"]
        agent.serves(long_bundle)
    else:
        assert (done["state"], "is not trusted" in done["reason"]) == ("FAILED", True), done["reason"]
        assert file_server.requests == []


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


@pytest.mark.parametrize(
    "arguments",
    [(), ("b", "--from", "https://h/b"), ("--from", "https://h/b"), ("--digest", "0"), ("b", "--model", "m")],
)
def test_command_takes_a_bundle_or_an_address_with_its_digest(arguments, capsys):
    assert cli.run(["deploy", *arguments]) == 2
    assert "either a bundle, or --from with --digest" in capsys.readouterr().err
