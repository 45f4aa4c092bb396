"""`edgeopt-agent deploy|rollback|status|releases`: asks a running agent, here or elsewhere."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgeopt.cli.console import JsonFlag, execute
from edgeopt.cli.fleet import GOES_ON, LOCAL, UrlOption
from edgeopt.cli.fleet_show import show_deployment, show_releases, show_status

if TYPE_CHECKING:
    from edgeopt.fleet.client import Agent

NoWaitFlag = Annotated[
    bool, typer.Option("--no-wait", help="Return once the agent has begun, without following it to the end.")
]


def deploy(
    bundle: Annotated[Path, typer.Argument(help="A bundle: a folder or a single file.", show_default=False)],
    url: UrlOption = LOCAL,
    force: Annotated[
        bool, typer.Option("--force", help="Also when it failed before, or was proved on another device.")
    ] = False,
    no_wait: NoWaitFlag = False,
    json: JsonFlag = False,
) -> None:
    """Put a bundle into service, once it has proved itself.

    \b
    Exit code 0: it serves; 6: it was refused or taken back, and the reason is said; 4: the agent
    is busy or has no room.

    \b
    Examples:
      edgeopt-agent deploy model.edgeopt
      edgeopt-agent deploy model.edgeopt --force --no-wait
    """
    execute(
        "deploy",
        lambda emit: _agent(url).deploy(bundle, emit, force, wait=not no_wait),
        show_deployment,
        json,
        GOES_ON,
    )


def rollback(url: UrlOption = LOCAL, no_wait: NoWaitFlag = False, json: JsonFlag = False) -> None:
    """Go back to the release that served before.

    \b
    Examples:
      edgeopt-agent rollback
      edgeopt-agent rollback --url 127.0.0.1:9000 --json
    """
    execute("rollback", lambda emit: _agent(url).rollback(emit, wait=not no_wait), show_deployment, json, GOES_ON)


def status(url: UrlOption = LOCAL, json: JsonFlag = False) -> None:
    """Show what the agent serves, and how its last deployment went.

    \b
    Examples:
      edgeopt-agent status
      edgeopt-agent status --json | jq .data.serving
    """
    execute("status", lambda _emit: _agent(url).status(), show_status, json)


def releases(url: UrlOption = LOCAL, json: JsonFlag = False) -> None:
    """List the releases on the device, and why some are refused.

    \b
    Examples:
      edgeopt-agent releases
      edgeopt-agent releases --json | jq '.data.releases[].id'
    """
    execute("releases", lambda _emit: _agent(url).releases(), show_releases, json)


def _agent(url: str) -> "Agent":
    from edgeopt.fleet.client import Agent

    return Agent(url)
