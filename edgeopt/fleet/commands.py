"""Commands of `edgeopt fleet` and `edgeopt-agent` to an agent, here or elsewhere."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import msgspec

from edgeopt.errors import EdgeoptError, UsageError
from edgeopt.events import Emit, Progress
from edgeopt.fleet.address import in_commands
from edgeopt.fleet.client import Agent, DeployOptions
from edgeopt.fleet.pairing import address_of
from edgeopt.fleet.records import Collected, DeployPlan, FleetDeployment, Releases, Removed, Status
from edgeopt.fleet.request import (
    CancelRequest,
    CollectRequest,
    DeployRequest,
    FleetWatchRequest,
    LookRequest,
    RemoveRequest,
    RollbackRequest,
)
from edgeopt.registry.reference import SCHEME, is_reference, read_reference

if TYPE_CHECKING:
    from edgeopt.fleet.monitor import WatchedAgent


def status(request: LookRequest) -> Status:
    with _naming_agent(request):
        return _agent(request).status()


def releases(request: LookRequest) -> Releases:
    with _naming_agent(request):
        return _agent(request).releases()


def deploy(request: DeployRequest, emit: Emit) -> FleetDeployment | DeployPlan:
    options = DeployOptions(
        request.force,
        request.rename,
        request.allow_downgrade,
        request.soak_seconds,
        request.soak_requests,
        request.add,
    )
    wait = not request.no_wait
    request = _with_reference(request, emit)
    if request.bundle is not None and not (request.from_ or request.digest or request.model):
        with _naming_agent(request):
            if request.dry_run:
                from edgeopt.fleet.deploy_plan import plan_deployment

                return plan_deployment(_agent(request), request.bundle, options, emit)
            return _agent(request).deploy(request.bundle, emit, options, wait)
    if request.bundle is not None or not (request.from_ and request.digest):
        raise UsageError(
            "Deploying takes either a bundle, or --from with --digest.",
            "edgeopt fleet deploy BUNDLE, oci://HOST/REPOSITORY:TAG, or --from https://… --digest sha256:…",
        )
    if request.dry_run:
        raise UsageError(
            "--dry-run takes a bundle of this machine: the agent has not fetched one from --from yet.",
            "Deploy without --dry-run, or download the bundle and give its path.",
        )
    with _naming_agent(request):
        return _agent(request).deploy_from(request.from_, request.digest, emit, options, wait)


def _with_reference(request: DeployRequest, emit: Emit) -> DeployRequest:
    """Returns the request with the digest of a bundle in a registry; a tag is looked up once, here."""
    text = request.from_
    if request.bundle is not None and request.bundle.parts[:1] == ("oci:",) and not text:
        text = SCHEME + "/".join(request.bundle.parts[1:])  # a path has no double slash
        request = msgspec.structs.replace(request, bundle=None)
    if not is_reference(text):
        return request
    reference = read_reference(text)
    if request.digest and not reference.digest:
        known = request.digest.strip().lower()
        reference = msgspec.structs.replace(reference, digest=f"sha256:{known.removeprefix('sha256:')}")
    if not reference.digest:
        from edgeopt.registry.pull import resolve

        emit(Progress("asking the registry", reference.host))
        reference = resolve(reference)
    digest = request.digest or reference.digest
    return msgspec.structs.replace(request, from_=str(reference), digest=digest)


def rollback(request: RollbackRequest, emit: Emit) -> FleetDeployment:
    with _naming_agent(request):
        return _agent(request).rollback(emit, wait=not request.no_wait, to=request.to)


def cancel(request: CancelRequest, emit: Emit) -> FleetDeployment:
    with _naming_agent(request):
        return _agent(request).cancel(emit, wait=not request.no_wait)


def remove(request: RemoveRequest) -> Removed:
    with _naming_agent(request):
        return Agent(address_of(request.url, request.token, request.fingerprint)).remove(request.model)


def collect(request: CollectRequest) -> Collected:
    with _naming_agent(request):
        return _agent(request).collect(request.dry_run)


def watch(request: FleetWatchRequest, emit: Emit) -> "WatchedAgent":
    from edgeopt.fleet.monitor import monitor

    with _naming_agent(request):
        return monitor(request, emit)


_Request = LookRequest | CollectRequest | DeployRequest | RollbackRequest | CancelRequest


def _agent(request: _Request) -> Agent:
    return Agent(address_of(request.url, request.token, request.fingerprint), model=request.model)


@contextmanager
def _naming_agent(request: _Request | RemoveRequest | FleetWatchRequest) -> Iterator[None]:
    """Lets the commands in an error name the agent that was asked; the agent itself does not know its address."""
    try:
        yield
    except EdgeoptError as error:
        with suppress(EdgeoptError):  # an address that cannot be read is this error
            url = address_of(request.url, request.token, request.fingerprint).url
            error.hint = in_commands(error.hint, url, request.fingerprint)
            error.message = in_commands(error.message, url, request.fingerprint)
            error.args = (error.message,)
        raise
