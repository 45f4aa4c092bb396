"""What `edgeopt targets` and its commands answer, and how people see it."""

from typing import TYPE_CHECKING

import msgspec

from edgeopt.profiles.explain import Row
from edgeopt.targets import Verdict

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


class Use(msgspec.Struct, frozen=True):
    """A profile for a use: it extends whatever target fits."""

    name: str
    title: str


class TargetList(msgspec.Struct, frozen=True):
    chosen: str
    """The most exact target that fits the device."""
    used: str
    """What a search follows: the same, or the best that this version of edgeopt has a backend for."""
    targets: tuple[Verdict, ...]
    uses: tuple[Use, ...] = ()


class Shown(msgspec.Struct, frozen=True):
    name: str
    title: str
    path: str
    extends: tuple[str, ...]
    """What it extends, what that extends, and so on."""
    automatic: bool
    """One of those is whatever target fits the device."""
    fits: bool
    reason: str
    lacking_backend: str | None
    """The backend that it is about, where this version of edgeopt does not have it."""
    values: tuple[Row, ...]


class Validated(msgspec.Struct, frozen=True):
    path: str
    name: str
    extends: tuple[str, ...]
    fits: bool
    reason: str
    lacking_backend: str | None
    left_out: tuple[str, ...]
    """Backends and variants that this version of edgeopt knows by name only."""


class Written(msgspec.Struct, frozen=True):
    path: str
    name: str
    extends: str


def show_list(result: TargetList, console: "Console") -> None:
    from rich.text import Text

    table = _table("Target", "", "What it is", "Why")
    for verdict in result.targets:
        state = "chosen" if verdict.chosen else "used" if verdict.used else "fits" if verdict.fits else "no"
        style = "bold" if verdict.chosen or verdict.used else "" if verdict.fits else "dim"
        cells = (verdict.name, state, verdict.title, verdict.reason)
        table.add_row(*(Text(cell) for cell in cells), style=style)
    console.print(table)
    uses = _table("For a use", "What it trades")
    for use in result.uses:
        uses.add_row(Text(use.name), Text(use.title))
    console.print()
    console.print(uses)
    console.print(
        "\nOne in full: edgeopt targets show NAME. For a use: edgeopt optimize MODEL -o OUT --profile NAME",
        style="dim",
        markup=False,
    )


def show_target(shown: Shown, console: "Console") -> None:
    from rich.text import Text

    from edgeopt.profiles.checks import as_toml

    console.print(f"{shown.name}: {shown.title}", style="bold", markup=False)
    if shown.extends:
        how = " (auto: whatever fits this device)" if shown.automatic else ""
        console.print(f"extends {' -> '.join(shown.extends)}{how}", markup=False)
    console.print(_fits(shown.fits, shown.reason, shown.lacking_backend), markup=False)
    # One table for all, so that its columns stand below each other.
    table = _table("", "Value", "From", "Why")
    for name in dict.fromkeys(row.table for row in shown.values):
        table.add_row()
        table.add_row(Text(f"[{name}]", style="bold"))
        for row in (row for row in shown.values if row.table == name):
            origin = Text(row.origin, style="dim")
            if row.items and isinstance(row.value, tuple):
                table.add_row(row.key, "", origin, Text(row.why))
                for value, why in zip(row.value, row.items, strict=True):
                    table.add_row("", Text(as_toml(value)), "", Text(why))
            else:
                table.add_row(row.key, Text(as_toml(row.value)), origin, Text(row.why))
    console.print(table)


def show_validated(checked: Validated, console: "Console") -> None:
    extends = f", which extends {' -> '.join(checked.extends)}" if checked.extends else ""
    console.print(f"{checked.path} is a valid profile: {checked.name}{extends}.", markup=False)
    console.print(_fits(checked.fits, checked.reason, checked.lacking_backend), markup=False)
    if checked.left_out and not checked.lacking_backend:
        names = ", ".join(checked.left_out)
        console.print(f"This version of edgeopt leaves out what it does not have yet: {names}.", markup=False)


def show_written(written: Written, console: "Console") -> None:
    console.print(f"Wrote {written.path}, which extends {written.extends}.", markup=False)
    console.print(f"Change what differs, then: edgeopt targets validate {written.path}", markup=False)
    console.print(f"Use it with: edgeopt optimize MODEL -o OUT --profile {written.path}", markup=False)


def _fits(fits: bool, reason: str, lacking: str | None) -> str:
    if not fits:
        return f"It does not fit this device: {reason}."
    if lacking:
        return f"It fits this device ({reason}), but this version of edgeopt has no backend {lacking} yet."
    return f"It fits this device: {reason}."


def _table(*titles: str) -> "Table":
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for title in titles:
        table.add_column(title, overflow="fold")
    return table
