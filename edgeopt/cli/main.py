"""The entry point `edgeopt`: the table of commands, wrong usage, `--version`."""

import importlib
import sys
from typing import Annotated

import typer
from typer.exceptions import TyperException as UsageProblem

from edgeopt import events
from edgeopt.cli.console import fail, let_go_of_stdout
from edgeopt.errors import EXIT_CANCELLED
from edgeopt.version import __version__

# In the order of work, which is the order in `--help`.
COMMANDS = ("probe", "targets", "optimize", "bench", "run", "verify", "simplify", "passes", "demo")


def main() -> None:
    """Runs the command line of this process."""
    try:
        code = run(sys.argv[1:])
    except KeyboardInterrupt:  # before or after a command's own work, which handles it itself
        code = EXIT_CANCELLED
    finally:
        let_go_of_stdout()
    raise SystemExit(code)


def run(arguments: list[str]) -> int:
    """Runs one command and returns its exit code."""
    unreadable = next((a for a in arguments if not _is_text(a)), None)
    if unreadable is not None:
        fail(_not_text(unreadable), json="--json" in arguments)
        return 2
    command = typer.main.get_command(_application())
    try:
        code = command.main(args=arguments or ["--help"], prog_name="edgeopt", standalone_mode=False)
    except UsageProblem as problem:
        fail(_usage_error(problem), json="--json" in arguments)
        return 2
    return code if isinstance(code, int) else 0


def _application() -> typer.Typer:
    # Without rich mark-up: it alone would cost `edgeopt --help` 125 ms.
    application = typer.Typer(
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        # For `--version`, which is asked of no command.
        invoke_without_command=True,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    application.callback()(_edgeopt)
    for name in COMMANDS:
        function = getattr(importlib.import_module(f"edgeopt.cli.{name}"), name)
        # Given by itself, or the list of commands would show only its first 45 letters.
        summary = (function.__doc__ or "").strip().splitlines()[0]
        application.command(name, short_help=summary)(function)
    return application


def _edgeopt(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and the runtimes found.", is_eager=True)
    ] = False,
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


def _runtime_lines() -> list[str]:
    from edgeopt.hw.host import LocalHost
    from edgeopt.hw.probes.runtimes import installed_versions

    found = installed_versions(LocalHost())
    return [f"{name} {version}" for name, version in found] or ["no runtime is installed"]


def _is_text(argument: str) -> bool:
    """Not so for a file name with bytes that are no UTF-8: JSON and the models' own formats cannot hold it."""
    try:
        argument.encode()
    except UnicodeEncodeError:
        return False
    return True


def _not_text(argument: str) -> events.Error:
    shown = argument.encode(errors="replace").decode()
    return events.Error("usage", f"The name '{shown}' is not valid UTF-8.", "Rename the file first.")


def _usage_error(problem: UsageProblem) -> events.Error:
    return events.Error("usage", problem.format_message(), "See: edgeopt --help, or edgeopt COMMAND --help")
