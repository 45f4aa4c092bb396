"""Interpretation of a device's reports for its progress in a rollout."""

import msgspec

from edgeopt import units
from edgeopt.fleet.devices import DeviceReport, current_release
from edgeopt.fleet.mqtt_documents import Following
from edgeopt.fleet.records import COMMITTED, FINAL, FleetDeployment, ModelStatus, Status
from edgeopt.fleet.rollout_documents import DeviceProgress, DeviceState, Limits, Rollout

_LONGEST_REASON = 200
_WAITING = ("READY", "SOAKING")
"""States in which a model of several waits for the others."""
_NEWER = "it follows a newer desired state"
replace = msgspec.structs.replace


def observed(rollout: Rollout, known: DeviceProgress, report: DeviceReport, now_s: float) -> DeviceProgress:
    """The device after a report, or after some time without one."""
    if known.state in {"ordered", "withdrawn", "deploying", "stuck"}:
        return _while_deploying(rollout, known, report, now_s)
    if known.state == "rolling-back":
        return _while_returning(rollout, known, report, now_s)
    if known.state == "done" and rollout.phase in {"running", "paused"}:
        return _since_done(rollout, known, report, now_s)
    if known.state in {"planned", "waiting"} and rollout.phase in {"running", "paused"}:
        if report.claimed_by:
            return _moved(known, "superseded", now_s, f"the newer rollout {report.claimed_by} has it")
        if newest_sequence(report) > rollout.sequence:
            return _moved(known, "superseded", now_s, _NEWER)
    if known.state == "waiting" and known.online != report.online:
        # An offline device may come back as another kind, with more cores or another runtime.
        kind = report.labels.get("kind", known.kind)
        return replace(known, online=report.online, since_s=now_s, kind=kind)
    return known


def _since_done(rollout: Rollout, known: DeviceProgress, report: DeviceReport, now_s: float) -> DeviceProgress:
    """The device that was done: a rollback may have come after it that a killed broker has forgotten."""
    following = report.reported.desired if report.reported is not None else None
    if following is None or following.sequence != rollout.sequence or following.order is not None:
        return known
    last = report.deployment(following.deployment, following.model)
    if last is None or last.id == following.deployment:
        return known
    return replace(_moved(known, "superseded", now_s, f"deployment {last.id} came after it"), serves_new=False)


def newest_sequence(report: DeviceReport) -> int:
    """The highest sequence number that the device follows or will follow."""
    following = report.reported.desired if report.reported is not None else None
    return max(report.desired_sequence, 0 if following is None else following.sequence)


def returns_by_document(rollout: Rollout, known: DeviceProgress) -> bool:
    """Whether a rollback can name the bundle from before; for other models it was no such bundle."""
    if known.before < 0 or rollout.desired.models or rollout.sources[known.before].models:
        return False
    return rollout.sources[known.before].model == rollout.desired.model


def removes(rollout: Rollout, known: DeviceProgress) -> bool:
    """Whether a rollback removes the model, because the rollout has added it."""
    return rollout.desired.add and not known.release_before and not returns_by_document(rollout, known)


def _while_deploying(
    rollout: Rollout, known: DeviceProgress, report: DeviceReport, now_s: float
) -> DeviceProgress:
    if newest_sequence(report) > rollout.sequence:
        return _moved(known, "superseded", now_s, _NEWER)
    following = report.reported.desired if report.reported is not None else None
    if following is not None and following.sequence == rollout.sequence:
        found = _following(rollout.limits, known, report, following, now_s)
    elif known.state != "withdrawn" and (refusal := _refusal(known, report, rollout.sequence)):
        found = _moved(known, "failed", now_s, refusal)
    elif known.state == "ordered" and known.online != report.online:
        found = replace(known, online=report.online, since_s=now_s)
    else:
        found = known
    return _in_time(rollout.limits, found, "stuck", now_s, report.online)


def _following(
    limits: Limits, known: DeviceProgress, report: DeviceReport, following: Following, now_s: float
) -> DeviceProgress:
    if following.state == "refused":
        return _moved(known, "failed", now_s, f"refused: {following.reason}")
    if following.order is not None:
        return _following_order(limits, known, report, following, now_s)
    last = report.deployment(following.deployment, following.model)
    stage = following.state if last is None else last.state
    if last is not None and last.id != following.deployment:
        return _moved(known, "superseded", now_s, f"deployment {last.id} came after it")
    if last is not None and last.state == COMMITTED:
        missed = _missed_limit(limits, known, last)
        moved = _moved(known, "failed" if missed else "done", now_s, missed)
        return replace(moved, serves_new=True)
    if last is not None and last.state in FINAL:
        if last.requested:
            return _moved(known, "superseded", now_s, "somebody took it back on the device")
        how = "" if last.state == "FAILED" else f"{last.state.lower().replace('_', ' ')}: "
        return _moved(known, "failed", now_s, f"{how}{last.reason}")
    if known.state == "stuck" or (known.state == "deploying" and known.stage == stage):
        return known
    return replace(_moved(known, "deploying", now_s, following.reason), stage=stage)


def _following_order(
    limits: Limits, known: DeviceProgress, report: DeviceReport, following: Following, now_s: float
) -> DeviceProgress:
    """The device that follows an order of several models; one of them that misses a limit fails the device."""
    states = {each.model: each.state for each in following.models}
    known = replace(known, order=following.order or 0, models=states)
    if following.state == "done":
        missed = ""
        for model in states:
            status = report.of_model(model)
            if status is not None and status.deployment is not None and not missed:
                found = _missed_limit(limits, known, status.deployment)
                missed = f"'{model}': {found}" if found else ""
        return replace(_moved(known, "failed" if missed else "done", now_s, missed), serves_new=True)
    if following.state == "failed":
        return _moved(known, "failed", now_s, f"nothing was changed: {following.reason}")
    behind = next((each for each in states.values() if each not in {"", *_WAITING}), "")
    stage = behind or next(iter(states.values()), "") or following.state
    if known.state == "stuck" or (known.state == "deploying" and known.stage == stage):
        return known
    return replace(_moved(known, "deploying", now_s, following.reason), stage=stage)


def last_refusal_s(report: DeviceReport) -> float:
    """Time of the last order that the device refused to follow at all; 0 if there is none."""
    refused = report.reported.refused if report.reported is not None else None
    return 0.0 if refused is None else refused.time_s


def _refusal(known: DeviceProgress, report: DeviceReport, sequence: int) -> str:
    """Returns why the device refused the order itself; an unreadable order has no sequence number."""
    refused = report.reported.refused if report.reported is not None else None
    if refused is None or refused.sequence not in {0, sequence} or refused.time_s == known.refusal_before_s:
        return ""
    return f"refused: {refused.reason}"


def _while_returning(
    rollout: Rollout, known: DeviceProgress, report: DeviceReport, now_s: float
) -> DeviceProgress:
    if newest_sequence(report) > rollout.return_sequence:
        return _moved(known, "superseded", now_s, _NEWER)
    if rollout.desired.models:
        return _in_time(
            rollout.limits, _order_returning(known, report, now_s), "rollback-failed", now_s, report.online
        )
    status = report.of_model(rollout.desired.model)
    following = report.reported.desired if report.reported is not None else None
    last = None if status is None else status.deployment
    if returns_by_document(rollout, known) and (refusal := _refusal(known, report, rollout.return_sequence)):
        return _moved(known, "rollback-failed", now_s, refusal)
    if following is not None and following.sequence == rollout.return_sequence:
        last = report.deployment(following.deployment, following.model)
        if following.state == "refused":
            return _moved(known, "rollback-failed", now_s, f"refused: {following.reason}")
        if last is not None and last.state in FINAL:
            ended: DeviceState = "rolled-back" if last.state == COMMITTED else "rollback-failed"
            return _moved(known, ended, now_s, "" if ended == "rolled-back" else last.reason)
    if removes(rollout, known) and status is None and report.status is not None:
        return _moved(known, "rolled-back", now_s)
    if not returns_by_document(rollout, known):
        known = _after_command(known, report, status, now_s)
        if known.state != "rolling-back":
            return known
    if known.online != report.online:
        known = replace(known, online=report.online, since_s=now_s)
    return _in_time(rollout.limits, known, "rollback-failed", now_s, report.online)


def _order_returning(known: DeviceProgress, report: DeviceReport, now_s: float) -> DeviceProgress:
    """The device whose order of several models is taken back: ended while it ran, or undone by another order."""
    if report.answer is not None and report.answer.refusal:
        return _moved(known, "rollback-failed", now_s, f"refused: {report.answer.refusal}")
    order = None if report.status is None else report.status.order
    if order is None or order.state not in FINAL or known.order not in {order.id, order.returns}:
        return replace(known, online=report.online, since_s=now_s) if known.online != report.online else known
    if order.id == known.order:  # it ran when it was taken back, or is about to be
        return known if order.state == COMMITTED else _moved(known, "rolled-back", now_s)
    if order.state == COMMITTED:
        return _moved(known, "rolled-back", now_s)
    return _moved(known, "rollback-failed", now_s, order.reason)


def _after_command(
    known: DeviceProgress, report: DeviceReport, status: Status | ModelStatus | None, now_s: float
) -> DeviceProgress:
    """The device after the command by which it returns: refused, performed, or not performed yet."""
    if report.answer is not None and report.answer.refusal:
        return _moved(known, "rollback-failed", now_s, f"refused: {report.answer.refusal}")
    last = None if status is None else status.deployment
    if last is not None and last.state not in FINAL:
        return known
    if status is not None and status.serving is not None and status.serving.release == known.release_before:
        return _moved(known, "rolled-back", now_s)
    number = None if report.answer is None else report.answer.deployment
    if number is None or last is None or last.id < number or current_release(status) == known.release_before:
        return known
    return _moved(known, "rollback-failed", now_s, f"{last.state.lower().replace('_', ' ')}: {last.reason}")


def _moved(known: DeviceProgress, state: DeviceState, now_s: float, reason: str = "") -> DeviceProgress:
    return replace(known, state=state, since_s=now_s, stage="", reason=reason[:_LONGEST_REASON])


def _in_time(
    limits: Limits, known: DeviceProgress, late: DeviceState, now_s: float, online: bool
) -> DeviceProgress:
    """The device, or one that has been in its state for too long. Waiting offline takes no time."""
    waits = known.state in {"ordered", "rolling-back"} and not known.online
    if known.state not in {"ordered", "deploying", "rolling-back"} or waits:
        return known
    if now_s - known.since_s <= limits.device_timeout_s:
        return known
    where = known.stage.lower() or known.state
    away = "" if online else "; it is offline"
    return _moved(known, late, now_s, f"stuck in '{where}' for {now_s - known.since_s:.0f} s{away}")


def _missed_limit(limits: Limits, known: DeviceProgress, deployment: FleetDeployment) -> str:
    """The limit that the committed release misses, by what the device measured; what it did not, misses none."""
    errors, requests, agreement, latency_ms = (
        float(value) if isinstance(value := deployment.detail.get(name), int | float) else None
        for name in ("soak_errors", "soak_requests", "agreement_db", "latency_ms")
    )
    if limits.max_error_share is not None and errors and requests and errors > limits.max_error_share * requests:
        share, maximum = units.percent(errors / requests), units.percent(limits.max_error_share)
        return f"{share} of its requests failed while it soaked; at most {maximum} may"
    if limits.min_agreement_db is not None and agreement is not None and agreement < limits.min_agreement_db:
        agreed = f"its answers agree with those of the release before to {agreement:.1f} dB"
        return f"{agreed}; {limits.min_agreement_db:g} dB are required"
    before_ms = known.latency_before_ms
    if limits.max_slowdown is not None and latency_ms is not None and before_ms:
        slowdown = latency_ms / before_ms - 1
        if slowdown > limits.max_slowdown:
            maximum = units.percent(limits.max_slowdown)
            return (
                f"{units.milliseconds(latency_ms)} on its golden inputs, {units.milliseconds(before_ms)} before: "
                f"{units.percent(slowdown)} slower; at most {maximum} are allowed"
            )
    return ""
