"""Shared parts of the programs `edgeopt` and `edgeopt-agent`: assembly of commands, usage errors, exit."""

import io
import os
import signal
import sys
from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated

import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException as UsageProblem

from edgeopt import events
from edgeopt.cli import signals
from edgeopt.cli.console import NOTHING, fail, let_go_of_stdout, stopped
from edgeopt.cli.progress import standard_output
from edgeopt.errors import EXIT_CANCELLED, DiskFullError, UsageError, writing_to
from edgeopt.platform.signals import NUMBERS

if TYPE_CHECKING:
    from typer._click.core import Command


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


def completed_command(program: str) -> str:
    """Returns the command whose options a shell completes; empty if it completes commands, or nothing."""
    if variable(program) not in os.environ:
        return ""
    words = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS", "")
    _, *rest = words.split() or [""]
    begun = rest if words[-1:].isspace() else rest[:-1]  # the last word is still being typed
    return begun[0] if begun else ""


def leave(run: Callable[[list[str]], int]) -> None:
    """Runs the command line of this process and ends it with the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal of ASCII gets "?" for what it cannot show
    with signals.handle_signals() as handler:
        try:
            code = run(sys.argv[1:])
        except KeyboardInterrupt as stop:  # on the way into or out of `run`, which handles it itself
            code = _report_stopped(stop, handler, sys.argv)
        finally:
            handler.finish()
            let_go_of_stdout()
            # The code is known: one more signal while Python tidies up would replace it by its own.
            for number in NUMBERS:
                signal.signal(number, signal.SIG_IGN)
    raise SystemExit(code)


def run(name: str, build: Callable[[], typer.Typer], arguments: list[str], order: Sequence[str] = ()) -> int:
    """Runs one command and returns its exit code; wrong usage is said as an error with a next step.

    `order` is that of the commands in the help: typer itself puts those with commands of their own last.
    """
    with signals.handle_signals() as handler:
        unreadable = next((a for a in arguments if not _is_text(a)), None)
        if unreadable is not None:
            return _misused(_not_text(unreadable), handler, arguments)
        code = _run(name, build, arguments, order, handler)
        if handler.raised is not None and not handler.finished:
            # Before the command began, or after its end: typer makes an exit code of it, and nothing was reported.
            code = _report_stopped(handler.raised, handler, arguments)
    return code


def _report_stopped(stop: KeyboardInterrupt, handler: signals.SignalHandler, arguments: Sequence[str]) -> int:
    """Reports that a signal ended the command, unless its last record is written, and returns the exit code."""
    error, code = stopped(stop, NOTHING)
    if not handler.finished:
        handler.finish()
        fail(error, json="--json" in arguments)
    return code


def _misused(error: events.Error, handler: signals.SignalHandler, arguments: Sequence[str]) -> int:
    """Reports wrong usage as the last record, and returns its exit code."""
    handler.finish()
    fail(error, json="--json" in arguments)
    return UsageError.exit_code


def _run(
    name: str,
    build: Callable[[], typer.Typer],
    arguments: list[str],
    order: Sequence[str],
    handler: signals.SignalHandler,
) -> int:
    prepare(name)
    try:
        command = _command(build(), tuple(order))
        with writing_to(standard_output()):  # of the help, which no command prints
            code = command.main(args=arguments or ["--help"], prog_name=name, standalone_mode=False)
    except UsageProblem as problem:
        return _misused(
            events.Error("usage", problem.format_message(), _help_on(problem, name)), handler, arguments
        )
    except DiskFullError as error:
        handler.finish()
        fail(events.Error(error.code, error.message, error.hint), json=False)
        return error.exit_code
    except UsageError as error:  # a request that was not made, because a value is outside of its range
        failure = events.Error(error.code, error.message, error.hint, named=error.named)
        return _misused(failure, handler, arguments)
    except KeyboardInterrupt:
        return EXIT_CANCELLED
    return code if isinstance(code, int) else 0


@lru_cache(maxsize=64)
def _command(application: typer.Typer, order: tuple[str, ...]) -> "Command":
    """Made once for an application, because a Python program may run many commands."""
    command = typer.main.get_command(application)
    if order and isinstance(command, TyperGroup):
        order_commands(command, order)
    return command


def _help_on(problem: UsageProblem, name: str) -> str:
    """A hint at the help of the command with the problem, or of the program where no command is known."""
    context = getattr(problem, "ctx", None)
    if context is not None and context.parent is not None:
        return f"See: {context.command_path} --help"
    return f"See: {name} --help, or {name} COMMAND --help"


def order_commands(group: TyperGroup, order: Sequence[str]) -> None:
    """Puts commands into this order in the help."""
    group.commands = {each: group.commands[each] for each in sorted(group.commands, key=order.index)}


def application(callback: Callable[..., None], *commands: Callable[..., None]) -> typer.Typer:
    """A program, or a command with commands of its own: functions, in the order of `--help`."""
    # Without rich mark-up: it alone would cost `edgeopt --help` 125 ms.
    made = typer.Typer(
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        # For `--version`, which is asked of no command, and for help without being asked.
        invoke_without_command=True,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    made.callback()(callback)
    for command in commands:
        add(made, command.__name__.removesuffix("_"), command)
    return made


def add(to: typer.Typer, name: str, command: "Callable[..., None] | typer.Typer") -> None:
    """Adds a command: a function, or an application with commands of its own."""
    if isinstance(command, typer.Typer):
        described = command.registered_callback
        to.add_typer(command, name=name, short_help=_summary(described and described.callback))
    else:
        # Given by itself, or the list of commands would show only its first 45 letters.
        to.command(name, short_help=_summary(command))(command)


def help_without_command(context: typer.Context) -> None:
    """Prints the help of a command group that is called without a command."""
    if context.invoked_subcommand is None:
        print(context.get_help())


def _summary(function: object) -> str:
    return (function.__doc__ or "").strip().splitlines()[0]


def _is_text(argument: str) -> bool:
    """Not so for a file name with bytes that are no UTF-8: JSON and the models' own formats cannot hold it."""
    try:
        argument.encode()
    except UnicodeEncodeError:
        return False
    return True


def _not_text(argument: str) -> events.Error:
    shown = argument.encode(errors="replace").decode()
    return events.Error(
        "usage", f"The argument '{shown}' is not valid UTF-8.", "Rename the file, or give the text in UTF-8."
    )
