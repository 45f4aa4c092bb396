"""`edgeopt backends`: what can run models here, and what can be set on each."""

from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from edgeopt import events
from edgeopt.cli.console import JsonFlag, execute
from edgeopt.commands.documents.blocks import Block, Row, Table, Words, columns, section

if TYPE_CHECKING:
    from edgeopt.backends.base import Backend

Value = str | int | float | bool


class BackendLine(msgspec.Struct, frozen=True):
    name: str
    title: str
    available: bool
    version: str | None
    reason: str
    """Why it is not available; empty where it is."""
    hint: str
    """What to do about that."""
    formats: tuple[str, ...]


class BackendList(msgspec.Struct, frozen=True):
    backends: tuple[BackendLine, ...]


class OptionLine(msgspec.Struct, frozen=True):
    name: str
    kind: str
    choices: tuple[str, ...]
    default: Value | None
    description: str
    search: tuple[Value, ...]


class OptionList(msgspec.Struct, frozen=True):
    backend: BackendLine
    options: tuple[OptionLine, ...]


def backends(
    name: Annotated[
        str | None, typer.Argument(help="A backend, for its options; without one, all are listed.")
    ] = None,
    json: JsonFlag = False,
) -> None:
    """All backends: available, or why not and what to do; or the options of one.

    \b
    Examples:
      edgeopt backends
      edgeopt backends onnxruntime-cpu              its options, and what a search tries of them
      edgeopt backends --json | jq -r '.data.backends[] | select(.available) | .name'
    """
    if name is None:
        execute("backends", work=list_backends, show=show_backends, json=json)
    else:
        execute("backend", work=lambda _: list_options(name), show=show_options, json=json)


def list_backends(emit: events.Emit) -> BackendList:  # noqa: ARG001 - `execute` gives it to every command
    from edgeopt.backends import BACKENDS

    # The null backend computes nothing real: it is for tests.
    return BackendList(tuple(_line(backend) for backend in BACKENDS if backend.package))


def list_options(name: str) -> OptionList:
    from edgeopt.backends import backend_named
    from edgeopt.backends.options import described

    backend = backend_named(name)
    lines = (msgspec.structs.asdict(option) for option in described(backend.options))
    return OptionList(_line(backend), tuple(OptionLine(**line) for line in lines))


def _line(backend: "Backend") -> BackendLine:
    from edgeopt.backends.base import Available

    found = backend.available()
    if isinstance(found, Available):
        return BackendLine(backend.name, backend.title, True, found.version, "", "", backend.formats)
    hint = f"pip install 'edgeopt[{found.extra}]'" if found.extra else ""
    return BackendLine(backend.name, backend.title, False, None, found.reason, hint, backend.formats)


def show_backends(result: BackendList) -> list[Block]:
    rows = (
        Row(
            (line.name, line.title, line.version or "-", _why_not(line)),
            "" if line.available else "faint",
        )
        for line in sorted(result.backends, key=lambda line: not line.available)
    )
    table = Table(columns("=Backend", "What it is", "Version", "Why not"), tuple(rows))
    return [table, section("", Words("The options of one: edgeopt backends NAME", "faint"))]


def show_options(result: OptionList) -> list[Block]:
    line = result.backend
    state = line.version or f"not available: {_why_not(line)}"
    rows = []
    for option in result.options:
        values = ", ".join(map(_said, option.choices)) or option.kind
        search = ", ".join(map(_said, option.search)) or "-"
        default = "-" if option.default is None else _said(option.default)
        rows.append(Row((option.name, values, default, option.description, search)))
    titles = columns("=Option", "Values", "Default", "What it does", "A search tries")
    title = Words(f"{line.name}: {line.title}, {state}", "strong")
    return [title, section("", Table(titles, tuple(rows)))]


def _why_not(line: BackendLine) -> str:
    return "; ".join(filter(None, (line.reason, line.hint)))


def _said(value: Value) -> str:
    """As it is written in a profile or on the command line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if value != "" else "''"
