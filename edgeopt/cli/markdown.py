"""Pages in Markdown, as GitHub and its kin show them: job summaries, comments, documents."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated

import typer

from edgeopt.errors import EdgeoptError, UsageError

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
