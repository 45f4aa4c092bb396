"""`edgeopt-agent config`: checks the configuration file, and shows the settings in effect."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from edgeopt.cli import program
from edgeopt.cli.console import JsonFlag, execute
from edgeopt.units import count
from edgeopt.views.blocks import Block, Row, Table, WordsBlock, columns
from edgeopt_agent.config import administered

FileArgument = Annotated[
    Path | None,
    typer.Argument(
        help="Configuration file.", show_default="/etc/edgeopt/agent.toml under systemd, or ~/.config/edgeopt"
    ),
]
Value = str | int | float | None


class Setting(msgspec.Struct, frozen=True):
    name: str
    value: Value
    source: str


class Configuration(msgspec.Struct, frozen=True):
    file: str | None
    settings: tuple[Setting, ...]
    set_by_file: tuple[str, ...] = ()
    """The names that are in the file; a table is named itself only where it is empty."""


def _config(context: typer.Context) -> None:
    """Check the configuration file of the agent, or show the settings in effect. Both take --json.

    \b
    Examples:
      edgeopt-agent config check
      edgeopt-agent config show
    """
    program.help_without_command(context)


def check(file: FileArgument = None, json: JsonFlag = False) -> None:
    """Check the names and values in a configuration file.

    \b
    Examples:
      edgeopt-agent config check
      edgeopt-agent config check agent.toml && systemctl reload edgeopt-agent
    """
    execute("config", lambda _emit: _configuration(file), _show_checked, json)


def show(file: FileArgument = None, json: JsonFlag = False) -> None:
    """Show all settings, and where their values come from.

    \b
    Examples:
      edgeopt-agent config show
      edgeopt-agent config show --json | jq '.data.settings[] | select(.source != "default")'
    """
    execute("config", lambda _emit: _configuration(file), _show, json)


def _configuration(file: Path | None) -> Configuration:
    found = administered(file, {})
    values = found.settings
    settings = tuple(
        Setting(name, value, found.sources.get(name, "default"))
        for field in values.__struct_fields__
        for name, value in _entries(field, getattr(values, field))
    )
    changed = [name for name, source in found.sources.items() if source != "default"]
    in_file = tuple(name for name in changed if not any(each.startswith(f"{name}.") for each in changed))
    return Configuration(None if found.file is None else str(found.file), settings, in_file)


def _entries(name: str, value: object) -> Iterator[tuple[str, Value]]:
    """A setting, or those of a table."""
    if isinstance(value, msgspec.Struct):
        for each in value.__struct_fields__:
            yield from _entries(f"{name}.{each}", getattr(value, each))
    else:
        yield name, _plain(value)


def _plain(value: object) -> Value:
    if isinstance(value, tuple):
        return ", ".join(value)
    return value if value is None or isinstance(value, str | int | float) else str(value)


def _show_checked(result: Configuration) -> list[Block]:
    if result.file is None:
        return [WordsBlock("No configuration file: all settings have their defaults.")]
    number = count(len(result.set_by_file), "setting")
    return [WordsBlock(f"{result.file} is correct; it sets {number}.")]


def _show(result: Configuration) -> list[Block]:
    rows = tuple(Row((each.name, str(each.value), each.source)) for each in result.settings)
    return [Table(columns("=setting", "=value", "=from"), rows)]


COMMANDS: tuple[tuple[str, Callable[..., None]], ...] = (("check", check), ("show", show))

config = program.application(_config)
for each_name, command in COMMANDS:
    program.add(config, each_name, command)
