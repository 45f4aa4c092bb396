"""`edgeopt fleet devices` and `edgeopt fleet rollout`: a fleet on an MQTT broker."""

from typing import TYPE_CHECKING

import typer

from edgeopt.cli import program
from edgeopt.cli.console import JsonFlag, asks, execute
from edgeopt.events import Emit
from edgeopt.fleet.rollout_request import (
    BrokerRequest,
    DevicesRequest,
    DiscoverRequest,
    RolloutControlRequest,
    RolloutPauseRequest,
    RolloutStartRequest,
    RolloutStatusRequest,
    in_fleet_commands,
)

if TYPE_CHECKING:
    from edgeopt.fleet.devices import FleetDevices


@asks(DiscoverRequest)
def discover(request: DiscoverRequest, json: JsonFlag = False) -> None:
    """List the agents of the local network that announce themselves by mDNS.

    \b
    Agents do so with `announce = true` in agent.toml only. An announcement proves nothing: compare
    the fingerprint with `edgeopt-agent fingerprint` on the device, or pair.

    \b
    Examples:
      edgeopt fleet discover
      edgeopt fleet discover --seconds 10 --json | jq -r '.data.agents[].url'
    """
    from edgeopt.cli.fleet_rollout_show import show_discovered
    from edgeopt.fleet import discovery

    execute("discover", lambda _emit: discovery.discover(request), show_discovered, json)


@asks(DevicesRequest)
def devices(request: DevicesRequest, json: JsonFlag = False) -> None:
    """List the devices of a fleet on an MQTT broker.

    \b
    Shows what the broker keeps: presence, release, and the last deployment of each device. With
    --follow, changes of devices and rollouts are printed as they come, also after the broker was
    away.

    \b
    Examples:
      edgeopt fleet devices --broker mqtts://broker.example.com
      edgeopt fleet devices --to site=north
      edgeopt fleet devices --follow
      edgeopt fleet devices --json | jq '.data.devices[] | select(.online | not).device'
    """
    from edgeopt.cli.fleet_rollout_show import show_devices
    from edgeopt.fleet import rollout_commands
    from edgeopt.fleet.fleet_watch import follow

    def work(emit: Emit) -> "FleetDevices":
        return follow(request, emit) if request.follow else rollout_commands.devices(request)

    execute("devices", work, show_devices, json)


def _rollout(context: typer.Context) -> None:
    """Deploy a bundle to many devices in waves; stop by itself when too many fail.

    \b
    The state of a rollout is kept on the broker: any client can continue it. All commands take
    --json and the options of the broker; EDGEOPT_BROKER replaces --broker.

    \b
    Examples:
      edgeopt fleet rollout start URL --to 'camera-*' --waves 1,10%,rest
      edgeopt fleet rollout status
      edgeopt fleet rollout pause NAME
      edgeopt fleet rollout resume NAME
      edgeopt fleet rollout rollback NAME
    """
    program.help_without_command(context)


@asks(RolloutStartRequest)
def start(request: RolloutStartRequest, json: JsonFlag = False) -> None:
    """Begin a rollout and follow it to its end.

    \b
    A wave begins when the one before is complete. A device fails if it refuses the bundle, rolls
    it back, misses a limit or takes too long. Devices that are offline do not count, and catch up
    later. Exit code 6: stopped by failures. Ctrl-C begins no further wave; resume continues.

    \b
    Examples:
      edgeopt fleet rollout start https://host/m.edgeopt --to 'camera-*'
      edgeopt fleet rollout start https://host/m.edgeopt --copy m.edgeopt --to site=north --dry-run
      edgeopt fleet rollout start URL --to @devices.txt --waves 5,25%,rest
      edgeopt fleet rollout start URL --to '*' --max-slowdown 20% --key release-key
      edgeopt fleet rollout start URL --to '*' --model eyes --also ears=URL@sha256:…
      edgeopt fleet rollout start https://host/m.onnx --to '*' --optimize \\
        --data https://host/data.npz --store https://host/found/
    """
    from edgeopt.cli.fleet_rollout_show import show_rollout
    from edgeopt.fleet import rollout_commands

    name = rollout_commands.rollout_name(request)
    left = _left(request, name)
    execute("rollout", lambda emit: rollout_commands.start(request, name, emit), show_rollout, json, left)


@asks(RolloutStatusRequest)
def status(request: RolloutStatusRequest, json: JsonFlag = False) -> None:
    """Show a rollout with all its devices, or list all rollouts.

    \b
    Examples:
      edgeopt fleet rollout status
      edgeopt fleet rollout status NAME --json | jq .data.counts
    """
    from edgeopt.cli.fleet_rollout_show import show_rollout
    from edgeopt.fleet import rollout_commands

    execute("rollout", lambda _emit: rollout_commands.status(request), show_rollout, json)


@asks(RolloutPauseRequest)
def pause(request: RolloutPauseRequest, json: JsonFlag = False) -> None:
    """Begin no further wave until the rollout is resumed.

    \b
    Devices that were ordered go on. The client that runs the rollout ends.

    \b
    Examples:
      edgeopt fleet rollout pause NAME
    """
    from edgeopt.cli.fleet_rollout_show import show_rollout
    from edgeopt.fleet import rollout_commands

    execute("rollout", lambda _emit: rollout_commands.pause(request), show_rollout, json)


@asks(RolloutControlRequest)
def resume(request: RolloutControlRequest, json: JsonFlag = False) -> None:
    """Continue a rollout that was paused, or whose client has ended.

    \b
    Examples:
      edgeopt fleet rollout resume NAME
      edgeopt fleet rollout resume NAME --key release-key
    """
    from edgeopt.cli.fleet_rollout_show import show_rollout
    from edgeopt.fleet import rollout_commands

    left = _left(request, request.name)
    execute("rollout", lambda emit: rollout_commands.go_on(request, "resume", emit), show_rollout, json, left)


@asks(RolloutControlRequest)
def cancel(request: RolloutControlRequest, json: JsonFlag = False) -> None:
    """End a rollout: no further wave, and orders not yet followed are withdrawn.

    \b
    Devices that have begun finish their deployment.

    \b
    Examples:
      edgeopt fleet rollout cancel NAME
    """
    from edgeopt.cli.fleet_rollout_show import show_rollout
    from edgeopt.fleet import rollout_commands

    execute("rollout", lambda emit: rollout_commands.go_on(request, "cancel", emit), show_rollout, json)


@asks(RolloutControlRequest)
def rollback(request: RolloutControlRequest, json: JsonFlag = False) -> None:
    """Return all devices that took the bundle to what they served before.

    \b
    Exit code 6: a device could not return.

    \b
    Examples:
      edgeopt fleet rollout rollback NAME
      edgeopt fleet rollout rollback NAME --key release-key
    """
    from edgeopt.cli.fleet_rollout_show import show_rollout
    from edgeopt.fleet import rollout_commands

    left = _left(request, request.name, "devices return on their own")
    execute("rollout", lambda emit: rollout_commands.go_on(request, "rollback", emit), show_rollout, json, left)


def _left(request: BrokerRequest, name: str, what: str = "no further wave begins") -> str:
    return in_fleet_commands(f"{what}; continue with: edgeopt fleet rollout resume {name}", request)


rollout = program.application(_rollout, start, status, pause, resume, cancel, rollback)
