"""Begins orders of several models, and takes them back: what each model is asked, all or nothing."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from edgeopt.errors import EdgeoptError
from edgeopt_agent.deployments.joint import Joint
from edgeopt_agent.deployments.record import Member, Record
from edgeopt_agent.deployments.refused import RefusedError
from edgeopt_agent.deployments.returning import check_return
from edgeopt_agent.deployments.site import existing
from edgeopt_agent.deployments.slots import Slot, Slots
from edgeopt_agent.deployments.states import State

_SUPERSEDED = "A newer request took its place."
_ROLLED_BACK = "A rollback was requested."
_NO_ORDER = "List them: edgeopt-agent status"
replace = msgspec.structs.replace


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """The request to one model; `slot` is None for a model that is added."""

    member: Member
    record: Record
    slot: Slot | None


async def deploy_several(slots: Slots, records: Sequence[tuple[str, Record]]) -> Record:
    """Begins with all models, each named with its deployment; raises RefusedError where that is not possible now.

    The newest order ends those before it, and the same order again changes nothing.
    """
    await _recovered(slots)
    async with slots.orders.beginning:
        requests = tuple(_model_request(slots, model, record) for model, record in records)
        if (same := _same(slots, requests)) is not None:
            return same
        await slots.orders.end(_SUPERSEDED)
        return await _begin(slots, requests)


async def return_from(slots: Slots, number: int, ordered_by: str = "") -> Record:
    """Takes an order back: what it replaced or removed serves again, and what it added is removed."""
    await _recovered(slots)
    async with slots.orders.beginning:
        record = await slots.orders.record(number)
        if record is None:
            raise RefusedError(404, "no-order", f"There is no order {number} of several models.", _NO_ORDER)
        last, joint = slots.orders.last, slots.orders.joint
        if last is not None and last.returns == number and (not last.final or last.state is State.COMMITTED):
            return last
        if joint is not None and joint.record.id == number and not joint.ended.is_set():
            if await joint.fail(None, _ROLLED_BACK):
                return joint.record
            await joint.ended.wait()
        if record.state is not State.COMMITTED and (joint is None or not joint.committed):
            raise RefusedError(
                *(409, "nothing-to-return-to", f"The order {number} was not committed, so it has changed nothing.")
            )
        ways = [_way_back(slots, member) for member in record.members if member.deployment]
        requests = tuple(
            dataclasses.replace(each, record=replace(each.record, ordered_by=ordered_by))
            for each in ways
            if each is not None
        )
        return await _begin(slots, requests, returns=number)


async def is_interrupted(slots: Slots, number: int) -> bool:
    """Whether a stop of the agent has ended this order before its models switched, so that it is due again."""
    await _recovered(slots)
    last = slots.orders.last
    return last is not None and last.id == number and last.interrupted


async def _recovered(slots: Slots) -> None:
    for slot in list(slots.all):
        await slot.machine.recovered.wait()


def _slot(slots: Slots, model: str) -> Slot | None:
    return next((slot for slot in slots.all if slot.name == model and not slot.empty), None)


def _model_request(slots: Slots, model: str, record: Record) -> ModelRequest:
    slot = _slot(slots, model)
    member = Member(model=model, kind=record.kind, source=record.source)
    if record.kind == "remove" and (slot is None or slot.removed):
        return ModelRequest(replace(member, done=True, reason="It was not on this agent."), record, None)
    return ModelRequest(member, replace(record, expected="" if record.rename else model), slot)


def _same(slots: Slots, requests: Sequence[ModelRequest]) -> Record | None:
    """Returns the order that asks the same, if it runs, or was the last one and still holds."""
    joint, last = slots.orders.joint, slots.orders.last
    if last is None or not _asks_same(last, requests):
        return None
    if joint is not None and not joint.ended.is_set():
        return None if joint.why else last
    newest = {slot.site.model: slot.machine.newest for slot in slots.all}
    holds = all(
        (found := newest.get(member.slot)) is not None and found.id == member.deployment
        for member in last.members
        if member.deployment
    )
    return last if last.state is State.COMMITTED and holds else None


def _asks_same(order: Record, requests: Sequence[ModelRequest]) -> bool:
    return [each.request for each in order.members] == [each.member.request for each in requests]


async def _begin(slots: Slots, requests: Sequence[ModelRequest], returns: int = 0) -> Record:
    for each in requests:
        if each.slot is not None and (work := each.slot.machine.work) is not None and work.record.source is None:
            each.slot.machine.check_idle()
    last, members = slots.orders.last, tuple(each.member for each in requests)
    again = last is not None and last.interrupted and _asks_same(last, requests)
    order = Record(
        id=0,
        resumes=last.resumes + 1 if last is not None and again else 0,
        kind="several",
        name=", ".join(each.member.model for each in requests),
        soak_s=max((each.record.soak_s for each in requests), default=0.0),
        members=members,
        returns=returns,
    )
    joint = await slots.orders.take(order)
    await joint.begin()
    begun, refusal = [], None
    for each in sorted(requests, key=lambda each: each.slot is None):  # what is added may take an empty place
        member = each.member
        if not member.done and refusal is None and not joint.why:
            try:
                member = await _begin_one(slots, each, joint)
            except EdgeoptError as error:
                refusal = error
                await joint.fail(None, f"'{member.model}': {error.message}")
        begun.append(member)
    place = {each.member.model: number for number, each in enumerate(requests)}
    await joint.begun(tuple(sorted(begun, key=lambda member: place[member.model])))
    if refusal is not None:
        await joint.ended.wait()
        raise refusal
    return joint.record


async def _begin_one(slots: Slots, request: ModelRequest, joint: Joint) -> Member:
    slot = request.slot or await slots.add(request.member.model)
    record = replace(request.record, order=joint.record.id)
    begun = await slot.machine.deploy_member(record, joint)
    return replace(request.member, slot=slot.site.model, deployment=begun.id)


def _way_back(slots: Slots, member: Member) -> ModelRequest | None:
    """Returns what undoes the order for one model; None where it changed nothing."""
    slot = next((each for each in slots.all if each.site.model == member.slot), None)
    newest = None if slot is None else slot.machine.newest
    if slot is None or newest is None or newest.id != member.deployment:
        raise RefusedError(
            *(409, "superseded", f"The model '{member.model}' has changed since that order."),
            "Return its models one by one: edgeopt-agent rollback --model NAME",
        )
    if all(moment.state is not State.SWITCHING for moment in newest.history):
        return None
    if newest.old is None:
        return ModelRequest(Member(model=member.model, kind="remove"), _removal(member.model), slot)
    if existing(slot.site.data, newest.old) is None:
        raise RefusedError(
            *(404, "no-release", f"The release {newest.old} of '{member.model}' is no longer on the device.")
        )
    deployment = check_return(slot.site.data, newest.old)
    back = Record(id=0, kind="rollback", release=newest.old, name=deployment.name, reason=_ROLLED_BACK)
    return ModelRequest(Member(model=member.model, kind="rollback", release=newest.old), back, slot)


def _removal(model: str) -> Record:
    return Record(id=0, kind="remove", name=model, reason=_ROLLED_BACK)


def members_with_state(slots: Slots, order: Record) -> list[Member]:
    """Returns the models of an order, each with the state of its deployment if that is known."""
    newest = {slot.site.model: slot.machine.newest for slot in slots.all}
    return [_with_state(order, each, newest.get(each.slot)) for each in order.members]


def _with_state(order: Record, member: Member, newest: Record | None) -> Member:
    if member.done or not member.deployment or member.state:
        return member
    if order.state is State.COMMITTED:
        return replace(member, state=State.COMMITTED)
    if newest is None or newest.id != member.deployment:
        return member
    return replace(member, state=newest.state, reason=newest.reason)
