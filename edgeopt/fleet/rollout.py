"""Logic of a rollout: a function from its state, the devices' reports and the time to orders, without I/O.

A wave begins when the one before is complete. Too many failures stop the rollout. Devices that are offline before
they have begun count neither as failed nor as finished; the retained desired state waits for them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from edgeopt import units
from edgeopt.fleet.devices import DeviceReport, current_release, serving_latency_ms
from edgeopt.fleet.mqtt_documents import Command, DesiredBundle, DesiredState
from edgeopt.fleet.records import FINAL
from edgeopt.fleet.rollout_documents import (
    OPEN_PHASES,
    Control,
    Decision,
    DeviceProgress,
    DeviceState,
    Order,
    Phase,
    Rollout,
)
from edgeopt.fleet.rollout_kinds import (
    begun_searches,
    desired_of,
    ended_searches,
    is_searching,
    kind_of,
    missing_searches,
    seen_kinds,
)
from edgeopt.fleet.rollout_reports import last_refusal_s, newest_sequence, observed, removes, returns_by_document

_FINISHED: tuple[DeviceState, ...] = ("done", "failed", "stuck")
UNBEGUN: tuple[DeviceState, ...] = ("waiting", "ordered", "rolling-back")
"""States in which a device that is offline is not waited for."""
ROLLBACK_ENDED: tuple[Phase, ...] = ("rolled-back", "rollback-failed")
_RETURNS: tuple[DeviceState, ...] = ("rolling-back", "rolled-back", "rollback-failed")
_LONGEST_REASON = 300
_MAX_NAMED = 3
replace = msgspec.structs.replace


@dataclass(frozen=True, slots=True)
class Counts:
    """Number of devices in each condition, of the waves that have begun."""

    finished: int
    failed: int
    pending: int
    """Devices that are at work, or connected and about to be."""

    def too_many(self, share: float) -> bool:
        """Whether the failures exceed the share, even if all that is pending succeeds."""
        return self.failed > 0 and self.failed > share * (self.finished + self.pending) + 1e-9


def counts(rollout: Rollout) -> Counts:
    devices = [rollout.devices[name] for wave in rollout.waves[: rollout.wave] for name in wave]
    finished = [each for each in devices if each.state in _FINISHED]
    failed = sum(each.state != "done" for each in finished)
    return Counts(len(finished), failed, sum(map(is_pending, devices)))


def is_pending(device: DeviceProgress) -> bool:
    """Whether the wave waits for the device: it is at work, or connected and about to be."""
    return device.state == "deploying" or (device.state in UNBEGUN and device.online)


def advance(
    rollout: Rollout, reports: Mapping[str, DeviceReport], now_s: float
) -> tuple[Rollout, tuple[Order, ...]]:
    """The next state and the orders that follow from it; the same rollout and no orders if nothing changes.

    Write the state down before the orders are sent: `missing_orders` then finds those that were lost.
    """
    before, rollout = rollout, seen(rollout, reports, now_s)
    orders: list[Order] = []
    if rollout.phase == "running" and rollout.search is not None:
        rollout, searches = begun_searches(rollout, now_s)
        rollout, released = _released(rollout, reports, now_s)
        orders += [*searches, *released]
    if rollout.phase == "running":
        rollout, more = _with_next_wave(_stopped_by_failures(rollout, now_s), reports, now_s)
        orders += more
    if rollout.phase in {"cancelled", "stopped", "rolling-back", *ROLLBACK_ENDED}:
        rollout, withdrawn = _withdrawn(rollout, reports, now_s)
        rollout, ended = ended_searches(rollout, now_s)
        orders += [*withdrawn, *ended]
    if rollout.phase == "rolling-back":
        rollout, returned = _returning(rollout, reports, now_s)
        orders += returned
    if rollout != before:
        rollout = replace(rollout, revision=before.revision + 1)
    return rollout, tuple(orders)


def seen(rollout: Rollout, reports: Mapping[str, DeviceReport], now_s: float) -> Rollout:
    """The rollout with what devices have reported; nothing is decided."""
    devices = {
        name: observed(rollout, known, reports.get(name, DeviceReport()), now_s)
        for name, known in rollout.devices.items()
    }
    kinds = seen_kinds(rollout, reports, now_s)
    if (devices, kinds) == (rollout.devices, rollout.kinds):
        return rollout
    return replace(rollout, devices=devices, kinds=kinds)


def control(rollout: Rollout, request: Control) -> Rollout:
    """The rollout with what somebody asked of it; one that was taken into account before changes nothing."""
    if request.sequence <= rollout.control:
        return rollout
    rollout = replace(rollout, control=request.sequence, revision=rollout.revision + 1)
    phase, now_s = rollout.phase, request.time_s
    if request.action == "pause" and phase == "running":
        return _entered(rollout, "paused", "on request", now_s)
    if request.action == "resume" and phase == "paused":
        return _entered(replace(rollout, wave_since_s=now_s), "running", "on request", now_s)
    if request.action == "cancel" and phase in OPEN_PHASES:
        return _entered(rollout, "cancelled", "on request", now_s)
    if request.action == "rollback" and phase not in {"rolling-back", "rolled-back"}:
        sequence = max(request.sequence, rollout.sequence + 1)
        devices = {name: _tried_again(each) for name, each in rollout.devices.items()}
        rollout = replace(rollout, return_sequence=sequence, devices=devices)
        return _entered(rollout, "rolling-back", "on request", now_s)
    return rollout


def missing_orders(rollout: Rollout, reports: Mapping[str, DeviceReport]) -> tuple[Order, ...]:
    """Orders that were decided but are not on the broker, because a client ended in between."""
    orders = list(missing_searches(rollout, reports))
    for name, known in rollout.devices.items():
        found = reports.get(name, DeviceReport())
        if known.state == "ordered" and found.desired_sequence < rollout.sequence:
            orders.append(deploy_order(rollout, name))
        elif known.state == "withdrawn" and found.desired_sequence == rollout.sequence:
            orders.append(_withdraw_order(rollout, name))
        elif known.state == "rolling-back" and found.desired_sequence < rollout.return_sequence:
            orders += filter(None, [_return_order(rollout, name, known, found)])
    return tuple(orders)


def deploy_order(rollout: Rollout, device: str) -> Order:
    """The same for every client, so that a device follows it once."""
    return Order(device, _state(rollout, device, rollout.sequence, desired_of(rollout, device)))


def _state(rollout: Rollout, device: str, sequence: int, desired: DesiredBundle) -> DesiredState:
    where = {"fleet": rollout.fleet, "device": device}
    return DesiredState(sequence=sequence, **where, desired=desired, rollout=rollout.name)


def _entered(rollout: Rollout, phase: Phase, reason: str, now_s: float) -> Rollout:
    decision = Decision(now_s, phase, reason)
    return replace(rollout, phase=phase, reason=reason, decisions=(*rollout.decisions, decision))


def _stopped_by_failures(rollout: Rollout, now_s: float) -> Rollout:
    found = counts(rollout)
    if not found.too_many(rollout.limits.stop_at_failures):
        return rollout
    failed = [name for name, each in rollout.devices.items() if each.state in {"failed", "stuck"}]
    first = f"{failed[0]}: {rollout.devices[failed[0]].reason}".rstrip(".")
    reason = (
        f"{found.failed} of {found.finished + found.pending} devices failed in wave {rollout.wave} of "
        f"{len(rollout.waves)}; at most {units.percent(rollout.limits.stop_at_failures)} may. {first}"
    )
    return _entered(rollout, "stopped", reason[:_LONGEST_REASON], now_s)


def _with_next_wave(
    rollout: Rollout, reports: Mapping[str, DeviceReport], now_s: float
) -> tuple[Rollout, list[Order]]:
    """Begins the next wave if the last one is complete; completes the rollout after the last."""
    if rollout.phase != "running":
        return rollout, []
    if rollout.wave:
        if any(is_pending(rollout.devices[name]) for name in rollout.waves[rollout.wave - 1]):
            return rollout, []
        if is_searching(rollout):  # the device may be offline meanwhile
            return rollout, []
        if rollout.wave == len(rollout.waves):
            return _entered(rollout, *result(replace(rollout, phase="completed")), now_s), []
        if not counts(rollout).finished and _has_planned(rollout):
            # Nothing is known of the bundle yet: a wave without evidence is waited for, but not without end.
            if now_s - rollout.wave_since_s <= rollout.limits.device_timeout_s:
                return rollout, []
            reason = (
                f"no device of wave {rollout.wave} has finished, because they are offline or follow newer orders"
            )
            return _entered(rollout, "paused", reason, now_s), []
    return _begun(rollout, reports, now_s)


def _has_planned(rollout: Rollout) -> bool:
    return any(each.state == "planned" for each in rollout.devices.values())


def _begun(rollout: Rollout, reports: Mapping[str, DeviceReport], now_s: float) -> tuple[Rollout, list[Order]]:
    devices, sources = dict(rollout.devices), rollout.sources
    orders, waiting = [], 0
    for name in rollout.waves[rollout.wave]:
        if devices[name].state != "planned":
            continue  # a newer rollout has it
        found = reports.get(name, DeviceReport())
        if rollout.search is not None:
            devices[name] = DeviceProgress("waiting", now_s, online=found.online, kind=kind_of(found))
            waiting += 1
            continue
        devices[name], sources = _ordered(found, sources, rollout.sequence, rollout.desired, now_s)
        if found.desired_sequence < rollout.sequence:
            orders.append(deploy_order(rollout, name))
    done = f"{units.count(len(orders), 'device')} ordered"
    if rollout.search is not None:
        done = units.count(waiting, "device")
    began = Decision(now_s, f"wave {rollout.wave + 1}", done)
    return replace(
        rollout,
        devices=devices,
        sources=sources,
        wave=rollout.wave + 1,
        wave_since_s=now_s,
        decisions=(*rollout.decisions, began),
    ), orders


def _released(rollout: Rollout, reports: Mapping[str, DeviceReport], now_s: float) -> tuple[Rollout, list[Order]]:
    """Orders the waiting devices whose kind has its bundle; fails those whose kind gets none."""
    devices, sources, ready = dict(rollout.devices), rollout.sources, []
    for name, known in rollout.devices.items():
        if known.state != "waiting":
            continue
        kind = rollout.kinds.get(known.kind)
        if kind is not None and kind.state == "ready":
            found = reports.get(name, DeviceReport())
            ordered, sources = _ordered(found, sources, rollout.sequence, rollout.desired, now_s)
            devices[name] = replace(ordered, kind=known.kind)
            ready += [name] if found.desired_sequence < rollout.sequence else []
        elif kind is not None and kind.state == "failed":
            reason = f"the search of {kind.device} for its kind failed: {kind.reason}"[:_LONGEST_REASON]
            devices[name] = replace(known, state="failed", since_s=now_s, reason=reason)
        elif not known.kind:
            reason = "it tells no kind: update its agent, or set the label `kind`"
            devices[name] = replace(known, state="failed", since_s=now_s, reason=reason)
    if devices == rollout.devices:
        return rollout, []
    rollout = replace(rollout, devices=devices, sources=sources)
    return rollout, [deploy_order(rollout, name) for name in ready]


def _ordered(
    found: DeviceReport, sources: Sequence[DesiredBundle], sequence: int, desired: DesiredBundle, now_s: float
) -> tuple[DeviceProgress, tuple[DesiredBundle, ...]]:
    """A device that is ordered now, with what leads back."""
    status, before, place = found.of_model(desired.model), None if _serves_other(found) else found.desired, -1
    if before is not None and found.desired_sequence < sequence:
        place = sources.index(before) if before in sources else len(sources)
    known = (*sources, before) if before is not None and place == len(sources) else tuple(sources)
    return DeviceProgress(
        "ordered",
        now_s,
        online=found.online,
        before=place,
        before_sequence=found.desired_sequence if place >= 0 else 0,
        release_before=current_release(status),
        latency_before_ms=serving_latency_ms(status),
        refusal_before_s=last_refusal_s(found),
    ), known


def _serves_other(found: DeviceReport) -> bool:
    """Whether the device failed at its desired state or deployed something since: it returns to what it serves."""
    following = None if found.reported is None else found.reported.desired
    if following is None or following.sequence != found.desired_sequence:
        return False
    last = found.deployment(following.deployment, following.model)
    return following.state in {"refused", "failed"} or (last is not None and last.id != following.deployment)


def _withdrawn(rollout: Rollout, reports: Mapping[str, DeviceReport], now_s: float) -> tuple[Rollout, list[Order]]:
    """Takes back the orders that devices have not followed yet, such as those that are offline."""
    devices, orders = dict(rollout.devices), []
    for name, known in rollout.devices.items():
        if known.state == "waiting":
            reason = "it was not ordered"
            devices[name] = replace(known, state="withdrawn", since_s=now_s, reason=reason)
        elif known.state == "ordered":
            devices[name] = replace(
                known, state="withdrawn", since_s=now_s, reason="the order was withdrawn before it was followed"
            )
            if reports.get(name, DeviceReport()).desired_sequence <= rollout.sequence:
                orders.append(_withdraw_order(rollout, name))
    return (replace(rollout, devices=devices) if devices != rollout.devices else rollout), orders


def _withdraw_order(rollout: Rollout, device: str) -> Order:
    """Returns the former desired state under its old number: a device that has followed it does nothing."""
    known = rollout.devices[device]
    if known.before < 0:
        return Order(device)
    return Order(device, _state(rollout, device, known.before_sequence, rollout.sources[known.before]))


def _returning(rollout: Rollout, reports: Mapping[str, DeviceReport], now_s: float) -> tuple[Rollout, list[Order]]:
    """Sends devices that took the bundle back to what they served before; ends when none is waited for."""
    devices, orders = dict(rollout.devices), []
    for name, known in rollout.devices.items():
        if not _must_return(known):
            continue
        report = reports.get(name, DeviceReport())
        online = report.online
        if newest_sequence(report) > rollout.sequence:
            reason = "it follows a newer desired state"
            devices[name] = replace(known, state="superseded", since_s=now_s, stage="", reason=reason)
            continue
        if removes(rollout, known) and _deploys(report, rollout.desired.model):
            continue  # a model can be removed once its deployment has ended
        order = _return_order(rollout, name, known, report)
        if order is None:
            reason = "nothing was served before"
            devices[name] = replace(known, state="rollback-failed", since_s=now_s, stage="", reason=reason)
        elif order.document is not None or online:  # commands do not wait long for a device that is offline
            returns = replace(known, state="rolling-back", since_s=now_s, stage="", reason="", online=online)
            devices[name] = replace(returns, refusal_before_s=last_refusal_s(report))
            orders.append(order)
    if devices != rollout.devices:
        rollout = replace(rollout, devices=devices)
    if not any(is_pending(each) for each in devices.values()):
        ended = {name: _left_behind(each, now_s) for name, each in devices.items()}
        rollout = replace(rollout, devices=ended)
        rollout = _entered(rollout, *result(replace(rollout, phase="rolled-back")), now_s)
    return rollout, orders


def _must_return(known: DeviceProgress) -> bool:
    took = known.serves_new or known.state in {"deploying", "stuck"}
    return took and known.state not in {*_RETURNS, "superseded"}


def _tried_again(known: DeviceProgress) -> DeviceProgress:
    """The device before its rollback failed; any other as it is."""
    failed = known.state == "rollback-failed"
    return replace(known, state="done", stage="", reason="", serves_new=True) if failed else known


def _left_behind(known: DeviceProgress, now_s: float) -> DeviceProgress:
    """The device at the end of a rollback: one that could not be ordered to return has failed."""
    if not _must_return(known):
        return known
    stuck = known.state == "stuck"
    reason = "its deployment has not ended" if stuck else "it is offline, and the command needs it online"
    return replace(known, state="rollback-failed", since_s=now_s, stage="", reason=reason)


def result(rollout: Rollout) -> tuple[Phase, str]:
    """Returns the phase and its reason, counted from the devices: those that were offline follow later."""
    states = [each.state for each in rollout.devices.values()]
    if rollout.phase == "completed":
        waiting = units.count(states.count("waiting"), "device")
        left = f"{waiting} offline got nothing, because no device has searched for the kind"
        parts = [_late_text(states.count("ordered")), left if "waiting" in states else ""]
        return "completed", "; ".join(filter(None, parts))
    if rollout.phase not in ROLLBACK_ENDED:
        return rollout.phase, rollout.reason
    failed = [
        f"{name}: {each.reason}" for name, each in rollout.devices.items() if each.state == "rollback-failed"
    ]
    returned, late = states.count("rolled-back"), states.count("rolling-back")
    kept = sum(each.state == "superseded" and each.serves_new for each in rollout.devices.values())
    if not returned + late + len(failed) + kept:
        return "rolled-back", "no device had taken the bundle"
    if not failed:
        return "rolled-back", "; ".join(filter(None, [_kept_text(kept), _late_text(late)]))
    more = [f"and {len(failed) - _MAX_NAMED} more"] if len(failed) > _MAX_NAMED else []
    all_ = units.count(returned + late + len(failed), "device")
    parts = [f"rolled back {returned} of {all_}", *failed[:_MAX_NAMED], *more, _kept_text(kept), _late_text(late)]
    return "rollback-failed", "; ".join(part.rstrip(".") for part in parts if part)


def _kept_text(kept: int) -> str:
    """Returns a clause on the devices that took the bundle and follow a newer rollout, which may have failed."""
    if not kept:
        return ""
    verbs = "follows a newer desired state and was" if kept == 1 else "follow newer desired states and were"
    return f"{units.count(kept, 'device')} {verbs} not changed"


def _late_text(late: int) -> str:
    if not late:
        return ""
    follow = "is offline and follows when it is" if late == 1 else "are offline and follow when they are"
    return f"{units.count(late, 'device')} {follow} back"


def _deploys(report: DeviceReport, model: str) -> bool:
    status = report.of_model(model)
    last = None if status is None else status.deployment
    return last is not None and last.state not in FINAL


def _return_order(rollout: Rollout, device: str, known: DeviceProgress, report: DeviceReport) -> Order | None:
    """Returns the order that undoes the rollout on a device, or None for a device that served nothing before."""
    if returns_by_document(rollout, known):
        back = replace(
            rollout.sources[known.before], allow_downgrade=True, rename=True, soak_s=0.0, soak_requests=0
        )
        return Order(device, _state(rollout, device, rollout.return_sequence, back))
    if rollout.desired.models:
        return Order(device, command=Command("rollback", order=known.order)) if known.order else None
    if known.release_before:
        return Order(device, command=Command("rollback", rollout.desired.model, known.release_before))
    if rollout.desired.add and report.has_added(rollout.desired.model):
        return Order(device, command=Command("remove", rollout.desired.model))
    return None
