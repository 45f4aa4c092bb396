"""Writes edgeopt(1) and edgeopt-agent(1) from the programs' own parsers: make_man.py FOLDER [PROGRAM ...]."""

import importlib
import os
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import typer
from typer._click.core import Command, Context
from typer.core import TyperGroup

from edgeopt.cli import program
from edgeopt.version import __version__

PROGRAMS = {"edgeopt": "edgeopt.cli.main", "edgeopt-agent": "edgeopt_agent.main"}

# edgeopt/errors.py has the errors with these codes.
EXIT_STATUS = (
    ("0", "Success."),
    ("1", "An error in the program itself, or a crash of a measured process."),
    ("2", "Wrong usage."),
    ("3", "A file cannot be used, or the agent refuses the request."),
    ("4", "A requirement cannot be met, such as a limit."),
    ("5", "A runtime, a device or an optional dependency is missing."),
    ("6", "A check failed: the result is not accurate, fast or recent enough, or was refused."),
    ("130, 143", "Ended by Ctrl-C or SIGTERM."),
)
FILES = {
    "edgeopt": (
        ("~/.cache/edgeopt", "The search cache; EDGEOPT_CACHE sets another folder."),
        ("~/.config/edgeopt/agents.json", "Tokens and fingerprints of paired agents."),
    ),
    "edgeopt-agent": (
        ("/etc/edgeopt/agent.toml", "The configuration of an agent that systemd starts."),
        ("~/.config/edgeopt/agent.toml", "The configuration of any other agent."),
        ("/var/lib/edgeopt", "The data folder of an agent that systemd starts."),
        ("~/.local/state/edgeopt", "The data folder of any other agent."),
    ),
}


def main(arguments: list[str]) -> int:
    """Writes one page for each program and says where."""
    if not arguments or not set(arguments[1:]) <= set(PROGRAMS):
        sys.stderr.write(f"usage: make_man.py FOLDER [{' | '.join(PROGRAMS)}]\n")
        return 2
    folder = Path(arguments[0])
    folder.mkdir(parents=True, exist_ok=True)
    for name in arguments[1:] or PROGRAMS:
        file = folder / f"{name}.1"
        file.write_text(page(name), encoding="utf-8")
        print(file)
    return 0


def page(name: str) -> str:
    """The page of a program, in the man macros."""
    module = importlib.import_module(PROGRAMS[name])
    command = typer.main.get_command(module.application())
    if not isinstance(command, TyperGroup):
        raise TypeError(f"{name} has no commands")
    program.order_commands(command, [each if isinstance(each, str) else each[0] for each in module.COMMANDS])
    context = command.make_context(name, [], resilient_parsing=True)
    day = time.strftime("%Y-%m-%d", time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH") or time.time())))
    others = [other for other in PROGRAMS if other != name]
    lines = [
        f'.TH "{name.upper()}" "1" "{day}" "edgeopt {__version__}" "edgeopt"',
        *(".SH NAME", f"{_text(name)} \\- {_text(_summary(command))}"),
        *(".SH SYNOPSIS", *_usage(context, name)),
        *(".SH DESCRIPTION", *_described(command)),
        *(".SH OPTIONS", *_parameters(context)),
        ".SH COMMANDS",
        *_commands(command, context, name),
        *(".SH EXIT STATUS", *_tagged(EXIT_STATUS)),
        *(".SH FILES", *_tagged(FILES[name])),
        *(".SH SEE ALSO", *(f".BR {_text(other)} (1)" for other in others)),
    ]
    return "\n".join(lines) + "\n"


def _commands(group: TyperGroup, context: Context, path: str) -> Iterator[str]:
    """A subsection for each command, those of commands too."""
    for name, command in group.commands.items():
        own = command.make_context(name, [], parent=context, resilient_parsing=True)
        yield f'.SS "{_text(f"{path} {name}")}"'
        yield from _usage(own, f"{path} {name}")
        yield ".PP"
        yield from _described(command)
        yield from _parameters(own)
        if isinstance(command, TyperGroup):
            yield from _commands(command, own, f"{path} {name}")


def _usage(context: Context, path: str) -> list[str]:
    return [f".B {_text(path)}", _text(" ".join(context.command.collect_usage_pieces(context)))]


def _described(command: Command) -> Iterator[str]:
    """The text of the help; a paragraph that begins with a backspace keeps its lines."""
    for number, paragraph in enumerate(re.split(r"\n\s*\n", (command.help or "").strip())):
        if number:
            yield ".PP"
        if paragraph.startswith("\b"):
            yield ".nf"
            yield from (_text(line) for line in paragraph.splitlines()[1:])
            yield ".fi"
        else:
            yield _text(" ".join(paragraph.split()))


def _parameters(context: Context) -> list[str]:
    records = [parameter.get_help_record(context) for parameter in context.command.get_params(context)]
    return _tagged(tuple(record for record in records if record is not None))


def _tagged(rows: tuple[tuple[str, str], ...]) -> list[str]:
    return [line for tag, text in rows for line in (".TP", f'.B "{_text(tag)}"', _text(text) or "\\&")]


def _summary(command: TyperGroup) -> str:
    return (command.help or "").strip().splitlines()[0].rstrip(".")


def _text(text: str) -> str:
    """Text as troff shows it unchanged: no requests, and minus signs that can be copied."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace('"', "\\(dq").replace("`", "\\(ga")
    escaped = escaped.replace("~", "\\(ti").replace("^", "\\(ha").replace("'", "\\(aq")
    return f"\\&{escaped}" if escaped.startswith(".") else escaped


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
