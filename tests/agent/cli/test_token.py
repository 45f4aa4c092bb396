import contextlib
import json
import os
import subprocess
import sys
from hashlib import sha256

import pytest

from edgeopt.bundle.sign import new_key
from edgeopt_agent.main import run


@pytest.fixture
def token(capsys, tmp_path):
    def ask(*arguments):
        return run(["token", *map(str, arguments), "--data-dir", str(tmp_path / "data")]), *capsys.readouterr()

    return ask


def test_a_token_is_printed_once_and_its_digest_kept(token, tmp_path):
    code, out, _ = token("add", "laptop", "--role", "deploy")
    assert code == 0
    made = next(line for line in out.splitlines() if len(line) == 64)
    code, out, _ = token("list", "--json")
    (listed,) = json.loads(out)["data"]["tokens"]
    assert (listed["name"], listed["role"]) == ("laptop", "deploy")
    stored = [file for file in (tmp_path / "data").rglob("*") if file.is_file()]
    text = "".join(file.read_text() for file in stored)
    assert sha256(made.encode()).hexdigest() in text
    assert made not in out + token("list")[1] + text
    assert all(file.stat().st_mode & 0o077 == 0 for file in [*stored, *(f.parent for f in stored)])


def test_two_tokens_differ_and_view_is_what_one_may_do_by_default(token):
    made = [json.loads(token("add", name, "--json")[1])["data"] for name in ("one", "two")]
    assert made[0]["token"] != made[1]["token"]
    assert {each["role"] for each in made} == {"view"}


def test_a_removed_token_is_gone(token):
    token("add", "laptop")
    token("add", "prometheus")
    code, out, _ = token("remove", "laptop")
    assert (code, "laptop" in out, "prometheus" in out) == (0, False, True)
    code, out, _ = token("remove", "prometheus")
    assert (code, "No tokens" in out) == (0, True)


@pytest.mark.parametrize("name", ["../trust/x", "", ".hidden", "a b", "x" * 65])
def test_a_name_that_is_no_file_name_is_refused(token, tmp_path, name):
    code, _, err = token("add", name)
    assert code == 2
    assert "cannot be the name of a token" in err
    assert not (tmp_path / "data").exists()


def test_a_taken_name_keeps_its_token(token):
    made = json.loads(token("add", "laptop", "--json")[1])["data"]
    code, _, err = token("add", "laptop", "--role", "deploy")
    assert (code, "already exists" in err, "token remove laptop" in err) == (3, True, True)
    assert json.loads(token("list", "--json")[1])["data"]["tokens"][0]["role"] == made["role"]


def test_what_cannot_be_removed_is_a_sentence(token):
    token("add", "laptop")
    code, _, err = token("remove", "desk")
    assert code == 3
    assert "no token named 'desk'" in err
    assert "laptop" in err


def test_a_damaged_token_is_listed_and_can_be_removed(token, tmp_path):
    token("add", "laptop")
    (tmp_path / "data" / "tokens" / "laptop.json").write_text('{"role": "deploy"')
    code, out, _ = token("list")
    assert (code, "unreadable" in out) == (0, True)
    assert token("remove", "laptop")[0] == 0


@pytest.mark.parametrize("command", [["token", "add", "laptop"], ["pair", "laptop"], ["renew-certificate"]])
def test_data_folder_that_cannot_be_written_is_wrong_usage(capsys, tmp_path, command):
    (tmp_path / "file").touch()
    assert run([*command, "--data-dir", str(tmp_path / "file" / "data")]) == 2
    err = capsys.readouterr().err
    assert f"The data folder '{tmp_path}/file/data' cannot be used: Not a directory." in err
    assert "--data-dir" in err


@pytest.fixture
def trust(capsys, tmp_path):
    def ask(*arguments):
        return run(["trust", *map(str, arguments), "--data-dir", str(tmp_path / "data")]), *capsys.readouterr()

    return ask


def test_the_round_of_a_key(trust, tmp_path):
    made = new_key(tmp_path / "key")
    code, out, _ = trust("list")
    assert (code, "No trusted keys" in out) == (0, True)
    code, out, _ = trust("add", tmp_path / "key.pub")
    assert code == 0
    assert made.key_id in out
    code, out, _ = trust("list", "--json")
    assert [key["id"] for key in json.loads(out)["data"]["keys"]] == [made.key_id]
    code, out, _ = trust("remove", made.key_id)
    assert (code, "No trusted keys" in out) == (0, True)


def test_what_cannot_be_done_is_a_sentence(trust, tmp_path):
    assert trust("add", tmp_path / "none")[0] == 3
    code, _, err = trust("remove", "1a2b")
    assert code == 3
    assert "No key '1a2b' is trusted" in err


@pytest.fixture
def said(capsys):
    def ask(*arguments):
        return run(["config", *map(str, arguments)]), *capsys.readouterr()

    return ask


def test_a_correct_file_is_said_to_be_so(said, tmp_path):
    file = tmp_path / "agent.toml"
    file.write_text("soak_s = 5\nport = 0\n")
    code, out, _ = said("check", file)
    assert (code, out.split()) == (0, f"{file} is correct; it sets 2 settings.".split())


def test_a_wrong_file_is_exit_code_3_with_the_line(said, tmp_path):
    file = tmp_path / "agent.toml"
    file.write_text("porto = 0\n")
    code, out, err = said("check", file)
    assert (code, out) == (3, "")
    assert "line 1: there is no setting 'porto'" in " ".join(err.split())
    assert "Did you mean 'port'?" in err


def test_what_holds_is_shown_with_its_source(said, tmp_path):
    file = tmp_path / "agent.toml"
    file.write_text("soak_s = 5\n")
    _, out, _ = said("show", file, "--json")
    settings = {each["name"]: each for each in json.loads(out)["data"]["settings"]}
    assert settings["soak_s"] == {"name": "soak_s", "value": 5.0, "source": f"{file}:1"}
    assert settings["port"]["source"] == "default"
    assert "soak_requests" in said("show", file)[1]


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
    assert f"`edgeopt-agent releases --url {url}`" in ask("deploy", bundle)[2]


def test_where_no_agent_listens_the_command_starts_one_on_that_port(capsys):
    assert run(["status", "--url", "127.0.0.1:9"]) == 5
    assert "edgeopt-agent run --port 9;" in capsys.readouterr().err


def test_keys_of_a_table_that_the_file_does_not_set_are_defaults(said, tmp_path):
    file = tmp_path / "agent.toml"
    file.write_text('keep = 5\n\n[mqtt]\n# the broker\nurl = "mqtt://127.0.0.1"\n\n[drift]\n')
    assert "it sets 3 settings." in " ".join(said("check", file)[1].split())
    answer = json.loads(said("check", file, "--json")[1])["data"]
    sources = {each["name"]: each["source"] for each in answer["settings"]}
    assert sources["mqtt.url"] == f"{file}:5"
    assert {sources[name] for name in ("mqtt.fleet", "mqtt.keepalive_s", "drift.golden_s", "port")} == {"default"}
    assert answer["set_by_file"] == ["keep", "drift", "mqtt.url"]


def test_one_setting_is_counted_as_one(said, tmp_path):
    file = tmp_path / "agent.toml"
    file.write_text("keep = 5\n")
    assert "it sets 1 setting." in " ".join(said("check", file)[1].split())
