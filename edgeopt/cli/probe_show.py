"""Shows a device record on the terminal: a headline, grouped facts, the verdict, and what is not here."""

from typing import TYPE_CHECKING

from edgeopt.cli.probe_rows import headline, is_detail, rows
from edgeopt.hw.device import Device

if TYPE_CHECKING:
    from rich.console import Console


def show(device: Device, console: "Console", explain: bool = False) -> None:
    from rich.table import Table
    from rich.text import Text

    console.print(Text(headline(device), style="bold"))
    table = Table(box=None, show_header=explain, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("", style="bold", no_wrap=True)
    table.add_column("Fact", style="cyan", no_wrap=True)
    table.add_column("Value", overflow="fold")
    if explain:
        table.add_column("Source", style="dim", overflow="fold")
    group = ""
    for row in rows(device):
        cells = [Text("" if row.group == group else row.group), Text(row.title), Text(row.value)]
        if row.group != group:
            table.add_row()
        group = row.group
        if explain:
            cells.append(Text(_source(device, row.facts)))
        table.add_row(*cells)
    console.print(table)
    _verdict(device, console)
    _absent(device, console, explain)


def _verdict(device: Device, console: "Console") -> None:
    from rich.text import Text

    if device.state is None:
        return
    if device.state.worth_measuring:
        console.print(Text("\nThis device is in a state worth measuring.", style="bold green"))
    else:
        console.print(Text("\nThis device is not in a state worth measuring now:", style="bold yellow"))
    for reason in device.state.reasons:
        console.print(Text(f"  • {reason}"))


def _absent(device: Device, console: "Console", explain: bool) -> None:
    from rich.table import Table
    from rich.text import Text

    found = {n: reason for n, reason in device.unavailable.items() if explain or not is_detail(n)}
    if not found:
        return
    console.print(Text("\nNot here", style="bold dim"))
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    names: dict[str, list[str]] = {}
    for name, reason in found.items():
        names.setdefault(reason, []).append(name)
    for reason, same in names.items():
        table.add_row(Text(", ".join(same), style="dim"), Text(reason, style="dim", overflow="fold"))
    console.print(table)


def _source(device: Device, facts: tuple[str, ...]) -> str:
    found = (
        source
        for name, source in device.sources.items()
        if any(name == fact or name.startswith(f"{fact}.") for fact in facts)
    )
    return "; ".join(dict.fromkeys(found))
