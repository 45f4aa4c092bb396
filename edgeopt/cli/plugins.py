"""`edgeopt plugins`: the installed plug-ins and their state."""

from typing import TYPE_CHECKING

from edgeopt.cli.console import JsonFlag, execute
from edgeopt.views.blocks import Block, Mood, Row, Table, WordsBlock, columns, filled, section

if TYPE_CHECKING:
    from edgeopt.commands.plugins import PluginLine, PluginList


def plugins(json: JsonFlag = False) -> None:
    """List installed plug-ins: what they offer, and whether they can be used.

    \b
    A plug-in is a Python package that brings passes, recipes, backends or importers. Searches try
    those that are ready; `edgeopt optimize --no-plugins` leaves them out.

    \b
    Examples:
      edgeopt plugins
      edgeopt plugins --json | jq -r '.data.plugins[] | select(.state != "ready") | .problem'
    """
    from edgeopt.commands.plugins import list_plugins

    execute("plugins", lambda _emit: list_plugins(), show, json)


def show(result: "PluginList") -> list[Block]:
    if not result.plugins:
        return [WordsBlock("No plug-in is installed. The folder examples/plugin is a template of one.")]
    rows = [row for line in result.plugins for row in _rows(line)]
    table = Table(columns("=Plug-in", "State", "=Offers", "Description"), tuple(rows))
    problems = [
        WordsBlock(f"{line.name}: {line.problem}. {line.hint}".strip()) for line in result.plugins if line.problem
    ]
    return [filled(table), *([section("", *problems)] if problems else [])]


def _rows(line: "PluginLine") -> list[Row]:
    style: Mood = "" if line.state == "ready" else "faint"
    first = (f"{line.name} {line.version}", line.state)
    offers = [(offer.name, f"{offer.kind}: {offer.title}") for offer in line.offers] or [("", "")]
    return [Row((*(first if place == 0 else ("", "")), *offer), style) for place, offer in enumerate(offers)]
