"""State that the parts of the deployments share: one agent's folders, journal, router and device."""

import asyncio
import shlex
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from edgeopt.bundle.deployment import FILE, read_deployment
from edgeopt.errors import EdgeoptError
from edgeopt.fleet.records import deployment_title
from edgeopt.hw.device import Device
from edgeopt_agent.data_dir import DataDir, point, pointed
from edgeopt_agent.deployments.joint import Joint
from edgeopt_agent.deployments.memory_restarts import MemoryRestarts
from edgeopt_agent.deployments.observed import Observed
from edgeopt_agent.deployments.record import Detail, Record, Soaked
from edgeopt_agent.deployments.states import Event
from edgeopt_agent.journal import Journal
from edgeopt_agent.settings import Settings
from edgeopt_agent.workers.process import Worker
from edgeopt_agent.workers.router import Router


async def no_order() -> Joint | None:
    return None


@dataclass(slots=True)
class Site:
    settings: Settings
    data: DataDir
    journal: Journal
    router: Router
    device: Callable[[], Awaitable[Device]]
    observed: Observed = field(default_factory=Observed)
    memory_restarts: MemoryRestarts = field(default_factory=MemoryRestarts)
    serving_lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Guards every change of the serving worker."""
    mending: asyncio.Task[object] | None = None
    """The supervisor's start of the current release, which a deployment that is ready need not wait for."""
    look: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the supervisor should see whether everything serves that should."""
    problem: str = ""
    """Reason why nothing serves although something should."""
    stranded: Record | None = None
    """Record of the last deployment if the links could not be changed: it says what serves, not the links."""
    model: str = ""
    """The name of the added model that this is; empty for the first model of the agent."""
    name_clash: Callable[[str], str] = lambda _name: ""
    """The name of another model of this agent with which this one clashes; empty where none does."""
    left_order: Callable[[], Awaitable[Joint | None]] = no_order
    """The order of several models that the last run left, with what is to become of its deployments."""
    since_s: float = 0.0
    """Since when the serving release serves, in seconds since 1970."""

    @property
    def option(self) -> str:
        """Option that selects this model in a command to copy; empty for the first model."""
        return f" --model {shlex.quote(self.model)}" if self.model else ""


@dataclass(slots=True)
class Work:
    """A deployment while it runs: its record, and what does not outlive the process."""

    record: Record
    stream: AsyncIterator[bytes] | None = None
    length: int = 0
    spooled: Path | None = None
    """The bundle, if it is already on disk and need not be received."""
    candidate: Worker | None = None
    joint: Joint | None = None
    """The order of several models that it is part of."""
    received: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once the bundle is on the disk, or will not come any more."""
    arrived: bool = False
    disk_failure: OSError | None = None
    """Failure of the device's disk that ended a step."""
    stop_requested: asyncio.Event = field(default_factory=asyncio.Event)
    stop_reason: str = ""
    holds_serving: bool = False
    soaked: Soaked = field(default_factory=Soaked)
    """Progress of the soak."""
    last_failure: str = ""
    """Last problem of a step that tries again, reported if its time runs out."""
    progress: Detail = field(default_factory=dict)
    found: dict[str, object] = field(default_factory=dict)
    """Facts found about the bundle so far, as fields of the record, whatever becomes of the step."""

    @property
    def bundle(self) -> str:
        """Name of the bundle in messages, with the digest of its manifest once that is known."""
        name, release = (str(self.found.get(key, getattr(self.record, key))) for key in ("name", "release"))
        return (f"'{name}'" if name else "that was sent") + (f" (release {release})" if release else "")


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a step, and what is now known of the deployment."""

    event: Event = Event.DONE
    reason: str = ""
    changes: dict[str, object] = field(default_factory=dict)


async def hold_serving(site: Site, work: Work) -> None:
    """Waits until this deployment alone may change which worker serves."""
    if not work.holds_serving:
        if site.mending is not None:
            site.mending.cancel()
        await site.serving_lock.acquire()
        work.holds_serving = True


def release_serving(site: Site, work: Work) -> None:
    if work.holds_serving:
        work.holds_serving = False
        site.serving_lock.release()


def put_in_service(site: Site, worker: Worker, keep_old: bool = False) -> Worker | None:
    """Requests go to this worker from now on; returns the one that it replaces."""
    site.since_s, site.problem = time.time(), ""
    return site.router.switch(worker, keep_old)


def back_to_standby(site: Site) -> None:
    site.since_s, site.problem = time.time(), ""
    site.router.back()


async def point_links(site: Site, current: str | None, previous: str | None) -> None:
    """Changes `previous` first: between both changes, `current` still leads to what served until now."""
    await asyncio.to_thread(point, site.data.previous, previous)
    await asyncio.to_thread(point, site.data.current, current)
    site.stranded = None


def unlinked_sentence(data: DataDir, error: OSError) -> str:
    return (
        f"The links in '{data.root}' could not be changed: {error.strerror}. Make that folder writable and "
        "restart the agent."
    )


def existing(data: DataDir, release_id: str | None) -> str | None:
    """Returns the release, unless its folder is gone."""
    return release_id if release_id and data.release(release_id).is_dir() else None


def current(site: Site) -> str | None:
    """Returns the release that should serve."""
    if site.stranded is not None:
        return existing(site.data, site.stranded.serves)
    return pointed(site.data.current)


def name_of(site: Site, release: str | None) -> str:
    """Returns what clients call the model of a release; empty if its name cannot be read."""
    try:
        return _name_in(site.data.release(release)) if release else ""
    except (EdgeoptError, OSError):
        return ""


@lru_cache(64)
def _name_in(folder: Path) -> str:
    """Returns the model's name, cached: requests ask for it during a start, and a release does not change."""
    return read_deployment(folder / FILE).name


def title_of(site: Site, record: Record) -> str:
    """Returns what the log calls a deployment: its number, which counts for its model alone, and that model."""
    # Until the bundle is verified, the name in the record is that of a file.
    name = site.model or (record.name if record.release else "") or name_of(site, current(site))
    return f"{deployment_title(record.kind, record.id).capitalize()} of {_quoted(name)}"


def release_title(site: Site, release: str) -> str:
    """Returns what the log calls a release outside of a deployment."""
    return f"Release {release} of {_quoted(site.model or name_of(site, release))}"


def _quoted(model: str) -> str:
    return f"'{model}'" if model else "the first model"


async def first_of(events: Iterable[asyncio.Event], timeout_s: float | None) -> None:
    """Waits until one of the events is set, or the time is up."""
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
