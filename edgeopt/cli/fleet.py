"""`edgeopt fleet`: agents on this and other devices."""

from functools import partial
from typing import TYPE_CHECKING

import typer

from edgeopt.cli import program
from edgeopt.cli.console import JsonFlag, asks, execute
from edgeopt.cli.fleet_rollout import devices, discover, rollout
from edgeopt.cli.fleet_show import goes_on, show_deployment, show_releases, show_removed, show_status, show_watched
from edgeopt.fleet.request import (
    CancelRequest,
    DeployRequest,
    FleetWatchRequest,
    LookRequest,
    PairRequest,
    RemoveRequest,
    RollbackRequest,
)
from edgeopt.views.blocks import Block, WordsBlock

if TYPE_CHECKING:
    from edgeopt.fleet.pairing import Paired


def _fleet(context: typer.Context) -> None:
    """Deploy bundles to agents, watch them, and roll back.

    \b
    Each device runs an agent: edgeopt-agent run. By default it accepts connections from its own
    device only. An agent that listens on the network uses HTTPS and an access token: set
    EDGEOPT_TOKEN and EDGEOPT_FINGERPRINT, or pass --token and --fingerprint.
    All commands take --json. devices and rollout use an MQTT broker instead: see docs/fleet.md.

    \b
    Examples:
      edgeopt fleet pair --url https://device:8080
      edgeopt fleet deploy model.edgeopt --url 127.0.0.1:8080
      edgeopt fleet status --json
      edgeopt fleet watch --send 20
      edgeopt fleet rollback
    """
    program.help_without_command(context)


@asks(PairRequest)
def pair(request: PairRequest, json: JsonFlag = False) -> None:
    """Get an access token with a code shown by the device.

    \b
    First run on the device: edgeopt-agent pair NAME --role deploy. The token and the fingerprint of
    the certificate are stored, so later commands with this --url need neither --token nor
    --fingerprint.

    \b
    Examples:
      edgeopt fleet pair --url https://device:8080
    """
    from edgeopt.fleet import pairing

    execute("pair", lambda _emit: pairing.pair(request), _show_paired, json)


def _show_paired(result: "Paired") -> list[Block]:
    text = f"Paired with {result.url} as '{result.name}' (role {result.role})."
    kept = f"Token and fingerprint are stored in {result.stored_in}, readable only by you."
    return [
        WordsBlock(text),
        *([WordsBlock(result.fingerprint)] if result.fingerprint else []),
        WordsBlock(kept),
    ]


@asks(LookRequest)
def status(request: LookRequest, json: JsonFlag = False) -> None:
    """Show the release that an agent serves, and its last deployment.

    \b
    Examples:
      edgeopt fleet status
      edgeopt fleet status --url https://device:8080 --json | jq .data.state
    """
    from edgeopt.fleet import commands

    show = partial(show_status, url=request.url, fingerprint=request.fingerprint)
    execute("status", lambda _emit: commands.status(request), show, json)


@asks(LookRequest)
def releases(request: LookRequest, json: JsonFlag = False) -> None:
    """List the releases on a device, and why some are refused.

    \b
    Examples:
      edgeopt fleet releases
      edgeopt fleet releases --url device --json
    """
    from edgeopt.fleet import commands

    show = partial(show_releases, url=request.url, fingerprint=request.fingerprint)
    execute("releases", lambda _emit: commands.releases(request), show, json)


@asks(DeployRequest)
def deploy(request: DeployRequest, json: JsonFlag = False) -> None:
    """Deploy a bundle to an agent and follow it through its soak (trial period).

    \b
    Exit code 0: the release is committed; 6: it was refused or rolled back, with the reason; 4: the
    agent is busy; 3: the disk of the device is full. With --from the agent fetches the bundle
    itself, from where fetch_from in its agent.toml allows.

    \b
    Examples:
      edgeopt fleet deploy model.edgeopt
      edgeopt fleet deploy model.edgeopt --dry-run
      edgeopt fleet deploy model.edgeopt --url device:8080 --soak-seconds 60
      edgeopt fleet deploy detector.edgeopt --add
      edgeopt fleet deploy oci://registry.example.com/models/detector:v1
      edgeopt fleet deploy --from https://host/model.edgeopt --digest sha256:… --url device
      edgeopt fleet deploy model.edgeopt --json | jq -r '.phase // .event'
    """
    from edgeopt.fleet import commands

    left = goes_on(request.url, request.fingerprint)
    execute("deploy", lambda emit: commands.deploy(request, emit), show_deployment, json, left)


@asks(RollbackRequest)
def rollback(request: RollbackRequest, json: JsonFlag = False) -> None:
    """Return to the release served before.

    \b
    Examples:
      edgeopt fleet rollback
      edgeopt fleet rollback --to 0123456789ab
      edgeopt fleet rollback --url device --json
    """
    from edgeopt.fleet import commands

    left = goes_on(request.url, request.fingerprint)
    execute("rollback", lambda emit: commands.rollback(request, emit), show_deployment, json, left)


@asks(CancelRequest)
def cancel(request: CancelRequest, json: JsonFlag = False) -> None:
    """Cancel the running deployment; the release before it stays in service.

    \b
    Examples:
      edgeopt fleet cancel
      edgeopt fleet cancel --url 127.0.0.1:9000 --json
    """
    from edgeopt.fleet import commands

    left = goes_on(request.url, request.fingerprint)
    execute("cancel", lambda emit: commands.cancel(request, emit), show_deployment, json, left)


@asks(RemoveRequest)
def remove(request: RemoveRequest, json: JsonFlag = False) -> None:
    """Stop a model that was deployed with --add, and delete its releases.

    \b
    Examples:
      edgeopt fleet remove detector --url device
    """
    from edgeopt.fleet import commands

    execute("remove", lambda _emit: commands.remove(request), show_removed, json)


@asks(FleetWatchRequest)
def watch(request: FleetWatchRequest, json: JsonFlag = False) -> None:
    """Show an agent's latency, throughput, memory, load and deployments live.

    \b
    Latency is that of the requests the agent serves; --send creates some.

    \b
    Examples:
      edgeopt fleet watch
      edgeopt fleet watch --send 20 --data data.npz --seconds 60
      edgeopt fleet watch --json | jq 'select(.name == "latency_p99_ms").value'
    """

    from edgeopt.cli.watch import live
    from edgeopt.fleet import commands

    live(lambda emit: commands.watch(request, emit), show_watched, json)


fleet = program.application(
    _fleet, pair, status, releases, deploy, rollback, cancel, remove, watch, discover, devices
)
program.add(fleet, "rollout", rollout)
