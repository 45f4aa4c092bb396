"""Nothing that users can name is missing in the documents, and the check of each kind notices what is."""

import re
import shutil
from dataclasses import replace

import msgspec
import pytest
import typer

import edgeopt
from edgeopt import errors
from edgeopt.commands import schema
from edgeopt.plugins import manifest
from edgeopt_agent import main as agent_main
from edgeopt_agent.http.table import QueryParameter, RouteEntry
from tests import documented
from tests.documented import KINDS

FEWEST = {"plug-in entry point": 4}


@pytest.mark.parametrize("kind", KINDS)
def test_everything_of_a_kind_is_documented(kind):
    assert len(KINDS[kind].names()) >= FEWEST.get(kind, 6)
    assert KINDS[kind].undocumented(KINDS[kind].text()) == []


@pytest.mark.parametrize("kind", KINDS)
def test_entry_that_is_lost_is_noticed(kind):
    each = KINDS[kind]
    name = each.names()[-1]
    lines = each.text().splitlines()
    left = [line for line in lines if not re.search(each.entry(name), line)]
    assert len(left) < len(lines)
    assert name in each.undocumented("\n".join(left))


def _planted_command(
    planted: str = typer.Option("", "--planted-option", help="An option that no page has."),
) -> None:
    """A command that no page has."""


def plant_command(patch, _folder):
    patch.setattr(agent_main, "COMMANDS", (*agent_main.COMMANDS, ("planted", _planted_command)))


def plant_route(patch, _folder):
    entry = RouteEntry("GET", "/api/v1/planted", "A route that no page has")
    patch.setattr(documented, "ROUTES", (*documented.ROUTES, entry))


def plant_parameter(patch, _folder):
    parameter = QueryParameter("planted", "flag", "A parameter that no page has.")
    patch.setattr(documented, "PARAMETERS", {**documented.PARAMETERS, "/api/v1/status": (parameter.name,)})


def plant_record(patch, _folder):
    record = schema.RecordType("planted", "A record that no page has", ())
    patch.setattr(schema, "RESULTS", (*schema.RESULTS, record))


def plant_setting(name):
    """A setting more in a section of agent.toml."""

    def plant(patch, _folder):
        known = getattr(documented, name)
        patch.setattr(
            documented, name, msgspec.defstruct(name, [("planted", int, 0)], bases=(known,), frozen=True)
        )

    return plant


def plant_line(file, line):
    """A line more in a file of the agent."""

    def plant(patch, folder):
        copy = folder / "edgeopt_agent"
        shutil.copytree(documented.AGENT, copy, ignore=shutil.ignore_patterns("__pycache__"))
        with (copy / file).open("a") as opened:
            opened.write(f"\n{line}\n")
        patch.setattr(documented, "AGENT", copy)

    return plant


PLANTED = {
    "public name": (
        lambda patch, _: patch.setattr(edgeopt, "__all__", [*edgeopt.__all__, "planted"]),
        "planted",
    ),
    "command": (plant_command, "edgeopt-agent planted"),
    "option": (plant_command, "--planted-option"),
    "setting": (plant_setting("Settings"), "planted"),
    "setting of MQTT": (plant_setting("MqttSettings"), "planted"),
    "command of MQTT": (
        lambda patch, _: patch.setattr(
            documented, "TABLE", (*documented.TABLE, replace(documented.TABLE[0], name="planted"))
        ),
        "planted",
    ),
    "route": (plant_route, "GET /api/v1/planted"),
    "parameter": (plant_parameter, "/api/v1/status?planted"),
    "metric": (plant_line("http/metrics.py", 'PLANTED = "edgeopt_planted_total"'), "edgeopt_planted_total"),
    "method": (plant_line("grpc/methods.py", 'PLANTED = "ModelPlanted"'), "ModelPlanted"),
    "refusal": (plant_line("http/early.py", 'Refusal(400, "planted", "")'), "planted"),
    "error": (
        lambda patch, _: patch.setattr(
            errors, "PlantedError", type("PlantedError", (errors.EdgeoptError,), {}), raising=False
        ),
        "PlantedError",
    ),
    "exit code": (lambda patch, _: patch.setattr(errors, "EXIT_PLANTED", 99, raising=False), "99"),
    "record": (plant_record, "| `planted` | A record that no page has |"),
    "plug-in entry point": (
        lambda patch, _: patch.setattr(manifest, "GROUPS", {**manifest.GROUPS, "edgeopt.planted": "pass"}),
        "edgeopt.planted",
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_new_name_without_a_page_is_noticed(kind, monkeypatch, tmp_path):
    plant, name = PLANTED[kind]
    each = KINDS[kind]
    assert name not in each.names()
    plant(monkeypatch, tmp_path)
    assert each.undocumented(each.text()) == [name]
