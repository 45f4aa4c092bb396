"""The agent's reports about itself, as plain documents."""

from collections.abc import Iterable

from edgeopt.errors import EdgeoptError
from edgeopt.fleet.records import FleetOrder, OrderedModel, ServerDrift
from edgeopt_agent import bundle_urls
from edgeopt_agent.data_dir import pointed
from edgeopt_agent.deployments.machine import Machine
from edgeopt_agent.deployments.record import Record
from edgeopt_agent.deployments.returning import check_return
from edgeopt_agent.deployments.several import members_with_state
from edgeopt_agent.deployments.site import Site, current
from edgeopt_agent.deployments.slots import Slot, Slots
from edgeopt_agent.deployments.states import State
from edgeopt_agent.releases import deployment_of
from edgeopt_agent.trust import untrusted

Document = dict[str, object]


def status(shown: Slot, others: Iterable[Slot], uptime_s: float, last: FleetOrder | None = None) -> Document:
    """Returns the status of one model, as that of the agent, with the other models beside it."""
    first = {"name": shown.name, **_model_status(shown.site, shown.machine)}
    models = [first, *({"name": slot.name, **_model_status(slot.site, slot.machine)} for slot in others)]
    return {**first, "uptime_s": round(uptime_s, 3), "models": models, "order": last}


def _model_status(site: Site, machine: Machine) -> Document:
    newest, serving = machine.newest, site.router.serving
    alive = serving is not None and not serving.ended.is_set()
    return {
        "state": _state(site, machine, alive),
        "serving": _serving(site) if alive else None,
        "current": current(site),
        "previous": _previous(site, machine),
        "deployment": None if newest is None else deployment(machine, newest),
        "reason": _reason(site),
        "worker_limits": serving.limits if alive and serving is not None else None,
        "batching": serving.batching if alive and serving is not None else None,
        "drift": _drift(site) if alive else None,
        "hangs": sum(each.hangs for each in site.router.totals.values()),
        "crashes": sum(each.crashes for each in site.router.totals.values()),
        "memory_restarts": sum(each.memory_restarts for each in site.router.totals.values()),
    }


def order(slots: Slots, record: Record) -> FleetOrder:
    return FleetOrder(record.id, record.state, record.reason, followed(slots, record), record.returns)


def followed(slots: Slots, record: Record) -> tuple[OrderedModel, ...]:
    return tuple(
        OrderedModel(each.model, each.kind, each.deployment or None, each.state, each.reason)
        for each in members_with_state(slots, record)
    )


def deployment(machine: Machine, record: Record) -> Document:
    running = machine.work if machine.work is not None and machine.work.record.id == record.id else None
    shown = record if running is None else running.record
    return {
        "id": shown.id,
        "model": machine.site.model,
        "kind": shown.kind,
        "state": shown.state,
        "release": shown.release or None,
        "name": shown.name,
        "summary": shown.summary,
        "reason": shown.reason,
        "requested": bool(shown.going_back),
        "old": shown.old,
        "source": None if shown.source is None else bundle_urls.shown(shown.source.url),
        "force": shown.force,
        "progress": running.progress if running is not None and running.progress else None,
        "detail": shown.detail,
        "history": shown.history,
        "text_routes": _text_routes(machine.site, shown),
    }


def _text_routes(site: Site, shown: Record) -> tuple[str, ...]:
    worker = site.router.serving
    return () if worker is None or worker.release_id != shown.release else worker.text_routes


def _reason(site: Site) -> str:
    """Returns the first problem of the model's service; empty if there is none."""
    vacancy = site.router.vacancy()
    none_serves = f"No release serves. {vacancy.why}" if vacancy is not None else ""
    restarts = site.memory_restarts.warning(current(site) or "", site.settings)
    stranded = site.stranded.reason if site.stranded is not None else ""
    return site.problem or stranded or none_serves or restarts or site.journal.unwritable or site.journal.set_aside


def _state(site: Site, machine: Machine, alive: bool) -> str:
    if machine.busy:
        return "deploying"
    if alive:
        return "serving"
    if site.router.starting:
        return "starting"
    return "degraded" if site.problem or current(site) else "empty"


def _serving(site: Site) -> Document | None:
    worker = site.router.serving
    if worker is None:
        return None
    return {
        **(_release(site, worker.release_id) or {}),
        "name": worker.name,
        "backend": worker.backend,
        "processing": worker.processed is not None,
        "pid": worker.pid,
        "since_s": site.since_s,
        "untrusted": untrusted(site.data.release(worker.release_id), worker.name, site.data.trust),
    }


def _drift(site: Site) -> ServerDrift | None:
    watch, worker = site.router.drift, site.router.serving
    return None if watch is None or worker is None else watch.status(worker.release_id)


def _previous(site: Site, machine: Machine) -> Document | None:
    """Returns the release of a rollback, or why it is refused; in a soak, the one before it, trusted or not."""
    running = machine.work
    if running is not None and running.record.state is State.SOAKING:
        return _release(site, running.record.old)
    previous = pointed(site.data.previous)
    if previous is None:
        return None
    found = _release(site, previous) or {}
    try:
        check_return(site.data, previous)
    except (EdgeoptError, OSError) as error:
        return {**found, "reason": str(error)}
    return found


def _release(site: Site, release: str | None) -> Document | None:
    if release is None:
        return None
    try:
        found = deployment_of(site.data.release(release))
    except EdgeoptError as error:
        return {"release": release, "name": "", "summary": "", "reason": error.message}
    return {"release": release, "name": found.name, "summary": found.summary}
