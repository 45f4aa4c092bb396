"""`--help` of every command."""

import pytest
from typer.main import get_command

from edgeopt.cli.commands import COMMANDS
from edgeopt.cli.main import application, run
from tests.golden.texts import FOLDER, check_text


@pytest.fixture
def help_of(monkeypatch, capfd):
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TERM", "dumb")

    def printed(*command):
        capfd.readouterr()
        assert run([*command, "--help"]) == 0
        return capfd.readouterr().out

    return printed


def all_words(name, command):
    """The command, and those below it: a group has some, as `edgeopt fleet`."""
    below = getattr(command, "commands", {})
    return [(name,), *((name, *more) for n, each in below.items() for more in all_words(n, each))]


@pytest.mark.parametrize("name", COMMANDS)
def test_help_is_unchanged(help_of, name):
    command = get_command(application([name])).commands[name]
    check_text(f"help/{name}.txt", "\n".join(help_of(*words) for words in all_words(name, command)))


def test_help_of_the_program_is_unchanged(help_of):
    check_text("help/edgeopt.txt", help_of())


def test_every_golden_file_has_a_command():
    assert {file.stem for file in (FOLDER / "help").iterdir()} == {*COMMANDS, "edgeopt"}
