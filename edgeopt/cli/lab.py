"""`edgeopt lab`: several models on several devices."""

import sys
import time
from typing import TYPE_CHECKING

import msgspec
import typer

from edgeopt.cli import program
from edgeopt.cli.console import JsonFlag, asks, execute, fail
from edgeopt.errors import legible
from edgeopt.events import Error, Event, Progress, Update
from edgeopt.lab.request import LabRunRequest, LabShowRequest

if TYPE_CHECKING:
    from rich.console import RenderableType

    from edgeopt.events import Emit
    from edgeopt.lab.records import LabCell, LabResults
    from edgeopt.views.blocks import Block

_DRAW_S = 0.2
_NAME_CELLS = 24
"""Letters of a model's name that the live table shows."""
_STYLES = {"bad": "red", "accent": "cyan", "faint": "dim"}


def _lab(context: typer.Context) -> None:
    """Search for the fastest way to run several models on several devices, in one table.

    \b
    Examples:
      edgeopt lab run lab.toml model.onnx
      edgeopt lab run lab.toml -o tonight --against last
      edgeopt lab show results --json
    """
    program.help_without_command(context)


@asks(LabRunRequest)
def run(request: LabRunRequest, json: JsonFlag = False) -> None:
    """Run the searches of all models on all devices, and write the results.

    \b
    Each cell of the table is one `edgeopt optimize`, on this machine or on the device. Devices work
    side by side; no two searches of a run measure on one host at once. Finished cells are kept: the
    same command continues after Ctrl-C, or after a device was away. RESULTS gets results.json,
    report.html, report.md and bundles/MODEL/DEVICE.edgeopt, and is up to date after each cell. Exit
    code 4: a cell failed, or with --against, was not compared, or is proved slower than before by
    more than max_slowdown of the lab file.

    \b
    Examples:
      edgeopt lab run lab.toml model.onnx other.onnx
      edgeopt lab run lab.toml -o tonight --against last
      edgeopt lab run lab.toml --scheduler tcp://desktop:8786
    """

    def work(emit: "Emit") -> "LabResults":
        from edgeopt.commands import lab

        if json or not sys.stderr.isatty():
            return lab.run(request, emit if json else _in_lines(emit))
        with LabTable() as table:
            return lab.run(request, lambda event: table.update(event, emit))

    left = f"finished cells are in {request.out}, and the same command continues"
    results = execute("lab", work, _show, json, left_behind=left)
    from edgeopt.commands.lab import failure

    if (error := failure(results)) is not None:
        if not json:
            fail(Error(error.code, error.message, error.hint), json)
        raise typer.Exit(error.exit_code)


@asks(LabShowRequest)
def show(request: LabShowRequest, json: JsonFlag = False) -> None:
    """Show the results of a lab.

    \b
    Examples:
      edgeopt lab show results
      edgeopt lab show results --json | jq '.data.cells[] | {model, device, speedup}'
    """

    def work(_emit: "Emit") -> "LabResults":
        from edgeopt.commands import lab

        return lab.show(request)

    execute("lab", work, _show, json)


def _show(results: "LabResults") -> "list[Block]":
    from edgeopt.views import lab

    return lab.show(results)


def _cell_of(event: Event) -> "LabCell | None":
    """Returns the cell that an event is about, if it is about one."""
    if not isinstance(event, Update):
        return None
    from edgeopt.decoding import thread_safe
    from edgeopt.lab.lab_run import UPDATE
    from edgeopt.lab.records import LabCell

    return msgspec.convert(event.data, thread_safe(LabCell)) if event.kind == UPDATE else None


def _in_lines(emit: "Emit") -> "Emit":
    """Returns an emitter that reports each cell as it starts and ends, for a log."""
    begun: set[str] = set()

    def emit_line(event: Event) -> None:
        from edgeopt.views.lab import cell_text

        cell = _cell_of(event)
        if cell is None:
            emit(event)
        elif cell.status == "running" and cell.name not in begun:
            begun.add(cell.name)
            emit(Progress(f"{cell.name}: running"))
        elif cell.status in {"done", "failed"}:
            kept = " (kept)" if cell.kept else ""
            emit(Progress(f"{cell.name}: {cell_text(cell)}{kept}{f': {cell.reason}' if cell.reason else ''}"))

    return emit_line


class LabTable:
    """Table of models and devices that fills; its last state is not left on the screen, as the result follows."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self._live = Live(console=Console(stderr=True, highlight=False), auto_refresh=False, transient=True)
        self._cells: dict[tuple[str, str], LabCell] = {}
        self._drawn = 0.0

    def __enter__(self) -> "LabTable":
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def update(self, event: Event, emit: "Emit") -> None:
        """Draws cells and passes other events on, except progress, which the table shows."""
        cell = _cell_of(event)
        if cell is not None:
            self._cells[cell.model, cell.device] = cell
        elif not isinstance(event, Progress):
            emit(event)
        if time.monotonic() - self._drawn >= _DRAW_S:
            self._drawn = time.monotonic()
            self._live.update(self.render(), refresh=True)

    def render(self) -> "RenderableType":
        from rich.table import Table
        from rich.text import Text

        from edgeopt.views.lab import cell_mood, cell_text

        devices = list(dict.fromkeys(device for _, device in self._cells))
        table = Table(box=None, pad_edge=False)
        models = list(dict.fromkeys(model for model, _ in self._cells))
        # Devices share the width, so that a long phase of one cuts no model and no state of another.
        names = min(max((len(legible(each)) for each in models), default=0), _NAME_CELLS)
        share = (self._live.console.width - names) // max(len(devices), 1) - 2
        table.add_column("model", no_wrap=True, overflow="ellipsis", max_width=_NAME_CELLS)
        for device in devices:
            table.add_column(device, no_wrap=True, overflow="ellipsis", max_width=max(share, len("waiting")))
        for model in models:
            found = [self._cells.get((model, device)) for device in devices]
            texts = [
                Text("") if each is None else Text(legible(cell_text(each)), _STYLES.get(cell_mood(each), ""))
                for each in found
            ]
            table.add_row(legible(model), *texts)
        return table


lab = program.application(_lab, run, show)
