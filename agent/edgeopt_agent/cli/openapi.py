"""`edgeopt-agent openapi`: the HTTP API for programs that read OpenAPI."""

import json

import typer


def openapi() -> None:
    """Print the OpenAPI description of the HTTP API: routes, roles, parameters, bodies, answers.

    An agent that runs serves it at /api/v1/openapi.json.

    \b
    Examples:
      edgeopt-agent openapi > openapi.json
    """
    from edgeopt_agent.http.openapi import text

    typer.echo(json.dumps(json.loads(text()), indent=2, ensure_ascii=False))
