"""Judges an order of several models that the last run of the agent left: one verdict for all."""

from collections.abc import Sequence

import msgspec

from edgeopt_agent.deployments.joint import Joint, OrderBook, Verdict
from edgeopt_agent.deployments.record import Record
from edgeopt_agent.deployments.site import Site, existing
from edgeopt_agent.deployments.states import ROWS, Event, State

_DECIDED = frozenset({State.SWITCHING, State.SOAKING})
"""All models had proved themselves, and were to serve."""
_GOING_ON = frozenset({State.READY, State.SWITCHING, State.SOAKING})
_SERVED = frozenset({State.SWITCHING, State.SOAKING, State.ROLLING_BACK})
replace = msgspec.structs.replace


async def left_order(book: OrderBook, sites: Sequence[Site]) -> Joint | None:
    """Returns the last order, with its verdict in the journal; called before any model recovers."""
    if not book.exists:
        return None
    journal = await book.journal()
    book.newest = order = await journal.newest_deployment()
    if order is None:
        return None
    left = {
        site.model: (site, record)
        for site in sites
        for record in await site.journal.unfinished()
        if record.order == order.id
    }
    known = {
        site.model: record
        for site in sites
        for member in order.members
        if member.slot == site.model and member.deployment and site.model not in left
        if (record := await site.journal.deployment(member.deployment)) is not None
    }
    verdict = _verdict(order, left, known)
    if verdict == "back" and not order.final:
        back = ROWS[order.state].exits[Event.FAILURE] if order.state in _DECIDED else order.state
        early = order.state is State.ACCEPTED and order.resumes < ROWS[State.FETCHING].resumes
        changed = replace(order, state=back, reason=stopped(order), interrupted=early)
        order = await journal.write(changed, hold=True)
    elif verdict == "go on":
        resumes = order.resumes + (not _all_paused(left))
        reason = "The agent started again, and goes on with the order."
        order = await journal.write(replace(order, resumes=resumes, reason=reason), hold=True)
    joint = await book.take(order)
    joint.verdict = verdict
    on = {model for model, (_, record) in left.items() if verdict == "go on" or record.state in _SERVED}
    joint.resume(on if verdict != "commit" else set())
    if verdict == "back":
        joint.why = order.reason
        for model, (_, record) in left.items():
            if record.state not in _SERVED:
                joint.note(model, replace(record, state=State.FAILED, reason=order.reason))
    await joint.look_for_end()
    return joint


def _verdict(order: Record, left: dict[str, tuple[Site, Record]], known: dict[str, Record]) -> Verdict:
    if order.state is State.COMMITTED:
        return "commit"
    served = {model for model, record in known.items() if record.state is State.COMMITTED}
    whole = {member.slot for member in order.members if member.deployment} <= {*left, *served}
    able = all(
        record.state in _GOING_ON and not record.going_back and (record.kind == "remove" or _on_disk(site, record))
        for site, record in left.values()
    )
    again = order.resumes < ROWS[order.state].resumes or _all_paused(left)
    return "go on" if order.state in _DECIDED and whole and able and again else "back"


def _on_disk(site: Site, record: Record) -> bool:
    return existing(site.data, record.release) is not None


def _all_paused(left: dict[str, tuple[Site, Record]]) -> bool:
    return bool(left) and all(record.paused for _, record in left.values())


def stopped(order: Record) -> str:
    """Says why an order is taken back at a start of the agent."""
    if order.state is State.ROLLING_BACK:
        return order.reason
    doing = "prepared" if order.state is State.ACCEPTED else "put into service"
    return f"The agent stopped while several models were {doing} together."
