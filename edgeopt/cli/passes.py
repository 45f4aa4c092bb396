"""`edgeopt passes`: what there is to be applied."""

from typing import TYPE_CHECKING

import msgspec

from edgeopt import events
from edgeopt.cli.console import JsonFlag, execute

if TYPE_CHECKING:
    from rich.console import Console


class PassLine(msgspec.Struct, frozen=True):
    name: str
    title: str


class PassList(msgspec.Struct, frozen=True):
    passes: tuple[PassLine, ...]


def passes(json: JsonFlag = False) -> None:
    """All exact graph rewrites, a line each, in the order in which they run.

    \b
    Examples:
      edgeopt passes
      edgeopt passes --json | jq -r '.data.passes[].name'
    """
    execute("passes", work=list_passes, show=show, json=json)


def list_passes(emit: events.Emit) -> PassList:  # noqa: ARG001 - `execute` gives it to every command
    from edgeopt.graph.passes import PASSES

    return PassList(tuple(PassLine(p.name, p.title) for p in PASSES))


def show(result: PassList, console: "Console") -> None:
    from rich.table import Table

    table = Table("pass", "what it does", box=None, pad_edge=False)
    for line in result.passes:
        table.add_row(line.name, line.title)
    console.print(table)
