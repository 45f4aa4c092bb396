"""Pages in Markdown, as GitHub and its kin show them: job summaries, comments, documents."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from edgeopt.errors import EdgeoptError, UsageError

if TYPE_CHECKING:
    from rich.console import Console


def plain(text: str) -> str:
    """Text as it is: nothing in it becomes mark-up, and a table keeps its columns."""
    for mark in "\\`*_[]<>|#":
        text = text.replace(mark, f"\\{mark}")
    return text.replace("\n", " ")


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> str:
    """`right`: the places of the columns that hold figures."""
    lines = [
        "| " + " | ".join(plain(name) for name in columns) + " |",
        "|" + "|".join("---:" if place in right else "---" for place in range(len(columns))) + "|",
        *("| " + " | ".join(plain(cell) for cell in row) + " |" for row in rows),
    ]
    return "\n".join(lines)


def print_lines(lines: Sequence[str], console: "Console") -> None:
    """Lines as they are, never folded."""
    for line in lines:
        console.print(line, markup=False, soft_wrap=True)


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
            hint = f"\n\n{plain(error.hint)}" if error.hint else ""
            print(f"## {plain(title)}\n\n**Failed: {plain(error.message)}**{hint}")
        raise
