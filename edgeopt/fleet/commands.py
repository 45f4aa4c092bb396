"""What `edgeopt fleet` and `edgeopt-agent` ask of an agent, here or elsewhere."""

from edgeopt.events import Emit
from edgeopt.fleet.client import Agent
from edgeopt.fleet.records import Deployment, Releases, Status
from edgeopt.fleet.request import DeployRequest, LookRequest, RollbackRequest


def status(request: LookRequest) -> Status:
    return Agent(request.url).status()


def releases(request: LookRequest) -> Releases:
    return Agent(request.url).releases()


def deploy(request: DeployRequest, emit: Emit) -> Deployment:
    soak = request.soak_seconds, request.soak_requests
    return Agent(request.url).deploy(request.bundle, emit, request.force, *soak, wait=not request.no_wait)


def rollback(request: RollbackRequest, emit: Emit) -> Deployment:
    return Agent(request.url).rollback(emit, wait=not request.no_wait)
