import os
import re
import subprocess
import sys

import pytest

from edgeopt.version import __version__
from edgeopt_agent.main import COMMANDS, run

NAMES = tuple(name for name, _ in COMMANDS)


@pytest.fixture
def said(capsys):
    def ask(*arguments):
        return run(list(arguments)), *capsys.readouterr()

    return ask


@pytest.mark.parametrize("arguments", [(), ("--help",), ("-h",)])
def test_help_lists_every_command_in_the_order_of_work(said, arguments):
    code, out, err = said(*arguments)
    assert (code, err) == (0, "")
    listed = out.split("Commands:\n")[1]
    assert tuple(line.split()[0] for line in listed.splitlines() if re.match(r"  \S", line)) == NAMES
    assert "Examples:" in out


@pytest.mark.parametrize(
    "command", [*((n,) for n in NAMES), ("trust", "add"), ("trust", "list"), ("trust", "remove")]
)
def test_every_command_has_help_with_examples_and_speaks_to_programs(said, command):
    code, out, err = said(*command, "--help")
    assert (code, err) == (0, "")
    assert f"  edgeopt-agent {' '.join(command)}" in out.split("Examples:\n")[1].split("\n\n")[0]
    assert "--json" in out
    assert max(len(line) for line in out.splitlines()) <= 100


def test_the_version(said):
    assert said("--version") == (0, f"edgeopt-agent {__version__}\n", "")


@pytest.mark.parametrize(
    ("arguments", "sentence", "command"),
    [
        (("dance",), "No such command 'dance'.", ""),
        (("run", "--port", "70000"), "Invalid value for '--port'", "run "),
        (("run", "--soak-seconds", "inf"), "Invalid value for '--soak-seconds'", "run "),
        (("run", "--log-level", "shout"), "Invalid value for '--log-level'", "run "),
        (("deploy",), "Missing argument", "deploy "),
        (("trust", "add"), "Missing argument", "trust add "),
    ],
)
def test_wrong_usage_is_a_sentence_with_a_next_step(said, arguments, sentence, command):
    code, out, err = said(*arguments)
    assert (code, out) == (2, "")
    assert sentence in err
    assert err.splitlines()[-1].startswith(f"  See: edgeopt-agent {command}--help")


def test_starting_the_program_loads_no_runtime_and_no_numbers():
    """The agent is to be small: what is imported before it serves stays for ever."""
    program = (
        "import sys, edgeopt_agent.main, edgeopt_agent.service; "
        "print([m for m in ('numpy', 'onnx', 'onnxruntime', 'openvino', 'rich', 'psutil') if m in sys.modules])"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


def test_help_says_that_several_models_can_be_served(capsys):
    assert run(["--help"]) == 0
    help_text = " ".join(capsys.readouterr().out.split())
    for said in ("One agent serves several models", "deploy --add", "--model NAME", "remove NAME"):
        assert said in help_text
