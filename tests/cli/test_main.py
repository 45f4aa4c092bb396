import re

import pytest

from edgeopt import events
from edgeopt.cli.commands import COMMANDS
from edgeopt.cli.main import run
from edgeopt.version import __version__


@pytest.fixture
def said(capsys, monkeypatch):
    """What a command line prints, on a terminal that is wide."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERMINAL_WIDTH", "200")

    def ask(*arguments):
        return run(list(arguments)), *capsys.readouterr()

    return ask


@pytest.mark.parametrize("option", ["--help", "-h"])
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_examples_that_fits(said, command, option):
    code, out, err = said(command, option)
    assert (code, err) == (0, "")
    assert max(len(line) for line in out.splitlines()) <= 100
    examples = out.split("Examples:\n")[1]
    assert f"  edgeopt {command}" in examples.split("\n\n", maxsplit=1)[0]
    assert "Options:" in out


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_at_most_five_examples(said, command):
    examples = said(command, "--help")[1].split("Examples:\n")[1].split("\n\n", maxsplit=1)[0]
    assert len(examples.splitlines()) <= 5


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_is_explained(said, command):
    options = said(command, "--help")[1].split("Options:\n")[1]
    for entry in re.split(r"\n  (?=-)", "\n" + options.rstrip())[1:]:
        assert len(entry.split()) >= 4, entry


@pytest.mark.parametrize("arguments", [(), ("--help",), ("-h",)])
def test_help_lists_every_command_in_the_order_of_work(said, arguments):
    code, out, err = said(*arguments)
    assert (code, err) == (0, "")
    assert max(len(line) for line in out.splitlines()) <= 100
    listed = out[out.index("Understand:\n") :]
    assert tuple(line.split()[0] for line in listed.splitlines() if re.match(r"  \S", line)) == COMMANDS
    assert re.findall(r"^(\w+):$", listed, re.MULTILINE) == [
        "Understand",
        "Optimize",
        "Measure",
        "Deploy",
        "Other",
    ]
    assert "..." not in listed
    assert "Examples:" in out


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_speaks_to_programs(said, command):
    assert "--json" in said(command, "--help")[1]


def test_the_version_comes_with_the_runtimes(said):
    code, out, err = said("--version")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == f"edgeopt {__version__}"
    assert all(re.fullmatch(r"\S+ \S+|no runtime is installed", line) for line in lines[1:])
    assert len(lines) > 1


WRONG = [
    (("dance",), "No such command 'dance'."),
    (("bench",), "Missing argument 'MODEL|BUNDLE|URL'."),
    (("probe", "--deeply"), "No such option: --deeply"),
    (("bench", "m.onnx", "--rounds", "many"), "Invalid value for '--rounds'"),
    (("bench", "m.onnx", "--rounds", "5"), "--rounds must be from 6 to 1000, not 5."),
    (("optimize", "m.onnx"), "Missing option '-o'"),
    (("bench", "\udcff.onnx"), "The argument '?.onnx' is not valid UTF-8."),
    (("run", "m.onnx", "--prompt", "\udcff"), "The argument '?' is not valid UTF-8."),
]


@pytest.mark.parametrize(("arguments", "sentence"), WRONG)
def test_wrong_usage_is_a_sentence_with_a_next_step(said, arguments, sentence):
    code, out, err = said(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("edgeopt: ")
    assert sentence in err
    assert err.splitlines()[-1].startswith("  ")


@pytest.mark.parametrize(("arguments", "sentence"), WRONG)
def test_wrong_usage_is_an_error_record_for_programs(said, arguments, sentence):
    code, out, err = said(*arguments, "--json")
    assert (code, err) == (2, "")
    error = events.decode(out)
    assert isinstance(error, events.Error)
    assert error.code == "usage"
    assert sentence in error.message
    assert error.hint


@pytest.mark.parametrize(
    ("arguments", "code", "part"), [(["--version"], 0, "edgeopt "), (["dance"], 2, "No such command 'dance'")]
)
def test_the_module_is_the_command(edgeopt, arguments, code, part):
    left, out, err = edgeopt(*arguments)
    assert left == code
    assert part in out + err
