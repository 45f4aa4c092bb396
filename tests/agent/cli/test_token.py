import json
from hashlib import sha256

import pytest

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
