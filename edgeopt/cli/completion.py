"""Completion by the shell, for `edgeopt` and `edgeopt-agent`: `--show-completion`, and the answers to Tab."""

import os
from enum import StrEnum
from typing import Annotated

import typer


class Shell(StrEnum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


ShowCompletion = Annotated[
    Shell | None,
    typer.Option(
        "--show-completion", help="Print a shell script that completes commands and options.", is_eager=True
    ),
]


def variable(program: str) -> str:
    """The environment variable by which the script asks for completions."""
    return f"_{program.replace('-', '_').upper()}_COMPLETE"


def script(program: str, shell: Shell) -> str:
    from typer._completion_shared import get_completion_script  # private, and so bound by the version of typer

    return get_completion_script(prog_name=program, complete_var=variable(program), shell=shell.value)


def prepare(program: str) -> None:
    """Makes typer answer a shell that asks; applications without its own completion options do not."""
    if variable(program) in os.environ:
        from typer._completion_classes import completion_init

        completion_init()


def command_asked(program: str) -> str:
    """The command whose options a shell asks for; empty where it asks for commands, or does not ask."""
    if variable(program) not in os.environ:
        return ""
    words = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS", "")
    _, *rest = words.split() or [""]
    begun = rest if words[-1:].isspace() else rest[:-1]  # the last word is still being typed
    return begun[0] if begun else ""
