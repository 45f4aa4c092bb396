"""Kinds of devices in a rollout that each search for a bundle of their own. No I/O, like `rollout`."""

from collections.abc import Mapping

import msgspec

from edgeopt.fleet.devices import DeviceReport
from edgeopt.fleet.mqtt_documents import Command, DesiredBundle, SearchInputs, SearchOrder
from edgeopt.fleet.rollout_documents import KindProgress, Order, Rollout, SearchWishes

_MAX_ATTEMPTS = 2
"""A search that a restart of the agent has ended is ordered once more."""
_RESTARTED = "restarted"
_LONGEST_REASON = 200
LABEL = "kind"
replace = msgspec.structs.replace


def kind_of(report: DeviceReport) -> str:
    """Returns the kind that a device tells; empty for an agent that tells none."""
    return report.labels.get(LABEL, "")


def desired_of(rollout: Rollout, device: str) -> DesiredBundle:
    """Returns what a device is ordered to serve: the bundle of the rollout, or that of its kind."""
    if rollout.search is None:
        return rollout.desired
    kind = rollout.kinds[rollout.devices[device].kind]
    return replace(rollout.desired, bundle=kind.bundle, digest=kind.digest)


def search_id(rollout: Rollout, kind: str) -> str:
    """Returns the name of a search, and of the bundle that it finds: the same for every client."""
    return f"{rollout.name}.{rollout.sequence}.{kind}.{rollout.kinds[kind].attempt}"


def store_url(search: SearchWishes, name: str) -> str:
    return f"{search.store}{name}.edgeopt"


def seen_kinds(rollout: Rollout, reports: Mapping[str, DeviceReport], now_s: float) -> dict[str, KindProgress]:
    """Returns the kinds with what their devices report of the searches."""
    if rollout.search is None:
        return rollout.kinds
    return {
        kind: _seen(rollout, kind, known, reports.get(known.device, DeviceReport()), now_s)
        for kind, known in rollout.kinds.items()
    }


def _seen(rollout: Rollout, kind: str, known: KindProgress, report: DeviceReport, now_s: float) -> KindProgress:
    if known.state != "searching" or rollout.search is None:
        return known
    found = None if report.reported is None else report.reported.search
    if found is not None and found.id == search_id(rollout, kind):
        if found.state == "failed":
            return replace(
                known,
                state="failed",
                since_s=now_s,
                step="",
                code=found.code,
                reason=found.reason[:_LONGEST_REASON],
            )
        if found.state == "done":
            return replace(
                known,
                state="found",
                since_s=now_s,
                step="",
                bundle=store_url(rollout.search, found.id),
                digest=found.digest,
                summary=found.summary[:_LONGEST_REASON],
                speedup=found.speedup,
                speedup_low=found.speedup_low,
                speedup_high=found.speedup_high,
            )
        if found.step != known.step:
            return replace(known, step=found.step, since_s=now_s)
    elif report.answer is not None and report.answer.refusal:
        return replace(known, state="failed", since_s=now_s, reason=f"refused: {report.answer.refusal}")
    # A search may be silent for as long as it may take.
    limit_s = rollout.limits.device_timeout_s + 2 * rollout.search.time_limit_s
    if now_s - known.since_s > limit_s:
        where = known.step or "its order"
        return replace(known, state="failed", since_s=now_s, reason=f"stuck in '{where}' for {limit_s:.0f} s")
    return known


def begun_searches(rollout: Rollout, now_s: float) -> tuple[Rollout, tuple[Order, ...]]:
    """Lets the first connected device of each waiting kind search; once more after a restart of its agent."""
    kinds = dict(rollout.kinds)
    for name in (each for wave in rollout.waves[: rollout.wave] for each in wave):
        device = rollout.devices[name]
        if device.state == "waiting" and device.kind and device.kind not in kinds and device.online:
            kinds[device.kind] = KindProgress(device=name, since_s=now_s)
    for kind, known in rollout.kinds.items():
        again = known.state == "failed" and known.code == _RESTARTED and known.attempt < _MAX_ATTEMPTS
        if again and any(each.state == "waiting" and each.kind == kind for each in rollout.devices.values()):
            kinds[kind] = KindProgress(device=known.device, attempt=known.attempt + 1, since_s=now_s)
    if kinds == rollout.kinds:
        return rollout, ()
    begun = [kind for kind, known in kinds.items() if rollout.kinds.get(kind) != known]
    rollout = replace(rollout, kinds=kinds)
    return rollout, tuple(_search_order(rollout, kind) for kind in begun)


def missing_searches(rollout: Rollout, reports: Mapping[str, DeviceReport]) -> tuple[Order, ...]:
    """Returns the decided searches that no device reports; a device makes a repeated one once."""
    orders = []
    for kind, known in rollout.kinds.items():
        reported = reports.get(known.device, DeviceReport()).reported
        reported_id = "" if reported is None or reported.search is None else reported.search.id
        if known.state == "searching" and reported_id != search_id(rollout, kind):
            orders.append(_search_order(rollout, kind))
    return tuple(orders)


def is_searching(rollout: Rollout) -> bool:
    """Whether a kind has neither its bundle yet nor a reason why it gets none."""
    return any(each.state in {"searching", "found"} for each in rollout.kinds.values())


def ended_searches(rollout: Rollout, now_s: float) -> tuple[Rollout, tuple[Order, ...]]:
    """Ends the searches of a rollout that begins nothing more."""
    running = [kind for kind, known in rollout.kinds.items() if known.state in {"searching", "found"}]
    if not running:
        return rollout, ()
    orders = tuple(
        Order(rollout.kinds[kind].device, command=Command("cancel-search", id=search_id(rollout, kind)))
        for kind in running
    )
    ended = {
        kind: replace(rollout.kinds[kind], state="failed", since_s=now_s, step="", reason="the rollout has ended")
        for kind in running
    }
    return replace(rollout, kinds={**rollout.kinds, **ended}), orders


def _search_order(rollout: Rollout, kind: str) -> Order:
    search, name = rollout.search, search_id(rollout, kind)
    assert search is not None  # noqa: S101 - there are no kinds without it
    inputs = {field: getattr(search, field) for field in SearchInputs.__struct_fields__}
    order = SearchOrder(id=name, put=store_url(search, name), **inputs)
    return Order(rollout.kinds[kind].device, command=Command("optimize", search=order))
