"""Recovery at the start of the agent: at most one deployment goes on, and what others left is removed."""

import asyncio
import logging

import msgspec

from edgeopt.bundle.sign import claimed_sequence
from edgeopt.errors import EdgeoptError
from edgeopt_agent.data_dir import pointed, sweep
from edgeopt_agent.deployments.fetch import part_of
from edgeopt_agent.deployments.joint import Joint, Verdict
from edgeopt_agent.deployments.machine import FETCHES, Machine
from edgeopt_agent.deployments.record import Record
from edgeopt_agent.deployments.site import Site, existing, point_links, unlinked_sentence
from edgeopt_agent.deployments.states import ROWS, Event, State
from edgeopt_agent.releases import deployment_of
from edgeopt_agent.retention import garbage

log = logging.getLogger(__name__)


async def recover(site: Site, machine: Machine) -> None:
    """Brings journal and disk to one story; the worker of what should serve is the supervisor's to start."""
    if site.journal.set_aside:
        await site.journal.note("JOURNAL LOST", "", site.journal.set_aside)
        await _rebuild_journal(site)
    newest = await site.journal.newest_deployment()
    joint = await site.left_order()
    for record in await site.journal.unfinished():
        is_newest = newest is not None and record.id == newest.id
        found = await _after_restart(site, record, is_newest, joint)
        newest = found if is_newest else newest
    machine.newest = newest
    if newest is not None and newest.serves is not None:
        await _link_again(site, newest, newest.serves)
    going_on = newest if newest is not None and not newest.final else None
    fetched = going_on.source if going_on is not None and going_on.state in FETCHES else None
    if (going_on is None or fetched is not None) and site.stranded is None:
        await _mend_links(site)
    used = () if going_on is None else (going_on.release, going_on.old, going_on.old_previous)
    part = None if fetched is None else part_of(site.data, fetched)
    for name in await asyncio.to_thread(sweep, site.data, await garbage(site, used), part):
        log.info("Removed the release %s, which is no longer needed.", name)
    if going_on is not None:
        await machine.resume(going_on, joint if going_on.order else None)
    machine.recovered.set()


async def _after_restart(site: Site, record: Record, newest: bool, joint: Joint | None) -> Record:
    """Writes down and returns the record as it stands after the restart: going on, going back, or failed."""
    row = ROWS[record.state]
    doing = record.state.lower().replace("_", " ")
    if not newest:  # its end could not be written down, and another deployment followed
        changed = msgspec.structs.replace(record, state=State.FAILED, reason="Its end was not recorded.")
    elif record.order and record.state is not State.ROLLING_BACK:
        changed = _of_order(record, joint if joint is not None and joint.record.id == record.order else None)
    elif record.source is not None and record.state in FETCHES and record.resumes < ROWS[State.FETCHING].resumes:
        reason = "The agent started again; the download goes on."
        resumes = record.resumes + (not record.paused)
        changed = msgspec.structs.replace(record, paused=False, resumes=resumes, reason=reason)
    elif why := _why_back(site, record):
        going = msgspec.structs.replace(record, paused=False, resumes=0)
        changed = msgspec.structs.replace(going, state=State.ROLLING_BACK, reason=why)
    elif _is_early_rollback(record) and existing(site.data, record.release):
        changed = msgspec.structs.replace(record, resumes=record.resumes + 1)
    elif record.paused and existing(site.data, record.release):
        reason = f"The agent was stopped while it was {doing}, and goes on with it."
        changed = msgspec.structs.replace(record, paused=False, reason=reason)
    elif record.state is State.ROLLING_BACK and record.resumes < row.resumes:
        changed = msgspec.structs.replace(record, resumes=record.resumes + 1)
    elif record.resumes < row.resumes and existing(site.data, record.release):
        reason = f"The agent started again while it was {doing}."
        changed = msgspec.structs.replace(record, resumes=record.resumes + 1, reason=reason)
    else:
        often = f" {record.resumes + 1} times" if record.resumes else ""
        changed = msgspec.structs.replace(
            record,
            state=row.exits[Event.FAILURE],
            reason=f"The agent stopped{often} while it was {doing}.",
            fault=record.fault or (bool(record.resumes) and record.state not in FETCHES),
            resumes=0,
            interrupted=row.exits[Event.FAILURE] is State.FAILED and record.kind == "deploy",
        )
    return await site.journal.write(changed, hold=True)


def _of_order(record: Record, joint: Joint | None) -> Record:
    """Returns a deployment of an order, changed as the order has it: all go on, go back or are committed."""
    verdict: Verdict = "back" if joint is None else joint.verdict
    if verdict == "commit":
        reason = "All models of the order had proved themselves when the agent stopped."
        return msgspec.structs.replace(record, state=State.COMMITTED, paused=False, reason=reason)
    if joint is not None and verdict == "go on":
        resumes = record.resumes + (not record.paused)
        return msgspec.structs.replace(record, paused=False, resumes=resumes, reason=joint.record.reason)
    reason = "The order that it was part of is lost." if joint is None else joint.why
    back = ROWS[record.state].exits[Event.FAILURE]
    return msgspec.structs.replace(record, state=back, paused=False, resumes=0, reason=reason)


def _why_back(site: Site, record: Record) -> str:
    """Returns why a deployment that served goes back at this start, as it was about to; empty if it goes on."""
    if record.state not in {State.SWITCHING, State.SOAKING}:
        return ""
    # Links that lead away from a soaking release: the journal could not be written any more.
    left = record.state is State.SOAKING and record.old is not None and pointed(site.data.current) == record.old
    return record.going_back or ("It had been rolled back when the agent stopped." if left else "")


def _is_early_rollback(record: Record) -> bool:
    """Whether it is one that was promised, has changed nothing yet, and may be tried again."""
    early = record.state in {State.ACCEPTED, State.PROBING}
    return record.kind == "rollback" and early and record.resumes < ROWS[State.ROLLING_BACK].resumes


async def _rebuild_journal(site: Site) -> None:
    """Writes down what the links and the releases on the disk tell of a journal that was lost."""
    data = site.data
    serving, previous = pointed(data.current), pointed(data.previous)
    found = [folder.name for folder in data.releases.iterdir() if folder.is_dir()]
    if serving is None and previous is None and len(found) == 1:
        serving = found[0]
    for release, old in ((previous, None), (serving, previous)):
        if release is None:
            continue
        try:
            deployment = deployment_of(data.release(release))
            name, summary = deployment.name, deployment.summary
            # Checked when it came; with a lost journal, nobody may send an older one.
            sequence = claimed_sequence(data.release(release))
        except EdgeoptError as error:
            name, summary, sequence = "", error.message, 0
        why = "Found on the disk after the journal was damaged."
        found_release = Record(id=0, release=release, name=name, summary=summary, old=old, sequence=sequence)
        committed = msgspec.structs.replace(found_release, state=State.COMMITTED, reason=why)
        await site.journal.begin(committed, hold=True)


async def _mend_links(site: Site) -> None:
    """Links that are missing or lead nowhere are made again from the journal."""
    data = site.data
    chain = await site.journal.succession()
    if chain and not chain[-1]:
        return  # it was removed: nothing should serve
    known = [name for name in chain if existing(data, name)]
    serving, previous = (None, None, *known)[:-3:-1]
    serving, previous = pointed(data.current) or serving, pointed(data.previous) or previous
    if serving is None:
        serving = previous
    if previous == serving:
        previous = None
    if (serving, previous) != (pointed(data.current), pointed(data.previous)):
        log.warning("Restored the links: current is %s, previous is %s.", serving, previous)
        await point_links(site, serving, previous)


async def _link_again(site: Site, record: Record, serves: str) -> None:
    """Serves what the last run did, whatever the links say; they are changed now if that is possible."""
    previous = pointed(site.data.previous)
    try:
        await point_links(site, existing(site.data, serves), previous if previous != serves else None)
    except OSError as error:
        log.error("%s", unlinked_sentence(site.data, error))
        site.stranded = record
    if not serves:
        site.problem = ""  # nothing should serve
