"""What must be documented, by kind: its names, the pages, and what an entry looks like."""

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import typer

import edgeopt
from edgeopt import errors
from edgeopt.cli.main import application
from edgeopt.commands import schema
from edgeopt.plugins import manifest
from edgeopt_agent import main as agent_main
from edgeopt_agent.drift.settings import DriftSettings
from edgeopt_agent.http.table import PARAMETERS, ROUTES
from edgeopt_agent.mqtt.commands import TABLE
from edgeopt_agent.mqtt.settings import MqttSettings
from edgeopt_agent.settings import Settings

ROOT = Path(__file__).parents[1]
AGENT = ROOT / "agent" / "edgeopt_agent"
EVERYWHERE = ("README.md", *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md"))))


class Kind(NamedTuple):
    names: Callable[[], list[str]]
    pages: tuple[str, ...]
    """Where they are described; any of these will do."""
    entry: Callable[[str], str]
    """What an entry looks like, as a pattern."""

    def undocumented(self, text: str) -> list[str]:
        return [name for name in self.names() if not re.search(self.entry(name), text, re.MULTILINE)]

    def text(self) -> str:
        return "\n".join((ROOT / page).read_text() for page in self.pages)


def _commands() -> list[str]:
    programs = {"edgeopt": application(), "edgeopt-agent": agent_main.application()}
    found = (path for name, each in programs.items() for path in _paths(name, typer.main.get_command(each)))
    return [path for path in found if path not in programs]


def _paths(path: str, command: typer.core.TyperCommand) -> Iterator[str]:
    """Commands that can be called: not the groups that only hold others."""
    below = getattr(command, "commands", {})
    if not below or path == "edgeopt bench":
        yield path
    for name, each in below.items():
        if name != "measure":  # `edgeopt bench` without a name
            yield from _paths(f"{path} {name}", each)


def _command_entry(path: str) -> str:
    """`edgeopt targets show`; in a row of several, `edgeopt targets new \\| show`."""
    *group, last = path.split(" ")
    return rf"\b{path}(?![\w-])|\b{' '.join(group)} [^\n`]*\| ?{last}(?![\w-])"


def _options() -> list[str]:
    programs = (application(), agent_main.application())
    return sorted({flag for each in programs for flag in _flags(typer.main.get_command(each))})


def _flags(command: typer.core.TyperCommand) -> Iterator[str]:
    for each in command.params:
        if each.param_type_name == "option" and each.name != "help":
            yield " ".join(each.opts)
    for below in getattr(command, "commands", {}).values():
        yield from _flags(below)


def _constants(*files: str) -> Iterator[str]:
    for file in files:
        for node in ast.walk(ast.parse((AGENT / file).read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def _routes() -> list[str]:
    """As pages write them: `GET /api/v1/deployments/ID`."""
    return [
        f"{entry.method} {entry.path.replace('{number}', 'ID').replace('{trial}', 'ID').replace('{name}', 'NAME')}"
        for entry in ROUTES
    ]


def _route_entry(route: str) -> str:
    """A GET may be without its method, in a row with others."""
    method, _, path = route.partition(" ")
    return rf"`{'(?:GET )?' if method == 'GET' else f'{method} '}{path}[?`]"


def _parameters() -> list[str]:
    return [f"{route}?{name}" for route, names in PARAMETERS.items() for name in names]


def _parameter_entry(parameter: str) -> str:
    route, _, name = parameter.partition("?")
    return rf"{route}[/\w]*\?[^`]*\b{name}="


def _metrics() -> list[str]:
    return sorted({text for text in _constants("http/metrics.py") if re.fullmatch(r"(nv|edgeopt)_[a-z_]+", text)})


def _methods() -> list[str]:
    found = _constants("grpc/methods.py")
    return sorted(
        {text for text in found if re.fullmatch(r"(Server|Model|Repository)[A-Z]\w+(?<!Response)", text)}
    )


def _refusals() -> list[str]:
    """The codes of answers that are refused before a command sees the request."""
    return sorted(
        {
            call.args[1].value
            for path in AGENT.rglob("*.py")
            if "Refusal(" in (source := path.read_text())
            for call in ast.walk(ast.parse(source))
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "Refusal" and len(call.args) > 1
            if isinstance(call.args[1], ast.Constant)
        }
    )


def _errors() -> list[str]:
    return sorted(
        name
        for name, each in vars(errors).items()
        if isinstance(each, type) and issubclass(each, errors.EdgeoptError)
    )


def _error_entry(name: str) -> str:
    error = getattr(errors, name)
    return rf"^\| `{name}` \| {error.exit_code} \| `{error.code}` \|"


def _records() -> list[str]:
    """As rows of a table, with their titles."""
    return [f"| `{each.name}` | {each.title} |" for each in (*schema.FILES, *schema.RESULTS)]


def _exit_codes() -> list[str]:
    constants = {str(code) for name, code in vars(errors).items() if name.startswith("EXIT_")}
    return sorted({str(getattr(errors, name).exit_code) for name in _errors()} | constants)


def _quoted(name: str) -> str:
    return rf"`{re.escape(name)}`"


KINDS = {
    "public name": Kind(lambda: list(edgeopt.__all__), EVERYWHERE, lambda name: rf"\bedgeopt\.{name}\b"),
    "command": Kind(_commands, EVERYWHERE, _command_entry),
    "option": Kind(_options, EVERYWHERE, lambda flags: rf"(?<![\w-])({flags.replace(' ', '|')})(?![\w-])"),
    "setting": Kind(
        lambda: [*DriftSettings.__struct_fields__, *Settings.__struct_fields__], ("docs/agent.md",), _quoted
    ),
    "setting of MQTT": Kind(lambda: list(MqttSettings.__struct_fields__), ("docs/fleet.md",), _quoted),
    "command of MQTT": Kind(lambda: [row.name for row in TABLE], ("docs/fleet.md",), _quoted),
    "route": Kind(_routes, ("docs/agent.md",), _route_entry),
    "parameter": Kind(_parameters, ("docs/agent.md",), _parameter_entry),
    "metric": Kind(_metrics, ("docs/agent.md",), lambda name: rf"^\| `{name}` \|"),
    "method": Kind(_methods, ("docs/agent.md",), _quoted),
    "refusal": Kind(_refusals, ("docs/agent.md",), lambda code: rf"^\| `{code}` \|"),
    "error": Kind(_errors, ("docs/python.md",), _error_entry),
    "record": Kind(_records, ("docs/python.md",), lambda row: rf"^{re.escape(row)}$"),
    "plug-in entry point": Kind(
        lambda: list(manifest.GROUPS), ("docs/plugins.md",), lambda group: rf"^\| [^|]+ \| `{group}` \|"
    ),
    "exit code": Kind(_exit_codes, ("README.md",), lambda code: rf"Exit codes: .*\b{code} "),
}
