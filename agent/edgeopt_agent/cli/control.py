"""`edgeopt-agent deploy|rollback|cancel|remove|status|releases`: requests to a running agent."""

import os
import re
import shlex
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec
import typer

from edgeopt.cli.console import NOTHING, JsonFlag, asks, execute
from edgeopt.cli.fleet_show import goes_on, show_deployment, show_releases, show_removed, show_status
from edgeopt.cli.progress import with_texts
from edgeopt.errors import EdgeoptError, UsageError
from edgeopt.events import Emit
from edgeopt.fleet.request import (
    LOCAL,
    CancelRequest,
    CollectRequest,
    DeployRequest,
    LookRequest,
    RemoveRequest,
    RollbackRequest,
)
from edgeopt.views.blocks import Block

_Request = TypeVar(
    "_Request", LookRequest, CollectRequest, DeployRequest, RollbackRequest, CancelRequest, RemoveRequest
)
Outcome = TypeVar("Outcome", bound=msgspec.Struct)

AgentOption = Annotated[
    Path | None,
    typer.Option("--data-dir", help="Data folder of the agent; its address is read there.", show_default=False),
]


@asks(DeployRequest)
def deploy(request: DeployRequest, data_dir: AgentOption = None, json: JsonFlag = False) -> None:
    """Deploy a bundle to an agent and follow it through its soak (trial period).

    \b
    Exit code 0: the release is committed; 6: it was refused or rolled back, with the reason; 4:
    the agent is busy; 3: the bundle is damaged, or the agent's disk is full; 5: no agent answers.

    \b
    Examples:
      edgeopt-agent deploy model.edgeopt
      edgeopt-agent deploy model.edgeopt --force --no-wait
      edgeopt-agent deploy detector.edgeopt --add
      edgeopt-agent deploy oci://registry.example.com/models/detector:v1
      edgeopt-agent deploy --from https://host/model.edgeopt --digest sha256:…
    """
    from edgeopt.fleet import commands

    ask("deploy", request, data_dir, commands.deploy, show_deployment, json, follows=True)


@asks(RollbackRequest)
def rollback(request: RollbackRequest, data_dir: AgentOption = None, json: JsonFlag = False) -> None:
    """Return to the release served before.

    \b
    Examples:
      edgeopt-agent rollback
      edgeopt-agent rollback --to 0123456789ab
      edgeopt-agent rollback --url 127.0.0.1:9000 --json
    """
    from edgeopt.fleet import commands

    ask("rollback", request, data_dir, commands.rollback, show_deployment, json, follows=True)


@asks(CancelRequest)
def cancel(request: CancelRequest, data_dir: AgentOption = None, json: JsonFlag = False) -> None:
    """Cancel the running deployment; the release before it stays in service.

    \b
    Examples:
      edgeopt-agent cancel
      edgeopt-agent cancel --url 127.0.0.1:9000 --json
    """
    from edgeopt.fleet import commands

    ask("cancel", request, data_dir, commands.cancel, show_deployment, json, follows=True)


@asks(RemoveRequest)
def remove(request: RemoveRequest, data_dir: AgentOption = None, json: JsonFlag = False) -> None:
    """Stop a model that was deployed with --add, and delete its releases.

    \b
    Examples:
      edgeopt-agent remove detector
    """
    from edgeopt.fleet import commands

    ask("remove", request, data_dir, lambda local, _emit: commands.remove(local), show_removed, json)


@asks(LookRequest)
def status(request: LookRequest, data_dir: AgentOption = None, json: JsonFlag = False) -> None:
    """Show the serving releases and the result of the last deployment.

    \b
    Examples:
      edgeopt-agent status
      edgeopt-agent status --json | jq .data.serving
    """
    from edgeopt.fleet import commands

    ask("status", request, data_dir, lambda local, _emit: commands.status(local), show_status, json)


@asks(LookRequest)
def releases(request: LookRequest, data_dir: AgentOption = None, json: JsonFlag = False) -> None:
    """List the releases on the device, and why some are refused.

    \b
    Examples:
      edgeopt-agent releases
      edgeopt-agent releases --json | jq '.data.releases[].id'
    """
    from edgeopt.fleet import commands

    ask("releases", request, data_dir, lambda local, _emit: commands.releases(local), show_releases, json)


def ask(
    kind: str,
    request: _Request,
    data_dir: Path | None,
    work: Callable[[_Request, Emit], Outcome],
    show: Callable[[Outcome], Sequence[Block]],
    json: bool,
    *,
    follows: bool = False,
) -> None:
    """Asks the agent and shows the answer; the commands that either names are those of this program."""
    rewrite = partial(_in_this_program, request=request, data_dir=data_dir)

    def run(emit: Emit) -> Outcome:
        try:
            return work(with_local_address(request, data_dir), emit)
        except EdgeoptError as error:
            error.hint, error.message = rewrite(error.hint), rewrite(error.message)
            error.args = (error.message,)
            raise

    def shown(result: Outcome) -> Sequence[Block]:
        return [with_texts(each, rewrite) for each in show(result)]

    execute(kind, run, shown, json, rewrite(goes_on(LOCAL)) if follows else NOTHING)


def with_local_address(request: _Request, data_dir: Path | None = None) -> _Request:
    """Returns the request with address and certificate of the agent on this device, where it is for that one.

    A data folder that is named is asked where its agent listens, unless the request has an address of its own.
    """
    from edgeopt.fleet.address import PORT, parse
    from edgeopt.fleet.transport import unreachable
    from edgeopt.platform.user_folders import expanded
    from edgeopt_agent.certificate import listening, read
    from edgeopt_agent.settings import administered_data_dir
    from edgeopt_agent.trust import is_loopback

    try:
        folder = administered_data_dir() if data_dir is None else expanded(data_dir).absolute()
    except UsageError:  # a user without a home folder
        return request
    found = listening(folder)
    if found is None:
        if data_dir is not None and request.url == LOCAL:
            if folder.exists() and not os.access(folder, os.R_OK | os.X_OK):
                raise UsageError(
                    f"The data folder '{folder}' belongs to another user.",
                    "Run this as root or as the agent's user, or name the address of the agent with --url.",
                )
            raise unreachable(
                f"No agent has told in '{folder}' where it listens.",
                f"Start one: edgeopt-agent run --data-dir {shlex.quote(str(folder))}; or name another with --url.",
            )
        return request
    unnamed = request.url == LOCAL and (data_dir is not None or found.port == PORT)
    address = parse(found.url if unnamed else request.url)
    if not unnamed and not (
        address.port == found.port and (is_loopback(address.host) or address.host == found.host)
    ):
        return request
    known_by, scheme = request.fingerprint, address.scheme
    if found.certificate and not known_by:
        known_by, scheme = read(Path(found.certificate), folder).fingerprint, "https"
    return msgspec.structs.replace(request, url=f"{scheme}://{address.place}", fingerprint=known_by)


_FLEET_COMMAND = re.compile(
    r"\bedgeopt fleet (status|releases|rollback|cancel|remove|deploy(?: BUNDLE)?)\b"
    r"(?: --url (?:'[^']*'|[^\s'`;,)]+))?(?: --fingerprint \S+\b)?"
)


def _in_this_program(text: str, request: _Request, data_dir: Path | None) -> str:
    """Returns a sentence whose commands are those of `edgeopt-agent`, and select the agent as this one did."""
    from edgeopt_agent.own_commands import in_commands_of

    selection = "" if request.url == LOCAL else f" --url {shlex.quote(request.url)}"
    selection += f" --fingerprint {request.fingerprint}" if request.fingerprint else ""
    if data_dir is not None:
        selection += f" --data-dir {shlex.quote(str(data_dir))}"
        text = in_commands_of(text, data_dir)
    return _FLEET_COMMAND.sub(lambda command: f"edgeopt-agent {command[1]}{selection}", text)
