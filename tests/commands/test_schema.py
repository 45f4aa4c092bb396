import ast
import json
from pathlib import Path

import pytest

from edgeopt.cli.main import run
from edgeopt.commands.schema import FILES, RESULTS, SchemaRequest, schemas
from edgeopt.errors import UsageError

CLI = Path(__file__).parents[2] / "edgeopt" / "cli"


def kinds_of(source):
    """The kinds of records that a file of the command line names, in `execute("kind", ...)`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "execute":
            yield from (each.value for each in ast.walk(node.args[0]) if isinstance(each, ast.Constant))


def test_every_kind_of_result_has_a_schema():
    kinds = {kind for path in CLI.glob("*.py") for kind in kinds_of(path.read_text(encoding="utf-8"))}
    assert kinds > {"optimize", "analyze", "status"}
    assert {each.name for each in RESULTS} == kinds


def test_names_are_unique_and_listed_with_titles():
    records = schemas(SchemaRequest()).records
    assert len({each.name for each in records}) == len(records) == len(FILES) + len(RESULTS)
    assert all(each.title for each in records)


@pytest.mark.parametrize("name", [each.name for each in (*FILES, *RESULTS)])
def test_a_schema_defines_all_that_it_refers_to(name):
    schema = schemas(SchemaRequest(name)).schema
    references = {part.split('"')[0] for part in json.dumps(schema).split('"#/$defs/')[1:]}
    assert references <= schema["$defs"].keys()
    assert references


@pytest.mark.parametrize(
    ("name", "hint"),
    [("optimise", "Did you mean 'optimize'?"), ("nothing", "`edgeopt schema` lists all of them.")],
)
def test_an_unknown_record_names_the_nearest(name, hint):
    with pytest.raises(UsageError) as raised:
        schemas(SchemaRequest(name))
    assert raised.value.hint == hint


def test_the_schema_is_printed_as_it_is(capfd):
    assert run(["schema", "cache"]) == 0
    schema = json.loads(capfd.readouterr().out)
    assert schema["$ref"] == "#/$defs/Listing"
