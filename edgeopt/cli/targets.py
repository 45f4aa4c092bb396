"""`edgeopt targets`: every target, and whether it fits this device."""

from typing import TYPE_CHECKING

import msgspec

from edgeopt.cli.console import JsonFlag, execute
from edgeopt.targets import Verdict

if TYPE_CHECKING:
    from rich.console import Console


class TargetList(msgspec.Struct, frozen=True):
    chosen: str
    targets: tuple[Verdict, ...]


def targets(json: JsonFlag = False) -> None:
    """Lists every target: the one chosen for this device, those that fit, and why the others do not.

    \b
    Examples:
      edgeopt targets
      edgeopt targets --json | jq -r .data.chosen
    """
    execute("targets", work=lambda _: list_targets(), show=show, json=json)


def list_targets() -> TargetList:
    from edgeopt.hw.probe import probe
    from edgeopt.profiles import shipped_profiles
    from edgeopt.targets import choose

    choice = choose(probe(), shipped_profiles())
    return TargetList(choice.profile.name, choice.verdicts)


def show(result: TargetList, console: "Console") -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for title in ("Target", "", "What it is", "Why"):
        table.add_column(title, overflow="fold")
    for verdict in result.targets:
        state = "chosen" if verdict.chosen else "fits" if verdict.fits else "no"
        style = "bold" if verdict.chosen else "" if verdict.fits else "dim"
        cells = (verdict.name, state, verdict.title, verdict.reason)
        table.add_row(*(Text(cell) for cell in cells), style=style)
    console.print(table)
