"""`edgeopt schema`: JSON Schemas of records and files."""

import json as json_text
from typing import TYPE_CHECKING

from edgeopt.cli.console import JsonFlag, asks, execute
from edgeopt.commands.schema import SchemaRequest
from edgeopt.views.blocks import Block, Row, Table, columns, filled

if TYPE_CHECKING:
    from edgeopt.commands.schema import SchemaList


@asks(SchemaRequest)
def schema(request: SchemaRequest, json: JsonFlag = False) -> None:
    """Print the JSON Schema of what a command prints with --json, or of a file.

    \b
    With --json, each command prints one record per line; `edgeopt schema events` describes the lines.
    The last line has the result in `data`, described by the record that `kind` names. A number that
    is not finite is null.

    \b
    Examples:
      edgeopt schema
      edgeopt schema optimize > optimize.schema.json
      edgeopt schema deployment.toml
    """
    from edgeopt.commands.schema import schemas

    execute("schema", lambda _emit: schemas(request), show, json)


def show(found: "SchemaList") -> "list[Block] | str":
    if found.schema is not None:
        return json_text.dumps(found.schema, indent=2, ensure_ascii=False)
    rows = tuple(Row((each.name, each.title)) for each in found.records)
    return [filled(Table(columns("=Record", "Description"), rows))]
