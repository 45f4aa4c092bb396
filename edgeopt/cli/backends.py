"""`edgeopt backends`: what can run models here, and what can be set on each."""

from typing import TYPE_CHECKING

from edgeopt.cli.console import JsonFlag, asks, execute
from edgeopt.commands.backends import BackendsRequest
from edgeopt.views.blocks import Block, Row, Table, WordsBlock, columns, section, table_of

if TYPE_CHECKING:
    from edgeopt.commands.backends import BackendLine, BackendList, OptionList, Value


@asks(BackendsRequest)
def backends(request: BackendsRequest, json: JsonFlag = False) -> None:
    """List backends and whether they are available, or the options of one.

    \b
    Examples:
      edgeopt backends
      edgeopt backends onnxruntime-cpu              options, and the values a search tries
      edgeopt backends --json | jq -r '.data.backends[] | select(.available) | .name'
    """
    from edgeopt.commands.backends import list_backends, list_options

    name = request.name
    if name is None:
        execute("backends", lambda _emit: list_backends(), show_backends, json)
    else:
        execute("backend", lambda _emit: list_options(name), show_options, json)


def show_backends(result: "BackendList") -> list[Block]:
    rows = (
        Row(
            (line.name, line.title, line.version or "-", _why_not(line)),
            "" if line.available else "faint",
        )
        for line in sorted(result.backends, key=lambda line: not line.available)
    )
    table = Table(columns("=Backend", "Description", "Version", "Why it is unavailable"), tuple(rows))
    return [table, section("", WordsBlock("Options of a backend: edgeopt backends NAME", "faint"))]


def show_options(result: "OptionList") -> list[Block]:
    line = result.backend
    state = line.version or f"not available: {_why_not(line)}"
    table = table_of(
        result.options,
        ("=Option", lambda option: option.name),
        ("Values", lambda option: ", ".join(map(_value_text, option.choices)) or option.kind),
        ("Default", lambda option: "-" if option.default is None else _value_text(option.default)),
        ("What it does", lambda option: option.description),
        ("A search tries", lambda option: ", ".join(map(_value_text, option.search)) or "-"),
    )
    title = WordsBlock(f"{line.name}: {line.title}, {state}", "strong")
    return [title, section("", table)]


def _why_not(line: "BackendLine") -> str:
    return "; ".join(filter(None, (line.reason, line.hint)))


def _value_text(value: "Value") -> str:
    """Returns a value as written in a profile or on the command line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if value != "" else "''"
