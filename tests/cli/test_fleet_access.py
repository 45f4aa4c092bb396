"""`edgeopt fleet` with an agent that asks for tokens."""

import json

import pytest

from edgeopt_agent import tokens


@pytest.fixture
def edgeopt(edgeopt_here):
    return edgeopt_here


@pytest.fixture
def made(tmp_path):
    return {role: tokens.add(tmp_path / "agent", role, role).token for role in tokens.ROLES}


@pytest.fixture
def url(start, tmp_path, made):
    assert made
    agent = start(
        *("run", "--json", "--port", "0", "--data-dir", tmp_path / "agent", "--log-level", "error"),
        *("--soak-seconds", "0", "--soak-requests", "0"),
        module="edgeopt_agent.main",
    )
    return json.loads(agent.first_line_with("live"))["message"]


COMMANDS = (
    ("status",),
    ("releases",),
    ("rollback",),
    ("cancel",),
    ("watch", "--seconds", "1"),
    ("watch", "--send", "1", "--seconds", "1"),
)


def refusal(answer):
    code, out, err = answer
    assert err == ""
    return code, json.loads(out.splitlines()[-1])


def test_every_command_says_when_its_token_is_wrong_or_missing(edgeopt, url, conv_bundle):
    for command in (*COMMANDS, ("deploy", conv_bundle)):
        code, error = refusal(edgeopt("fleet", *command, "--url", url, "--json"))
        assert (code, error["code"]) == (3, "no-token"), command
        assert "EDGEOPT_TOKEN" in error["hint"]
    # Fewer than an address may get wrong before it has to wait.
    for command in (*COMMANDS, ("deploy", conv_bundle)):
        code, error = refusal(edgeopt("fleet", *command, "--url", url, "--token", "wrong", "--json"))
        assert (code, error["code"]) == (3, "wrong-token"), command
        assert "unknown to this agent" in error["message"]


def test_too_low_a_role_is_exit_code_3(edgeopt, url, made):
    code, error = refusal(edgeopt("fleet", "rollback", "--url", url, "--token", made["infer"], "--json"))
    assert (code, error["code"]) == (3, "wrong-role")
    assert "needs the role 'deploy'" in error["message"]


def test_with_its_token_every_command_works(edgeopt, url, made, conv_bundle, monkeypatch):
    monkeypatch.setenv("EDGEOPT_TOKEN", made["view"])
    assert edgeopt("fleet", "status", "--url", url)[0] == 0
    code, out, err = edgeopt("fleet", "deploy", conv_bundle, "--url", url, "--token", made["deploy"])
    assert code == 0, err
    assert made["deploy"] not in out + err
    assert edgeopt("fleet", "releases", "--url", url)[0] == 0
    code, out, _ = edgeopt("fleet", "rollback", "--url", url, "--token", made["deploy"])
    assert code == 4, "there is nothing to go back to"
    assert edgeopt("fleet", "cancel", "--url", url, "--token", made["deploy"])[0] == 4
    asked = ("fleet", "watch", "--url", url, "--send", "20", "--seconds", "0.7", "--json")
    code, out, _ = edgeopt(*asked, "--token", made["infer"])
    sent = json.loads(out.splitlines()[-1])["data"]["sent"]
    assert (code, sent["failures"]) == (0, 0)
    assert sent["requests"] > 0
    code, out, _ = edgeopt(*asked)
    sent = json.loads(out.splitlines()[-1])["data"]["sent"]
    assert (code, sent["failures"]) == (0, sent["requests"])
    assert "needs the role 'infer'" in sent["first_failure"]
