"""Names, options, settings, routes, metrics and errors: none is missing in the documents."""

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import typer

import edgeopt
from edgeopt import errors
from edgeopt.cli.main import application
from edgeopt_agent.drift.settings import DriftSettings
from edgeopt_agent.http.app import PARAMETERS
from edgeopt_agent.http.control import PREFIX
from edgeopt_agent.main import application as agent_application
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


def _options() -> list[str]:
    programs = (application(), agent_application())
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
    """Those of the control are in a table of method and path; those of inference are known by their last part."""
    control, inference = (
        ast.parse((AGENT / "http" / f"{name}.py").read_text()) for name in ("control", "inference")
    )
    found = {
        f"{row.elts[0].value} {PREFIX}{re.sub('{.*}', 'ID', row.elts[1].value)}"
        for row in ast.walk(control)
        if isinstance(row, ast.Tuple) and getattr(row.elts[0], "value", "") in {"GET", "POST"}
    }
    found |= {
        f"/v2/models/NAME/{node.comparators[0].value}"
        for node in ast.walk(inference)
        if isinstance(node, ast.Compare) and isinstance(node.left, ast.Name) and node.left.id == "last"
    }
    texts = _constants("http/inference.py", "http/metrics.py", "http/telemetry.py", "http/trials.py")
    return sorted(found | {text for text in texts if re.fullmatch(r"/(v2|api|metrics)\b[\w/]*\w", text)})


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
            for call in ast.walk(ast.parse(path.read_text()))
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


def _exit_codes() -> list[str]:
    constants = {str(code) for name, code in vars(errors).items() if name.startswith("EXIT_")}
    return sorted({str(getattr(errors, name).exit_code) for name in _errors()} | constants)


def _quoted(name: str) -> str:
    return rf"`{re.escape(name)}`"


KINDS = {
    "public name": Kind(lambda: list(edgeopt.__all__), EVERYWHERE, lambda name: rf"\bedgeopt\.{name}\b"),
    "option": Kind(_options, EVERYWHERE, lambda flags: rf"(?<![\w-])({flags.replace(' ', '|')})(?![\w-])"),
    "setting": Kind(
        lambda: [*DriftSettings.__struct_fields__, *Settings.__struct_fields__], ("docs/agent.md",), _quoted
    ),
    "setting of MQTT": Kind(lambda: list(MqttSettings.__struct_fields__), ("docs/fleet.md",), _quoted),
    "command of MQTT": Kind(lambda: [row.name for row in TABLE], ("docs/fleet.md",), _quoted),
    "route": Kind(_routes, ("docs/agent.md",), lambda route: rf"`(?:\w+ )?{route}[?`]"),
    "parameter": Kind(_parameters, ("docs/agent.md",), _parameter_entry),
    "metric": Kind(_metrics, ("docs/agent.md",), lambda name: rf"^\| `{name}` \|"),
    "method": Kind(_methods, ("docs/agent.md",), _quoted),
    "refusal": Kind(_refusals, ("docs/agent.md",), lambda code: rf"^\| `{code}` \|"),
    "error": Kind(_errors, ("docs/python.md",), _error_entry),
    "exit code": Kind(_exit_codes, ("README.md",), lambda code: rf"Exit codes: .*\b{code} "),
}


@pytest.mark.parametrize("kind", KINDS)
def test_everything_of_a_kind_is_documented(kind):
    assert len(KINDS[kind].names()) >= 6
    assert KINDS[kind].undocumented(KINDS[kind].text()) == []


@pytest.mark.parametrize("kind", KINDS)
def test_entry_that_is_lost_is_noticed(kind):
    each = KINDS[kind]
    name = each.names()[-1]
    lines = each.text().splitlines()
    left = [line for line in lines if not re.search(each.entry(name), line)]
    assert len(left) < len(lines)
    assert name in each.undocumented("\n".join(left))
