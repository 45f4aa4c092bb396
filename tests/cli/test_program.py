import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from edgeopt.cli.commands import COMMANDS
from edgeopt_agent.main import COMMANDS as AGENT_COMMANDS

ROOT = Path(__file__).parents[2]
PROGRAMS = {"edgeopt": "edgeopt", "edgeopt-agent": "edgeopt_agent"}

# Each presses Tab at the end of the line in $LINE and prints what the shell would offer.
PRESS_TAB = {
    "bash": """
        eval "$($PROGRAM --show-completion bash)"
        read -ra COMP_WORDS <<< "$LINE"
        case "$LINE" in *' ') COMP_WORDS+=('');; esac
        COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 ))
        function=$(complete -p "$PROGRAM" | sed 's/.*-F \\([^ ]*\\) .*/\\1/')
        "$function" "$PROGRAM"
        printf '%s\\n' "${COMPREPLY[@]}"
    """,
    "zsh": """
        compdef() { :; }
        _files() { :; }
        _arguments() { print -r -- "$*"; }
        eval "$($PROGRAM --show-completion zsh)"
        words=(${(s: :)LINE})
        [[ $LINE == *' ' ]] && words+=('')
        CURRENT=${#words}
        "_${PROGRAM//-/_}_completion"
    """,
    "fish": """
        $PROGRAM --show-completion fish | source
        complete --do-complete "$LINE"
    """,
}


@pytest.fixture
def offered(tmp_path):
    """What a shell offers after Tab, with both programs on its PATH."""
    for program, module in PROGRAMS.items():
        path = tmp_path / program
        path.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m {module} "$@"\n')
        path.chmod(0o755)

    def press(shell, line):
        if shutil.which(shell) is None:
            pytest.skip(f"{shell} is not installed")
        environment = {
            "PATH": os.pathsep.join((str(tmp_path), os.environ["PATH"])),
            "PYTHONPATH": os.pathsep.join(str(ROOT / part) for part in ("", "agent")),
            "HOME": str(tmp_path),
            "PROGRAM": line.partition(" ")[0],
            "LINE": line,
        }
        done = subprocess.run(
            [shell, "-c", PRESS_TAB[shell]],
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    return press


@pytest.mark.parametrize("shell", PRESS_TAB)
@pytest.mark.parametrize(("program", "commands"), [("edgeopt", COMMANDS), ("edgeopt-agent", dict(AGENT_COMMANDS))])
def test_tab_after_a_program_offers_its_commands(offered, shell, program, commands):
    said = offered(shell, f"{program} ")
    assert [command for command in commands if command not in said] == []


@pytest.mark.parametrize("shell", PRESS_TAB)
@pytest.mark.parametrize(
    ("line", "option", "other"),
    [
        ("edgeopt bench model.onnx --max-", "--max-slowdown", "--min-speedup"),
        ("edgeopt-agent deploy --fo", "--force", "--rename"),
    ],
)
def test_tab_in_an_option_offers_those_that_begin_so(offered, shell, line, option, other):
    said = offered(shell, line)
    assert option in said
    assert other not in said


@pytest.mark.parametrize("program", PROGRAMS)
def test_an_unknown_shell_is_wrong_usage_that_names_the_known_ones(program):
    done = subprocess.run(
        [sys.executable, "-m", PROGRAMS[program], "--show-completion", "tcsh"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert all(shell in done.stderr for shell in PRESS_TAB)
