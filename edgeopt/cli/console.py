"""What every command shares: events as JSON lines or for people, errors as sentences, exit codes, signals."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING, Annotated, TypeVar

import msgspec
import typer

from edgeopt import events
from edgeopt.cli.progress import JsonLines, People
from edgeopt.errors import EXIT_BUG, EXIT_CANCELLED, EXIT_TERMINATED, EXIT_UNREAD, EdgeoptError, Terminated

if TYPE_CHECKING:
    from rich.console import Console

JsonFlag = Annotated[
    bool,
    typer.Option("--json", help="Print one JSON record a line, for programs, instead of text for people."),
]

Outcome = TypeVar("Outcome", bound=msgspec.Struct)


def execute(
    kind: str,
    work: Callable[[events.Emit], Outcome],
    show: "Callable[[Outcome, Console], None]",
    json: bool = False,
    left_behind: str = "nothing was changed",
    interrupt: Callable[[], bool] | None = None,
) -> None:
    """Does a command's work, tells what happens on the way, and leaves with the right exit code.

    `left_behind` says how things stand after it was cancelled. `interrupt` is asked at the first Ctrl-C: whether
    the work ends by itself now, with something to show; the second one ends it at once.
    """
    voice = JsonLines() if json else People()
    try:
        with _signals_as_exceptions(interrupt):
            outcome = work(voice.tell)
            voice.close()
            if json:
                voice.tell(events.Result(kind, msgspec.to_builtins(outcome)))
            else:
                from rich.console import Console

                # A pipe has no width of its own: wide enough there that no sentence is cut or folded oddly.
                show(outcome, Console(width=None if sys.stdout.isatty() else 140, highlight=False))
            sys.stdout.flush()
        return
    except BrokenPipeError:
        code = EXIT_UNREAD  # the reader (`| head`) went away before the end
    except SystemExit:  # rich's answer to the same
        code = EXIT_UNREAD
    except KeyboardInterrupt:
        code = _fail(voice, events.Error("cancelled", f"Cancelled; {left_behind}."), EXIT_CANCELLED)
    except Terminated:
        code = _fail(voice, events.Error("terminated", f"Stopped by SIGTERM; {left_behind}."), EXIT_TERMINATED)
    except EdgeoptError as error:
        code = _fail(voice, events.Error(error.code, error.message, error.hint), error.exit_code)
    except OSError as error:
        code = _fail(voice, _operating_system_error(error), EXIT_BUG)
    except Exception as error:  # noqa: BLE001 - the process's edge: a bug becomes a report, not a traceback
        code = _fail(voice, _bug(error), EXIT_BUG)
    raise typer.Exit(code)


def fail(error: events.Error, json: bool) -> None:
    """Says one error the way `execute` would, for failures before a command has begun."""
    with suppress(BrokenPipeError):
        (JsonLines() if json else People()).tell(error)


def let_go_of_stdout() -> None:
    """Flushes what is left to say; where nobody reads any more, that goes nowhere and is no complaint."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(voice: JsonLines | People, error: events.Error, code: int) -> int:
    voice.close()
    with suppress(BrokenPipeError):
        voice.tell(error)
    return code


def _operating_system_error(error: OSError) -> events.Error:
    where = f" ({error.filename})" if error.filename else ""
    hint = "Free some space and run the same command again." if error.errno == 28 else ""
    return events.Error(
        "operating-system", f"The operating system refused: {error.strerror or error}{where}.", hint
    )


def _bug(error: Exception) -> events.Error:
    if os.environ.get("EDGEOPT_DEBUG"):
        raise error
    return events.Error(
        "bug",
        f"edgeopt failed in a way that it should not: {type(error).__name__}: {error}",
        "Please report it; EDGEOPT_DEBUG=1 before the same command shows where it happened.",
    )


def _unheard(_number: int, _frame: FrameType | None) -> None:
    """A signal that comes too late to matter."""


@contextmanager
def _signals_as_exceptions(interrupt: Callable[[], bool] | None = None) -> Iterator[None]:
    """SIGTERM unwinds like Ctrl-C does, so that temporary files and child processes go away on both."""
    asked = False

    def stop(number: int, _frame: FrameType | None) -> None:
        nonlocal asked
        if number == signal.SIGINT and interrupt is not None and not asked:
            asked = True
            if interrupt():
                return
        # One is enough: the clean-up, and the way out after it, must not be interrupted. Not SIG_IGN, about
        # which Python complains when a second signal is on its way already.
        for each in before:
            signal.signal(each, _unheard)
        raise Terminated if number == signal.SIGTERM else KeyboardInterrupt

    before = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)}
    for each in before:
        signal.signal(each, stop)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is stop:
            for each, handler in before.items():
                signal.signal(each, handler)
