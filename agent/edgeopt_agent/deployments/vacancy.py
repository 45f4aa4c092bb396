"""The reason why no release of a model serves after a deployment that left none."""

from edgeopt_agent.deployments.machine import Machine
from edgeopt_agent.deployments.site import current
from edgeopt_agent.deployments.states import State
from edgeopt_agent.workers.names import Vacancy

_ENDINGS = {
    State.ROLLING_BACK: "is being rolled back",
    State.FAILED: "was refused",
    State.ROLLED_BACK: "was rolled back",
    State.DEGRADED: "could not be rolled back",
}


def vacancy(machine: Machine) -> Vacancy | None:
    """Returns the release that no longer or never served; None while one serves, should, or is being deployed."""
    site, newest = machine.site, machine.newest
    if newest is None or newest.state not in _ENDINGS:
        return None
    leaves = newest.state is State.ROLLING_BACK and newest.old is None  # the link goes last
    if site.router.serving is not None or (current(site) is not None and not leaves):
        return None
    release = f"The release {newest.release}" if newest.release else "The bundle"
    of = f" of '{newest.name}'" if newest.name else ""
    deploy = f"edgeopt-agent deploy BUNDLE{' --add' if site.model else ''}"
    message = f"{release}{of} {_ENDINGS[newest.state]}: {newest.reason} Deploy a bundle that works: {deploy}"
    return Vacancy(newest.name, message)
