"""The entry point `edgeopt`: its commands, and `--version`."""

import functools
import importlib
from collections.abc import Sequence
from keyword import iskeyword
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from edgeopt.cli import program
from edgeopt.cli.commands import COMMANDS, GROUPS
from edgeopt.version import __version__


def main() -> None:
    """Runs the command line of this process."""
    program.leave(run)


def run(arguments: list[str]) -> int:
    """Runs one command and returns its exit code."""
    # Putting all of them together takes 0.1 s, so the one that is named comes alone; help and mistakes need all.
    named = arguments[0] if arguments else program.completed_command("edgeopt")
    names = (named,) if named in COMMANDS else COMMANDS
    return program.run("edgeopt", lambda: _application(names), arguments, names)


def application(names: Sequence[str] = COMMANDS) -> typer.Typer:
    """The program with the commands that are named."""
    made = program.application(_edgeopt)
    made.info.cls = _GroupedCommands
    for name in names:
        function = name.replace("-", "_") + "_" * iskeyword(name)
        program.add(made, name, getattr(importlib.import_module(f"edgeopt.cli.{function}"), function))
    return made


_application = functools.cache(application)


class _GroupedCommands(TyperGroup):
    """Lists the commands by group in the help, as typer does with rich mark-up only."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401, ARG002 - the signature of typer's own
        width = max(map(len, self.commands))
        for title, names in GROUPS:
            # Padded, so that the summaries of all groups are in one column.
            rows = [(n.ljust(width), self.commands[n].get_short_help_str()) for n in names if n in self.commands]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


def _edgeopt(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and the installed runtimes.", is_eager=True)
    ] = False,
    show_completion: program.ShowCompletion = None,
) -> None:
    """Measure and optimize ONNX models on edge devices.

    \b
    Examples:
      edgeopt probe                                                 describe this device
      edgeopt optimize model.onnx --data data.npz -o model.edgeopt
      edgeopt bench model.edgeopt --against model.onnx              measure the speed-up
      edgeopt demo                                                  try everything in a minute
    """
    if version:
        print(f"edgeopt {__version__}")
        for line in _runtime_lines():
            print(line)
        raise typer.Exit
    if show_completion is not None:
        print(program.script("edgeopt", show_completion))
        raise typer.Exit


def _runtime_lines() -> list[str]:
    from edgeopt.hw.host import LocalHost
    from edgeopt.hw.probes.runtimes import installed_versions

    found = installed_versions(LocalHost())
    return [f"{name} {version}" for name, version in found] or ["no runtime is installed"]
