"""The entry point `edgeopt`: the table of commands, and `--version`."""

import importlib
from collections.abc import Sequence
from typing import Annotated

import typer

from edgeopt.cli import completion, program
from edgeopt.version import __version__

# In the order of work, which is the order in `--help`.
COMMANDS = (
    "probe",
    "targets",
    "backends",
    "analyze",
    "graph",
    "optimize",
    "quantize",
    "compare-calibrations",
    "bench",
    "ops",
    "watch",
    "report",
    "cost",
    "run",
    "sign",
    "verify",
    "replay",
    "profile",
    "export",
    "simplify",
    "compare",
    "passes",
    "cache",
    "demo",
    "fleet",
)


def main() -> None:
    """Runs the command line of this process."""
    program.leave(run)


def run(arguments: list[str]) -> int:
    """Runs one command and returns its exit code."""
    # Putting all of them together takes 0.1 s, so the one that is named comes alone; help and mistakes need all.
    named = arguments[0] if arguments else completion.command_asked("edgeopt")
    wanted = (named,) if named in COMMANDS else COMMANDS
    return program.run("edgeopt", lambda: application(wanted), arguments, wanted)


def application(names: Sequence[str] = COMMANDS) -> typer.Typer:
    """The program with the commands that are named."""
    made = program.application(_edgeopt)
    for name in names:
        function = name.replace("-", "_")
        program.add(made, name, getattr(importlib.import_module(f"edgeopt.cli.{function}"), function))
    return made


def _edgeopt(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and the runtimes found.", is_eager=True)
    ] = False,
    show_completion: completion.ShowCompletion = None,
) -> None:
    """Finds the fastest deployment of an ONNX model on this device that can be proved good.

    \b
    Examples:
      edgeopt probe                                             what this device is
      edgeopt optimize model.onnx --data data.npz -o out.edgeopt
      edgeopt bench out.edgeopt --against model.onnx            how much faster, with an interval
      edgeopt demo                                              the whole story in a minute
    """
    if version:
        print(f"edgeopt {__version__}")
        for line in _runtime_lines():
            print(line)
        raise typer.Exit
    if show_completion is not None:
        print(completion.script("edgeopt", show_completion))
        raise typer.Exit


def _runtime_lines() -> list[str]:
    from edgeopt.hw.host import LocalHost
    from edgeopt.hw.probes.runtimes import installed_versions

    found = installed_versions(LocalHost())
    return [f"{name} {version}" for name, version in found] or ["no runtime is installed"]
