"""`edgeopt backends`: what can run models here, and what can be set on each."""

from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from edgeopt import events
from edgeopt.cli.console import JsonFlag, execute

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

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


def show_backends(result: BackendList, console: "Console") -> None:
    from rich.text import Text

    table = _table("Backend", "What it is", "Version", "Why not")
    for line in sorted(result.backends, key=lambda line: not line.available):
        cells = (line.name, line.title, line.version or "-", _why_not(line))
        table.add_row(*(Text(cell) for cell in cells), style="" if line.available else "dim")
    console.print(table)
    console.print("\nThe options of one: edgeopt backends NAME", style="dim", markup=False)


def show_options(result: OptionList, console: "Console") -> None:
    from rich.text import Text

    line = result.backend
    state = line.version or f"not available: {_why_not(line)}"
    console.print(f"{line.name}: {line.title}, {state}\n", style="bold", markup=False)
    table = _table("Option", "Values", "Default", "What it does", "A search tries")
    for option in result.options:
        values = ", ".join(map(_said, option.choices)) or option.kind
        search = ", ".join(map(_said, option.search)) or "-"
        default = "-" if option.default is None else _said(option.default)
        table.add_row(*(Text(cell) for cell in (option.name, values, default, option.description, search)))
    console.print(table)


def _table(*columns: str) -> "Table":
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for place, column in enumerate(columns):
        table.add_column(column, no_wrap=place == 0, overflow="fold")
    return table


def _why_not(line: BackendLine) -> str:
    return "; ".join(filter(None, (line.reason, line.hint)))


def _said(value: Value) -> str:
    """As it is written in a profile or on the command line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if value != "" else "''"
