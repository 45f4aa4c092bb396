import json

import pytest

from edgeopt_agent.main import run


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
