"""Shared parts of all commands: events as JSON lines or for people, errors as sentences, exit codes, signals."""

import inspect
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, ParamSpec, TypeVar

import msgspec
import typer

from edgeopt import events
from edgeopt.cli import signals
from edgeopt.cli.progress import JsonLines, People, all_as_called, standard_output
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
from edgeopt.options import Option, check_range, options_of
from edgeopt.platform.command_line import join_words
from edgeopt.views.blocks import Block, Commands, WordsBlock, lines, section

if TYPE_CHECKING:
    from rich.console import Console

MarkdownFlag = Annotated[bool, typer.Option("--markdown", help="Print Markdown, for example for a job summary.")]
NOTHING = "nothing was changed"


def machine_line(machine: Mapping[str, str], versions: Mapping[str, str] | None = None) -> str:
    """The device, and what was installed on it, as one line; empty where nothing is known of it."""
    parts = ", ".join((*machine.values(), *(f"{name} {version}" for name, version in (versions or {}).items())))
    return f"Machine: {parts}." if parts else ""


def refuse_two_voices(json: bool, markdown: bool) -> None:
    """Raises UsageError: a page and records cannot both go to stdout."""
    if json and markdown:
        raise UsageError("--json and --markdown exclude each other.", "Give one of them.")


@contextmanager
def failure_as_page(title: str, markdown: bool) -> Iterator[None]:
    """A job summary also says why there is nothing to sum up; wrong usage is for who wrote the command."""
    try:
        yield
    except UsageError:
        raise
    except EdgeoptError as error:
        if markdown:
            from edgeopt.views.markdown import page

            print(
                page(title, lines([f"Failed: {error.message}"], "strong") + lines([error.hint]), level=2), end=""
            )
        raise


JsonFlag = Annotated[
    bool,
    typer.Option("--json", help="Print JSON, one record per line."),
]
OnDevice = Annotated[
    str | None,
    typer.Option(
        "--on",
        metavar="DEVICE",
        help="Run on this device: ssh://[USER@]HOST[:PORT], or the address of its agent, https://HOST:PORT.",
    ),
]

Outcome = TypeVar("Outcome", bound=msgspec.Struct)
Show = Callable[[Outcome], "Sequence[Block] | str"]
"""Function that shows an outcome to people: as blocks for a terminal, or as a complete page."""


def execute(
    kind: str,
    work: Callable[[events.Emit], Outcome],
    show: "Show[Outcome]",
    json: bool = False,
    left_behind: str = NOTHING,
    interrupt: Callable[[], bool] | None = None,
) -> Outcome:
    """Does a command's work, reports its progress, and exits with the right code where there is no outcome.

    `left_behind` says how things stand after it was cancelled. `interrupt` is asked at the first Ctrl-C: whether
    the work ends by itself now, with something to show; the second one ends it at once.
    """
    voice = JsonLines() if json else People()
    made: list[Outcome] = []

    def kept(emit: events.Emit) -> Outcome:
        made.append(work(emit))
        return made[0]

    with signals.handle_signals() as handler:
        handler.interrupt = interrupt
        code = _code(kind, kept, show, voice, left_behind, handler)
    if code:
        raise typer.Exit(code)
    return made[0]


def _code(
    kind: str,
    work: Callable[[events.Emit], Outcome],
    show: "Show[Outcome]",
    voice: JsonLines | People,
    left_behind: str,
    handler: signals.SignalHandler,
) -> int:
    """Does all of it; the outcome is one last record, and no signal can add another."""
    try:
        try:
            outcome = work(voice.emit)
            left_behind = "the work itself was done"
            voice.close()
            if isinstance(voice, JsonLines):
                result = events.Result(kind, msgspec.to_builtins(outcome))
                return _write_last(voice, result, 0, handler)
            from rich.console import Console

            # A pipe has no width of its own: wide enough there that no sentence is cut or folded oddly.
            with writing_to(standard_output()):
                show_outcome(show, outcome, Console(width=None if sys.stdout.isatty() else 140, highlight=False))
                sys.stdout.flush()
            handler.finish()
            return 0
        except (BrokenPipeError, SystemExit):  # the reader (`| head`) went away before the end; so rich says it
            handler.finish()
            return EXIT_UNREAD
        except Exception as error:  # noqa: BLE001 - the process's edge: a bug becomes a report, not a traceback
            return _write_last(voice, *_failure(error), handler)
    except KeyboardInterrupt as stop:
        return _write_last(voice, *stopped(stop, left_behind), handler)


def show_outcome(show: "Show[Outcome]", outcome: Outcome, console: "Console") -> None:
    """Blocks become what fits this terminal; a page is text already."""
    shown = show(outcome)
    if isinstance(shown, str):
        print(shown, end="")
        return
    from edgeopt.views.terminal import write

    write(all_as_called(shown), console)


def stopped(stop: KeyboardInterrupt, left_behind: str) -> tuple[events.Error, int]:
    """Returns the error and the exit code of a command that a signal ended."""
    if isinstance(stop, Terminated):
        return events.Error("terminated", f"Stopped by SIGTERM; {left_behind}."), EXIT_TERMINATED
    return events.Error("cancelled", f"Cancelled; {left_behind}."), EXIT_CANCELLED


def fail(error: events.Error, json: bool) -> None:
    """Reports one error as `execute` would, for failures before a command has begun."""
    with suppress(OSError):
        (JsonLines() if json else People()).emit(error)


def let_go_of_stdout() -> None:
    """Flushes what is left to say; where that is not possible any more, it was said before."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _write_last(
    voice: JsonLines | People, last: events.Result | events.Error, code: int, handler: signals.SignalHandler
) -> int:
    """Writes the last record, and returns its exit code."""
    with handler.deferred():
        voice.close()
        try:
            voice.emit(last)
        except DiskFullError:
            if isinstance(last, events.Result):
                raise
            fail(last, json=False)
        except OSError:
            # Where even the error cannot be written, the exit code must report it.
            if isinstance(last, events.Result):
                raise
        handler.finish()
    return code


def _failure(error: Exception) -> tuple[events.Error, int]:
    if isinstance(error, EdgeoptError):
        return events.Error(error.code, error.message, error.hint, named=error.named), error.exit_code
    if isinstance(error, OSError) and is_disk_full(error):
        return _failure(disk_full(error))
    if isinstance(error, OSError):
        where = f" ({error.filename})" if error.filename else ""
        text = f"The operating system refused: {error.strerror or error}{where}."
        hint = "Set TMPDIR to a folder that can be written." if "No usable temporary directory" in text else ""
        return events.Error("operating-system", text, hint), EXIT_BUG
    if os.environ.get("EDGEOPT_DEBUG"):
        raise error
    message = f"edgeopt has an internal error: {type(error).__name__}: {error}"
    hint = "Please report it. EDGEOPT_DEBUG=1 before the same command shows the details."
    return events.Error("bug", message, hint), EXIT_BUG


Request = TypeVar("Request", bound=msgspec.Struct)
Own = ParamSpec("Own")


def asks(kind: type[Request]) -> Callable[[Callable[Concatenate[Request, Own], None]], Callable[..., None]]:
    """Makes a command of a function that takes a request; further parameters are options of its own, after those.

    Output formats (`--json`, `--markdown`) are not part of a request, so they are such parameters.
    """

    def made(function: Callable[Concatenate[Request, Own], None]) -> Callable[..., None]:
        _, *own = inspect.signature(function).parameters.values()
        options = options_of(kind)
        work: Callable[..., None] = function

        def command(**arguments: Any) -> None:  # noqa: ANN401 - typer gives each the type that its option has
            values = {each.name: _value(each, arguments.pop(each.name)) for each in options}
            work(kind(**values), **arguments)

        parameters = [*map(_parameter, options), *(p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own)]
        command.__name__, command.__doc__ = function.__name__, function.__doc__
        command.__annotations__ = {each.name: each.annotation for each in parameters}
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined] # typer reads it
        return command

    return made


def _value(option: Option, value: object) -> object:
    check_range(option, value)
    return tuple(value or ()) if option.many and isinstance(value, list | None) else value


def _parameter(option: Option) -> inspect.Parameter:
    hint: Any = list[option.kind] if option.many else option.kind  # type: ignore[name-defined] # made as it runs
    empty = option.default is None or option.many
    about = typer.Argument if not option.flags else typer.Option
    described = about(
        *option.flags,
        help=f"{option.help}  [{option.range}]" if option.range else option.help,
        metavar=option.metavar or None,
        show_default=option.default not in {None, "", ()} and option.kind is not bool,
    )
    return inspect.Parameter(
        option.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if option.required else None if empty else option.default,
        annotation=Annotated[hint | None if empty and not option.required else hint, described],
    )


def next_steps(
    made: Path,
    source: Path | None,
    data: Path | None = None,
    against: str = "onnxruntime-cpu",
    pre: Path | None = None,
) -> Block:
    """`against`: where the source ran that the proof compares with, as a side of `edgeopt bench` names it.

    Without a source the file is measured alone: a model with other inputs cannot be compared with it.
    """
    measure = ["edgeopt", "bench", str(made)]
    if source is not None:
        measure += ["--against", f"{source}@{against}"]
    prepared = pre is not None and pre.suffix == ".toml"
    if data is not None and (prepared or data.suffix == ".npz"):
        measure += ["--data", str(data), *(["--pre", str(pre)] if prepared else [])]
    return section(
        "",
        Commands(
            (
                *_answers(made),
                ("Use it from Python:", f"session = edgeopt.load({_quoted(str(made))})"),
                ("Measure it again:", join_words(measure)),
            )
        ),
    )


def _answers(made: Path) -> Iterator[tuple[str, str]]:
    """Yields the command that lets a bundle of a language model or of a speech model answer."""
    from edgeopt.bundle.deployment import ENCODER
    from edgeopt.text.tokenizer import FOLDER as TEXT

    if (made / ENCODER).is_dir():
        yield "Give it speech:", join_words(("edgeopt", "run", str(made), "--audio", "speech.wav"))
    elif (made / TEXT).is_dir():
        yield "Give it a text:", join_words(("edgeopt", "run", str(made), "--prompt", "Once upon a time"))


def as_commands(text: str) -> Block:
    """Each command of a text on a line of its own, which is never folded; a colon is before each."""
    found = re.findall(r"(?:^|, or )((?:(?!: edgeopt ).)+:) (edgeopt .+?)(?=, or [\w ]+: edgeopt |$)", text)
    return (
        Commands(tuple((why[0].upper() + why[1:], command) for why, command in found))
        if found
        else WordsBlock(text)
    )


def _quoted(text: str) -> str:
    return f'"{text}"' if '"' not in text and "\\" not in text else repr(text)
