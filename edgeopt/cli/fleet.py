"""`edgeopt fleet`: agents on this and other devices."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgeopt.cli import program
from edgeopt.cli.console import JsonFlag, execute
from edgeopt.cli.fleet_show import show_deployment, show_releases, show_status, show_watched

if TYPE_CHECKING:
    from edgeopt.events import Emit
    from edgeopt.fleet.client import Agent
    from edgeopt.fleet.monitor import Watched

UrlOption = Annotated[str, typer.Option(help="Where the agent is: http://host:port, host:port or host.")]
LOCAL = "http://127.0.0.1:8080"
GOES_ON = "the agent goes on with what it has (edgeopt fleet status; edgeopt fleet rollback takes it back)"


def _fleet(context: typer.Context) -> None:
    """Deploy bundles to agents, see what they serve, watch them, take back. All speak --json.

    \b
    An agent runs on each device: edgeopt-agent run. It listens on its own device alone; reach
    another one's through a tunnel: ssh -L 8080:127.0.0.1:8080 DEVICE

    \b
    Examples:
      edgeopt fleet deploy model.edgeopt --url 127.0.0.1:8080
      edgeopt fleet status --json
      edgeopt fleet watch --send 20
      edgeopt fleet rollback
    """
    program.help_without_command(context)


def status(url: UrlOption = LOCAL, json: JsonFlag = False) -> None:
    """Show what an agent serves, and how its last deployment went.

    \b
    Examples:
      edgeopt fleet status
      edgeopt fleet status --url device:8080 --json | jq .data.state
    """
    execute("status", lambda _emit: _agent(url).status(), show_status, json)


def releases(url: UrlOption = LOCAL, json: JsonFlag = False) -> None:
    """List the releases on a device, and why some are refused.

    \b
    Examples:
      edgeopt fleet releases
      edgeopt fleet releases --url device --json
    """
    execute("releases", lambda _emit: _agent(url).releases(), show_releases, json)


def deploy(
    bundle: Annotated[Path, typer.Argument(help="A bundle: a folder or a single file.", show_default=False)],
    url: UrlOption = LOCAL,
    force: Annotated[
        bool, typer.Option("--force", help="Also when it failed before, or was proved on another device.")
    ] = False,
    soak_seconds: Annotated[
        float | None, typer.Option(help="How long it must prove itself; the agent's own choice by default.", min=0)
    ] = None,
    soak_requests: Annotated[
        int | None, typer.Option(help="How many requests it must prove itself on, as well.", min=0)
    ] = None,
    no_wait: Annotated[
        bool, typer.Option("--no-wait", help="Return once the agent has the bundle, without following.")
    ] = False,
    json: JsonFlag = False,
) -> None:
    """Send a bundle to an agent and follow it until it serves for good.

    \b
    Exit code 0: it serves; 6: it was refused or taken back, and the reason is said; 4: the agent
    is busy or has no room.

    \b
    Examples:
      edgeopt fleet deploy model.edgeopt
      edgeopt fleet deploy model.edgeopt --url device:8080 --soak-seconds 60
      edgeopt fleet deploy model.edgeopt --json | jq -r '.phase // .event'
    """
    execute(
        "deploy",
        lambda emit: _agent(url).deploy(bundle, emit, force, soak_seconds, soak_requests, wait=not no_wait),
        show_deployment,
        json,
        GOES_ON,
    )


def rollback(
    url: UrlOption = LOCAL,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Return at once, without following.")] = False,
    json: JsonFlag = False,
) -> None:
    """Go back to the release that served before.

    \b
    Examples:
      edgeopt fleet rollback
      edgeopt fleet rollback --url device --json
    """
    execute("rollback", lambda emit: _agent(url).rollback(emit, wait=not no_wait), show_deployment, json, GOES_ON)


def watch(
    url: UrlOption = LOCAL,
    seconds: Annotated[float | None, typer.Option(help="How long; without it until Ctrl-C.", min=0)] = None,
    send: Annotated[
        float | None,
        typer.Option(metavar="RATE", help="Also send so many requests a second; 0: as fast as it answers.", min=0),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Samples to send (.npz or a folder of .npy); made up without them.")
    ] = None,
    clients: Annotated[int, typer.Option(help="How many clients send.", min=1, max=64)] = 2,
    json: JsonFlag = False,
) -> None:
    """Watch an agent live: latency, throughput, memory, load, and deployments as they happen.

    \b
    Latency is that of the requests which the agent serves: without any there is none to show, and
    --send makes some.

    \b
    Examples:
      edgeopt fleet watch
      edgeopt fleet watch --send 20 --data data.npz --seconds 60
      edgeopt fleet watch --json | jq 'select(.name == "latency_p99_ms").value'
    """

    def work(emit: "Emit") -> "Watched":
        from edgeopt.fleet.monitor import monitor

        return monitor(url, emit, seconds, send, data, clients)

    if json:
        execute("watch", work, show_watched, json)
        return
    from edgeopt.cli.watch_display import LiveTable, PlainLines

    display = LiveTable() if sys.stdout.isatty() else PlainLines()

    def shown(emit: "Emit") -> "Watched":
        with display:
            return work(lambda event: display.tell(event, emit))

    execute("watch", shown, show_watched)


def _agent(url: str) -> "Agent":
    from edgeopt.fleet.client import Agent

    return Agent(url)


# In the order of work, which is the order in `--help`.
COMMANDS: tuple[Callable[..., None], ...] = (status, releases, deploy, rollback, watch)

fleet = program.application(_fleet)
for command in COMMANDS:
    program.add(fleet, command.__name__, command)
