"""`edgeopt-agent config`: checks the configuration file, and shows what holds."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from edgeopt.cli import program
from edgeopt.cli.console import JsonFlag, execute
from edgeopt.views.blocks import Block, Row, Table, WordsBlock, columns
from edgeopt_agent.config import administered

FileArgument = Annotated[
    Path | None,
    typer.Argument(help="The file.", show_default="/etc/edgeopt/agent.toml under systemd, or ~/.config/edgeopt"),
]
Value = str | int | float | None


class Setting(msgspec.Struct, frozen=True):
    name: str
    value: Value
    source: str


class Configuration(msgspec.Struct, frozen=True):
    file: str | None
    settings: tuple[Setting, ...]


def _config(context: typer.Context) -> None:
    """Check the configuration file of the agent, or show what holds. Both speak --json.

    \b
    Examples:
      edgeopt-agent config check
      edgeopt-agent config show
    """
    program.help_without_command(context)


def check(file: FileArgument = None, json: JsonFlag = False) -> None:
    """Check a configuration file: every name and every value.

    \b
    Examples:
      edgeopt-agent config check
      edgeopt-agent config check agent.toml && systemctl reload edgeopt-agent
    """
    execute("config", lambda _emit: _configuration(file), _show_checked, json)


def show(file: FileArgument = None, json: JsonFlag = False) -> None:
    """Show every setting, and where its value comes from.

    \b
    Examples:
      edgeopt-agent config show
      edgeopt-agent config show --json | jq '.data.settings[] | select(.source != "default")'
    """
    execute("config", lambda _emit: _configuration(file), _show, json)


def _configuration(file: Path | None) -> Configuration:
    found = administered(file, {})
    values = [(name, getattr(found.settings, name), found.sources[name]) for name in found.sources]
    settings = tuple(Setting(*each) for name, value, source in values for each in _entries(name, value, source))
    return Configuration(None if found.file is None else str(found.file), settings)


def _entries(name: str, value: object, source: str) -> Iterator[tuple[str, Value, str]]:
    """A setting, or those of a table."""
    if isinstance(value, msgspec.Struct):
        for each in value.__struct_fields__:
            yield from _entries(f"{name}.{each}", getattr(value, each), source)
    else:
        yield name, _plain(value), source


def _plain(value: object) -> Value:
    if isinstance(value, tuple):
        return ", ".join(value)
    return value if value is None or isinstance(value, str | int | float) else str(value)


def _show_checked(result: Configuration) -> list[Block]:
    if result.file is None:
        return [WordsBlock("No configuration file: all settings have their defaults.")]
    count = sum(setting.source != "default" for setting in result.settings)
    return [WordsBlock(f"{result.file} is correct; it sets {count} settings.")]


def _show(result: Configuration) -> list[Block]:
    rows = tuple(Row((each.name, str(each.value), each.source)) for each in result.settings)
    return [Table(columns("=setting", "=value", "=from"), rows)]


COMMANDS: tuple[tuple[str, Callable[..., None]], ...] = (("check", check), ("show", show))

config = program.application(_config)
for each_name, command in COMMANDS:
    program.add(config, each_name, command)
