"""Commands that edgeopt prints or documents: found in a text, and parsed as the program parses them."""

import functools
import re
import shlex
from collections.abc import Iterator

import typer
from typer.exceptions import TyperException

from edgeopt.cli.main import application
from edgeopt_agent.main import application as agent_application

_PROGRAM = r"edgeopt(?:-agent)? (?=-{1,2}[a-z]|[a-z])"
# In backticks, on a line of its own, or after a colon to the end of the sentence.
_QUOTED = re.compile(rf"`(?:[A-Z_]+=\S+ )?({_PROGRAM}[^`]*)`")
_BARE = re.compile(rf"(?:^[ ]*(?:\$ )?|: +)(?:[A-Z_]+=\S+ )?({_PROGRAM}(?:(?!: +{_PROGRAM}).)*)", re.MULTILINE)
_AFTER_IT = re.compile(r"\s{2,}.*|[.;,)]+(?=\s|$).*| \(.*| (?:\\?\||\|\||&&|>>?|#|or|to use)(?= ).*", re.DOTALL)
_TITLE = re.compile(r"[\w -]+:(?: |$)")  # of a page: "edgeopt bench: model.onnx"
_ALTERNATIVES = re.compile(r"([a-z]+)(?:\\?\|[a-z]+)+")
PLACEHOLDER = re.compile(r"(?<![\w./-])(?:[A-Z]{1,9}|[A-Z]{2,}\.(?:npz|onnx|toml|pub|json))(?![\w/.])")


def commands_in(text: str) -> Iterator[str]:
    """Without pipes, redirections and what is said after them; of alternatives in one place the first."""
    text = text.replace("\\\n", " ")
    for found in _QUOTED.findall(text):
        yield _alone(" ".join(found.split()))
    for found in _BARE.findall(re.sub(r"`[^`\n]*`", "``", text)):
        if "`" not in found and "..." not in found and not _TITLE.match(found):
            yield _alone(found)


@functools.cache
def refusal(command: str) -> str:
    """Why the program does not take this command; empty where it does. It is not run."""
    program, *arguments = shlex.split(command)
    try:
        _program(program).main([_filled(each) for each in arguments], prog_name=program, standalone_mode=False)
    except TyperException as problem:
        return problem.format_message()
    return ""


def _alone(found: str) -> str:
    return _ALTERNATIVES.sub(r"\1", _AFTER_IT.sub("", found)).strip()


def _filled(argument: str) -> str:
    """With values for placeholders that options take: a role, or what is a number, a name and a file."""
    return PLACEHOLDER.sub("7", argument.replace("ROLE", "view"))


@functools.cache
def _program(name: str) -> typer.core.TyperGroup:
    made = typer.main.get_command(application() if name == "edgeopt" else agent_application())
    _do_nothing(made)
    return made


def _do_nothing(command: typer.core.TyperCommand) -> None:
    command.callback = None
    for each in getattr(command, "commands", {}).values():
        _do_nothing(each)
