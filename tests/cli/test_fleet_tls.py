"""`edgeopt fleet` and `edgeopt-agent` with an agent that speaks TLS."""

import json

import pytest

from edgeopt_agent import main


@pytest.fixture
def edgeopt(edgeopt_here):
    return edgeopt_here


@pytest.fixture
def agent(start, tmp_path, monkeypatch):
    """The address and the fingerprint of an agent on the data folder that its commands look into."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    running = start(
        *("run", "--json", "--port", "0", "--data-dir", tmp_path / "state" / "edgeopt", "--log-level", "error"),
        *("--tls", "on"),
        module="edgeopt_agent.main",
    )
    url = json.loads(running.first_line_with("live"))["message"]
    return url, json.loads(running.first_line_with("certificate"))["message"]


def on_device(capfd, *arguments):
    """The data of one command of `edgeopt-agent`, which must succeed."""
    code = main.run([*arguments, "--json"])
    lines = capfd.readouterr().out.splitlines()
    assert code == 0, lines
    return json.loads(lines[-1])["data"]


def test_the_fingerprint_that_run_prints_is_what_clients_need(edgeopt, agent, capfd, monkeypatch):
    url, fingerprint = agent
    assert url.startswith("https://")
    assert on_device(capfd, "fingerprint")["fingerprint"] == fingerprint
    assert edgeopt("fleet", "status", "--url", url, "--fingerprint", fingerprint)[0] == 0
    code, out, _ = edgeopt("fleet", "status", "--url", url, "--json")
    error = json.loads(out.splitlines()[-1])
    assert (code, error["code"]) == (3, "unknown-certificate")
    assert fingerprint in error["message"]
    assert edgeopt("fleet", "watch", "--url", url, "--seconds", "1", "--fingerprint", fingerprint)[0] == 0
    monkeypatch.setenv("EDGEOPT_FINGERPRINT", fingerprint)
    assert edgeopt("fleet", "status", "--url", url)[0] == 0


def test_commands_on_the_device_know_its_certificate_also_after_a_renewal(agent, capfd):
    url, fingerprint = agent
    here = url.replace("https://", "")
    assert on_device(capfd, "status", "--url", here)["state"] == "empty"
    renewed = on_device(capfd, "renew-certificate")["fingerprint"]
    assert renewed != fingerprint
    assert on_device(capfd, "status", "--url", here)["state"] == "empty"
    assert on_device(capfd, "fingerprint")["fingerprint"] == renewed


@pytest.mark.parametrize(
    "arguments", [("--tls-cert", "c.pem"), ("--tls", "off", "--tls-cert", "c.pem", "--tls-key", "k.pem")]
)
def test_options_that_contradict_each_other_are_refused(capfd, tmp_path, arguments):
    assert main.run(["run", "--data-dir", str(tmp_path), *arguments]) == 2
    assert "must be given together" in capfd.readouterr().err


def test_a_given_certificate_that_is_none_is_told(capfd, tmp_path):
    given = tmp_path / "c.pem"
    given.write_text("no certificate")
    files = ("--tls-cert", str(given), "--tls-key", str(given))
    assert main.run(["run", "--port", "0", "--data-dir", str(tmp_path / "data"), *files]) == 3
    assert "cannot be read" in capfd.readouterr().err
