"""The agent's own commands to an agent; what they do is tested with the client, in tests/fleet."""

import contextlib
import json
import os
import subprocess
import sys

import pytest

from edgeopt_agent.main import run


@pytest.fixture
def url(tmp_path):
    command = [sys.executable, "-m", "edgeopt_agent.main", "run", "--json", "--port", "0", "--log-level", "error"]
    settings = ["--data-dir", str(tmp_path / "data"), "--soak-seconds", "0", "--soak-requests", "0"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    process = subprocess.Popen([*command, *settings], env=environment, stdout=subprocess.PIPE, text=True)
    with process, contextlib.ExitStack() as stack:
        stack.callback(process.kill)
        yield json.loads(process.stdout.readline())["message"]


@pytest.fixture
def ask(capsys, url):
    def asked(*arguments):
        code = run([*map(str, arguments), "--url", url])
        return code, *capsys.readouterr()

    return asked


def test_deploy_status_releases_rollback(ask, conv_bundle, bundle, change_deployment):
    code, out, _ = ask("deploy", conv_bundle)
    assert code == 0
    assert out.startswith("Deployment 1 of conv")
    change_deployment(bundle, device={"cpu": "0" * 16, "host": "0" * 16})
    code, out, err = ask("deploy", bundle)
    assert (code, out) == (6, "")
    assert "edgeopt: Deployment 2" in err
    assert "another device" in err or "--force" in err
    code, out, _ = ask("deploy", bundle, "--force", "--json")
    assert code == 0
    assert json.loads(out.splitlines()[-1])["data"]["state"] == "COMMITTED"
    code, out, _ = ask("releases", "--json")
    assert [r["state"] for r in json.loads(out)["data"]["releases"]] == ["serving", "previous"]
    code, out, _ = ask("rollback")
    assert (code, out.startswith("Rollback 4 of conv")) == (0, True)
    code, out, _ = ask("status")
    assert (code, "Serving: conv" in out) == (0, True)


def test_releases_are_listed_under_headings_that_say_what_is_below(ask, conv_bundle):
    ask("deploy", conv_bundle)
    heading, row = ask("releases")[1].splitlines()
    column = heading.index("summary, or reason")
    summary = json.loads(ask("releases", "--json")[1])["data"]["releases"][0]["summary"]
    assert summary
    assert row[column:].strip() == summary


def test_without_waiting_it_returns_once_the_agent_has_it(ask, conv_bundle):
    code, out, err = ask("deploy", conv_bundle, "--no-wait", "--json")
    assert (code, err) == (0, "")
    last = json.loads(out.splitlines()[-1])
    assert (last["kind"], last["data"]["id"]) == ("deploy", 1)
    assert "committed" not in out


def test_unknown_model_or_release_is_bad_input(ask):
    for command in (("status", "--model", "other"), ("gc", "--model", "other"), ("remove", "other")):
        assert ask(*command)[0] == 3
    assert ask("rollback", "--to", "0123456789ab")[0] == 3
    assert ask("rollback")[0] == 4  # there is none, whatever is named


def test_nobody_there(capsys):
    assert run(["status", "--url", "127.0.0.1:1"]) == 5
    assert "No agent listens" in capsys.readouterr().err


def test_printed_commands_reach_the_agent_that_was_asked(ask, url, bundle, change_deployment):
    for command in ("status", "releases"):
        assert f"edgeopt-agent deploy BUNDLE --url {url}" in ask(command)[1]
    assert f"edgeopt-agent deploy BUNDLE --url {url}" in ask("rollback")[2]
    change_deployment(bundle, device={"cpu": "0" * 16, "host": "0" * 16})
    assert f"`edgeopt fleet releases --url {url}`" in ask("deploy", bundle)[2]


def test_where_no_agent_listens_the_command_starts_one_on_that_port(capsys):
    assert run(["status", "--url", "127.0.0.1:9"]) == 5
    assert "edgeopt-agent run --port 9;" in capsys.readouterr().err
