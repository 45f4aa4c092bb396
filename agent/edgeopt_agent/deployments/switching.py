"""SWITCHING and ROLLING_BACK: which release serves, on the disk and in the router."""

import contextlib
import logging

from edgeopt_agent.deployments.probing import start_checked
from edgeopt_agent.deployments.record import Record
from edgeopt_agent.deployments.refused import StepError
from edgeopt_agent.deployments.site import (
    Outcome,
    Site,
    Work,
    back_to_standby,
    existing,
    point_links,
    put_in_service,
    unlinked_sentence,
)
from edgeopt_agent.deployments.states import Event
from edgeopt_agent.journal import JournalError
from edgeopt_agent.retention import discard
from edgeopt_agent.workers.process import Worker

log = logging.getLogger(__name__)

FAREWELL_S = 1.0
"""Time for a worker that is taken out of service to finish what it has begun."""


async def switch(site: Site, work: Work) -> Outcome:
    record = work.record
    if record.kind == "remove":
        return await _take_out(site, record)
    if work.candidate is None:  # the agent started again in the middle
        work.candidate, _ = await start_checked(site, record.release)
    previous = await _next_older(site, record) if record.kind == "rollback" else record.old
    unlinked = ""
    try:
        await point_links(site, record.release, existing(site.data, previous))
    except OSError as error:
        if record.kind != "rollback" or work.joint is not None:
            raise
        unlinked = unlinked_sentence(site.data, error)  # going back must not depend on them
    site.observed.begin(record.release)
    replaced = put_in_service(site, work.candidate, keep_old=record.old is not None)
    if record.old is None and replaced is not None:
        await replaced.stop(FAREWELL_S)
    message = f"{record.release} serves" + (f" instead of {record.old}" if record.old else "")
    if unlinked:
        return Outcome(Event.UNLINKED, f"{message}. {unlinked}", {"serves": record.release})
    return Outcome(reason=message)


async def _take_out(site: Site, record: Record) -> Outcome:
    """Lets the model serve no longer; until the order is committed, its worker stays ready to return."""
    await point_links(site, None, record.old)
    site.problem = ""  # nothing should serve
    if site.router.serving is not None:
        site.router.switch(None, keep_old=True)
    return Outcome(reason=f"{record.old} serves no longer")


async def _next_older(site: Site, record: Record) -> str | None:
    """Returns the release to roll back to after this rollback; never the one that this rollback leaves."""
    try:
        chain = await site.journal.succession()
    except JournalError as error:  # going back must not depend on it
        log.error("%s", error)
        return None
    if record.release in chain:
        del chain[chain.index(record.release) :]
    return next((each for each in reversed(chain) if each != record.old and existing(site.data, each)), None)


async def roll_back(site: Site, work: Work) -> Outcome:
    """Starts the old release first: the candidate serves until then, and goes on serving if the old one fails."""
    record, router = work.record, site.router
    old = existing(site.data, record.old)
    if record.old is not None and old is None:
        raise StepError(f"The release {record.old}, which served before, is no longer on the disk.", fault=False)
    standby = router.standby
    if old is None:
        router.switch(None, keep_old=False)
        site.problem = ""  # nothing should serve
    elif standby is not None and standby.alive and standby.release_id == old:
        back_to_standby(site)
    elif router.serving is None or router.serving.release_id != old:
        worker, _ = await start_checked(site, old)
        put_in_service(site, worker)
    serves = f"{old} serves again." if old else "No release served before, so none serves now."
    try:
        await point_links(site, old, existing(site.data, record.old_previous))
    except OSError as error:
        work.found["serves"] = old or ""
        raise StepError(f"{serves} {unlinked_sentence(site.data, error)}", fault=False) from error
    for left in (standby, work.candidate):
        if left is not router.serving:
            await stop_quietly(left)
    work.candidate = None
    await discard(site, record.release)
    return Outcome(reason=serves)


async def stop_quietly(worker: Worker | None) -> None:
    if worker is not None:
        with contextlib.suppress(OSError):
            await worker.stop(FAREWELL_S)
