"""`edgeopt-agent openapi`: the HTTP API for programs that read OpenAPI."""

import json as json_text
from typing import Any

import msgspec

from edgeopt.cli.console import JsonFlag, execute


class Description(msgspec.Struct, frozen=True):
    openapi: dict[str, Any]


def openapi(json: JsonFlag = False) -> None:
    """Print the OpenAPI description of the HTTP API: routes, roles, parameters, bodies, answers.

    \b
    A running agent serves it at /api/v1/openapi.json. With --json, the description is in
    `data.openapi` of the last line.

    \b
    Examples:
      edgeopt-agent openapi > openapi.json
    """
    execute("openapi", lambda _emit: _description(), _show, json)


def _description() -> Description:
    from edgeopt_agent.http.openapi import text

    return Description(json_text.loads(text()))


def _show(found: Description) -> str:
    return json_text.dumps(found.openapi, indent=2, ensure_ascii=False)
