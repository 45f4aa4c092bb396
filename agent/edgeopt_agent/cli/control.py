"""`edgeopt-agent deploy|rollback|status|releases`: asks a running agent, here or elsewhere."""

from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec

from edgeopt.cli.console import JsonFlag, asks, execute
from edgeopt.cli.fleet_show import goes_on, show_deployment, show_releases, show_removed, show_status
from edgeopt.errors import UsageError
from edgeopt.fleet.request import (
    CancelRequest,
    CollectRequest,
    DeployRequest,
    LookRequest,
    RemoveRequest,
    RollbackRequest,
)

_Asked = TypeVar(
    "_Asked", LookRequest, CollectRequest, DeployRequest, RollbackRequest, CancelRequest, RemoveRequest
)


@asks(DeployRequest)
def deploy(request: DeployRequest, json: JsonFlag = False) -> None:
    """Put a bundle into service, once it has proved itself.

    \b
    Exit code 0: it serves; 6: it was refused or taken back, and the reason is said; 4: the agent
    is busy; 3: the bundle is damaged, or the agent's disk is full; 5: no agent answers.

    \b
    Examples:
      edgeopt-agent deploy model.edgeopt
      edgeopt-agent deploy model.edgeopt --force --no-wait
      edgeopt-agent deploy detector.edgeopt --add
      edgeopt-agent deploy --from https://host/model.edgeopt --digest sha256:…
    """
    from edgeopt.fleet import commands

    request = here(request)
    execute("deploy", lambda emit: commands.deploy(request, emit), show_deployment, json, goes_on(request.url))


@asks(RollbackRequest)
def rollback(request: RollbackRequest, json: JsonFlag = False) -> None:
    """Go back to the release that served before.

    \b
    Examples:
      edgeopt-agent rollback
      edgeopt-agent rollback --to 0123456789ab
      edgeopt-agent rollback --url 127.0.0.1:9000 --json
    """
    from edgeopt.fleet import commands

    request = here(request)
    execute("rollback", lambda emit: commands.rollback(request, emit), show_deployment, json, goes_on(request.url))


@asks(CancelRequest)
def cancel(request: CancelRequest, json: JsonFlag = False) -> None:
    """Cancel the deployment that is going on; what served before it serves.

    \b
    Examples:
      edgeopt-agent cancel
      edgeopt-agent cancel --url 127.0.0.1:9000 --json
    """
    from edgeopt.fleet import commands

    request = here(request)
    execute("cancel", lambda emit: commands.cancel(request, emit), show_deployment, json, goes_on(request.url))


@asks(RemoveRequest)
def remove(request: RemoveRequest, json: JsonFlag = False) -> None:
    """End a model that was deployed with --add, and remove it with all its releases.

    \b
    Examples:
      edgeopt-agent remove detector
    """
    from edgeopt.fleet import commands

    request = here(request)
    execute("remove", lambda _emit: commands.remove(request), show_removed, json)


@asks(LookRequest)
def status(request: LookRequest, json: JsonFlag = False) -> None:
    """Show what the agent serves, and how its last deployment went.

    \b
    Examples:
      edgeopt-agent status
      edgeopt-agent status --json | jq .data.serving
    """
    from edgeopt.fleet import commands

    request = here(request)
    execute("status", lambda _emit: commands.status(request), partial(show_status, url=request.url), json)


@asks(LookRequest)
def releases(request: LookRequest, json: JsonFlag = False) -> None:
    """List the releases on the device, and why some are refused.

    \b
    Examples:
      edgeopt-agent releases
      edgeopt-agent releases --json | jq '.data.releases[].id'
    """
    from edgeopt.fleet import commands

    request = here(request)
    execute("releases", lambda _emit: commands.releases(request), partial(show_releases, url=request.url), json)


def here(request: _Asked) -> _Asked:
    """With the certificate of the agent on this device, where the request is for that one."""
    from edgeopt.fleet.address import parse
    from edgeopt_agent.certificate import listening, read
    from edgeopt_agent.settings import administered_data_dir
    from edgeopt_agent.trust import is_loopback

    address = parse(request.url)
    if request.fingerprint or not is_loopback(address.host):
        return request
    try:
        found = listening(administered_data_dir())
    except UsageError:  # a user without a home folder
        return request
    if found is None or not found.certificate or address.port != found.port:
        return request
    known_by = read(Path(found.certificate)).fingerprint
    return msgspec.structs.replace(request, url=f"https://{address.place}", fingerprint=known_by)
