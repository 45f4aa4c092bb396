"""Answers of the control API with everything that an agent of this version sends, for the OpenAPI document.

Clients read the records in `edgeopt.fleet.records`, which leave out what they do not need.
"""

import msgspec

from edgeopt.fleet import records
from edgeopt.hw.device import Device
from edgeopt_agent.journal import Entry
from edgeopt_agent.workers.confinement import WorkerLimit


class DeviceAnswer(msgspec.Struct, frozen=True):
    device: Device
    agent: str
    """The version of the agent."""


class Deployment(records.FleetDeployment, frozen=True):
    summary: str = ""
    old: str | None = None
    """The release that served before."""
    source: str | None = None
    """URL from which the agent fetched the bundle, without secrets."""
    force: bool = False


class DeploymentAnswer(msgspec.Struct, frozen=True):
    deployment: Deployment


class DesiredAnswer(msgspec.Struct, frozen=True):
    """The deployment of one bundle, or the order of several models."""

    deployment: Deployment | None = None
    order: records.FleetOrder | None = None


class ServedModel(records.ModelStatus, frozen=True):
    deployment: Deployment | None = None
    worker_limits: tuple[WorkerLimit, ...] | None = None
    hangs: int = 0
    crashes: int = 0
    memory_restarts: int = 0


class StatusAnswer(ServedModel, frozen=True):
    """The status of one model, and that of all of them."""

    uptime_s: float = 0.0
    models: tuple[ServedModel, ...] = ()
    order: records.FleetOrder | None = None
    """The last order of several models."""
    watched: tuple[records.RefusedFile, ...] = ()
    """The files in the watched folder that are refused."""


class JournalAnswer(msgspec.Struct, frozen=True):
    events: tuple[Entry, ...]
    next: int
