"""What every command shares: events as JSON lines or for people, errors as sentences, exit codes, signals."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Annotated, TypeVar

import msgspec
import typer

from edgeopt import events
from edgeopt.cli import signals
from edgeopt.cli.progress import JsonLines, People, all_as_called
from edgeopt.cli.whole_lines import standard_output
from edgeopt.errors import (
    EXIT_BUG,
    EXIT_CANCELLED,
    EXIT_TERMINATED,
    EXIT_UNREAD,
    DiskFullError,
    EdgeoptError,
    Terminated,
    UsageError,
    disk_full,
    is_disk_full,
    writing_to,
)

if TYPE_CHECKING:
    from rich.console import Console

    from edgeopt.commands.documents.blocks import Block


MarkdownFlag = Annotated[bool, typer.Option("--markdown", help="Print Markdown, for example for a job summary.")]


def machine_line(machine: Mapping[str, str], versions: Mapping[str, str] | None = None) -> str:
    """The device, and what was installed on it, as one line; empty where nothing is known of it."""
    parts = ", ".join((*machine.values(), *(f"{name} {version}" for name, version in (versions or {}).items())))
    return f"Machine: {parts}." if parts else ""


def refuse_two_voices(json: bool, markdown: bool) -> None:
    """Raises UsageError: a page and records cannot both go to stdout."""
    if json and markdown:
        raise UsageError("--json and --markdown exclude each other.", "Give one of them.")


@contextmanager
def failure_as_page(title: str, wanted: bool) -> Iterator[None]:
    """A job summary also says why there is nothing to sum up; wrong usage is for who wrote the command."""
    try:
        yield
    except UsageError:
        raise
    except EdgeoptError as error:
        if wanted:
            from edgeopt.commands.documents.blocks import lines
            from edgeopt.commands.documents.markdown import page

            print(
                page(title, lines([f"Failed: {error.message}"], "strong") + lines([error.hint]), level=2), end=""
            )
        raise


JsonFlag = Annotated[
    bool,
    typer.Option("--json", help="Print JSON, one record per line."),
]

NOTHING = "nothing was changed"
Outcome = TypeVar("Outcome", bound=msgspec.Struct)
Show = Callable[[Outcome], "Sequence[Block] | str"]
"""What people see of an outcome: blocks for a terminal, or a page that is written already."""


def execute(
    kind: str,
    work: Callable[[events.Emit], Outcome],
    show: "Show[Outcome]",
    json: bool = False,
    left_behind: str = NOTHING,
    interrupt: Callable[[], bool] | None = None,
) -> None:
    """Does a command's work, reports its progress, and exits with the right code.

    `left_behind` says how things stand after it was cancelled. `interrupt` is asked at the first Ctrl-C: whether
    the work ends by itself now, with something to show; the second one ends it at once.
    """
    voice = JsonLines() if json else People()
    with signals.heard() as heard:
        heard.interrupt = interrupt
        code = _code(kind, work, show, voice, left_behind, heard)
    if code:
        raise typer.Exit(code)


def _code(
    kind: str,
    work: Callable[[events.Emit], Outcome],
    show: "Show[Outcome]",
    voice: JsonLines | People,
    left_behind: str,
    heard: signals.Signals,
) -> int:
    """Does all of it; the outcome is one last record, and no signal can add another."""
    try:
        try:
            outcome = work(voice.tell)
            left_behind = "the work itself was done"
            voice.close()
            if isinstance(voice, JsonLines):
                result = events.Result(kind, msgspec.to_builtins(outcome))
                return _say(voice, result, 0, heard)
            from rich.console import Console

            # A pipe has no width of its own: wide enough there that no sentence is cut or folded oddly.
            with writing_to(standard_output()):
                told(show, outcome, Console(width=None if sys.stdout.isatty() else 140, highlight=False))
                sys.stdout.flush()
            heard.finish()
            return 0
        except (BrokenPipeError, SystemExit):  # the reader (`| head`) went away before the end; so rich says it
            heard.finish()
            return EXIT_UNREAD
        except Exception as error:  # noqa: BLE001 - the process's edge: a bug becomes a report, not a traceback
            return _say(voice, *_failure(error), heard)
    except KeyboardInterrupt as stop:
        return _say(voice, *stopped(stop, left_behind), heard)


def told(show: "Show[Outcome]", outcome: Outcome, console: "Console") -> None:
    """Blocks become what fits this terminal; a page is text already."""
    shown = show(outcome)
    if isinstance(shown, str):
        print(shown, end="")
        return
    from edgeopt.commands.documents.terminal import write

    write(all_as_called(shown), console)


def stopped(stop: KeyboardInterrupt, left_behind: str) -> tuple[events.Error, int]:
    """What is said of a command that a signal ended, and its exit code."""
    if isinstance(stop, Terminated):
        return events.Error("terminated", f"Stopped by SIGTERM; {left_behind}."), EXIT_TERMINATED
    return events.Error("cancelled", f"Cancelled; {left_behind}."), EXIT_CANCELLED


def fail(error: events.Error, json: bool) -> None:
    """Says one error the way `execute` would, for failures before a command has begun."""
    with suppress(OSError):
        (JsonLines() if json else People()).tell(error)


def let_go_of_stdout() -> None:
    """Flushes what is left to say; where that is not possible any more, it was said before."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _say(voice: JsonLines | People, last: events.Result | events.Error, code: int, heard: signals.Signals) -> int:
    """The last record, and the exit code that goes with it."""
    with heard.held():
        voice.close()
        try:
            voice.tell(last)
        except DiskFullError:
            if isinstance(last, events.Result):
                raise
            fail(last, json=False)
        except OSError:
            # Where even an error cannot be told, the exit code has to.
            if isinstance(last, events.Result):
                raise
        heard.finish()
    return code


def _failure(error: Exception) -> tuple[events.Error, int]:
    if isinstance(error, EdgeoptError):
        return events.Error(error.code, error.message, error.hint, named=error.named), error.exit_code
    if isinstance(error, OSError) and is_disk_full(error):
        return _failure(disk_full(error))
    if isinstance(error, OSError):
        where = f" ({error.filename})" if error.filename else ""
        said = f"The operating system refused: {error.strerror or error}{where}."
        hint = "Set TMPDIR to a folder that can be written." if "No usable temporary directory" in said else ""
        return events.Error("operating-system", said, hint), EXIT_BUG
    return _bug(error), EXIT_BUG


def _bug(error: Exception) -> events.Error:
    if os.environ.get("EDGEOPT_DEBUG"):
        raise error
    return events.Error(
        "bug",
        f"edgeopt has an internal error: {type(error).__name__}: {error}",
        "Please report it. EDGEOPT_DEBUG=1 before the same command shows the details.",
    )
