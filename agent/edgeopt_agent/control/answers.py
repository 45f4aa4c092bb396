"""The answers of the agent: a status, as in HTTP, and a document for each question or order."""

import asyncio
import time
from typing import TYPE_CHECKING

import msgspec

from edgeopt.errors import DiskFullError, EdgeoptError, InputError
from edgeopt.fleet.mqtt_documents import DesiredBundle, SearchOrder
from edgeopt.fleet.records import OrderedModel
from edgeopt.version import __version__
from edgeopt_agent.control import documents
from edgeopt_agent.control.desired import deployment_record, deployment_records
from edgeopt_agent.control.documents import Document
from edgeopt_agent.deployments.record import Record
from edgeopt_agent.deployments.refused import RefusedError
from edgeopt_agent.deployments.several import deploy_several, is_interrupted, return_from
from edgeopt_agent.deployments.slots import Slots
from edgeopt_agent.own_commands import for_client
from edgeopt_agent.releases import list_releases
from edgeopt_agent.settings import Settings

if TYPE_CHECKING:
    from edgeopt_agent.trials.search import Searches

Answered = tuple[int, Document]


class Answers:
    """Each raises RefusedError for what is not possible; `model` is a name, empty for the default one.

    `ordered_by` says for the log who asks.
    """

    def __init__(self, slots: Slots, started: float, searches: "Searches | None" = None) -> None:
        """Takes the start of the agent by the monotonic clock, and the searches that a fleet may order."""
        self._slots = slots
        self._searches = searches
        self._started = started

    def error(self, error: EdgeoptError) -> Answered:
        """Returns the answer to a client that may be on another device."""
        return error_answer(error)

    async def device(self) -> Answered:
        return 200, {"device": await self._slots.first.site.device(), "agent": __version__}

    async def status(self, model: str) -> Answered:
        shown = self._slots.named(model)
        others = [slot for slot in self._slots.all if slot is not shown and not slot.removed] if not model else []
        order = self._slots.orders.last
        order_document = None if order is None else documents.order(self._slots, order)
        found = documents.status(shown, others, time.monotonic() - self._started, order_document)
        return 200, {**found, "watched": self._slots.refused_files}

    async def releases(self, model: str) -> Answered:
        site = self._slots.named(model).site
        failed, refused = await site.journal.quarantined(), await site.journal.refused()
        return 200, {"releases": await asyncio.to_thread(list_releases, site.data, failed, refused)}

    async def deployment(self, number: str, model: str) -> Answered:
        slot = self._slots.named(model)
        known = number.isascii() and number.isdecimal() and len(number) < 19
        record = await slot.site.journal.deployment(int(number)) if known else None
        if record is None:
            sentence = f"There is no deployment '{number[:40]}'."
            raise RefusedError(404, "not-found", sentence, "See /api/v1/events.")
        return 200, {"deployment": documents.deployment(slot.machine, record)}

    async def desired(self, found: DesiredBundle, ordered_by: str) -> Answered:
        settings = self._slots.first.site.settings
        if found.models:
            records = [
                (model, msgspec.structs.replace(each, ordered_by=ordered_by))
                for model, each in deployment_records(found, settings)
            ]
            return 202, {"order": documents.order(self._slots, await deploy_several(self._slots, records))}
        record = msgspec.structs.replace(deployment_record(found, settings), ordered_by=ordered_by)
        slot = await self._slots.add(found.model) if found.add else self._slots.named(found.model)
        begun = await slot.machine.deploy_source(record)
        return 202, {"deployment": documents.deployment(slot.machine, begun)}

    async def order(self, number: int) -> Record | None:
        return await self._slots.orders.record(number)

    async def is_interrupted(self, order: int) -> bool:
        return await is_interrupted(self._slots, order)

    def order_models(self, order: Record) -> tuple[OrderedModel, ...]:
        return documents.followed(self._slots, order)

    async def take_back(self, order: int, ordered_by: str) -> Answered:
        """Takes an order of several models back."""
        record = await return_from(self._slots, order, ordered_by)
        return 202, {"order": documents.order(self._slots, record)}

    async def rollback(self, to: str, model: str, ordered_by: str) -> Answered:
        machine = self._slots.to_return(model).machine
        record = await machine.roll_back(to=to, ordered_by=ordered_by)
        return 202, {"deployment": documents.deployment(machine, record)}

    async def cancel(self, model: str, ordered_by: str) -> Answered:
        machine = self._slots.with_deployment(model).machine
        record = await machine.cancel(ordered_by)
        return 202, {"deployment": documents.deployment(machine, record)}

    async def optimize(self, order: SearchOrder | None, ordered_by: str) -> Answered:
        if order is None or self._searches is None:
            raise RefusedError(
                400, "bad-document", "The command does not say what to search for.", "Add 'search'."
            )
        return 202, {"search": await self._searches.begin(order, ordered_by)}

    async def cancel_search(self, search: str, ordered_by: str) -> Answered:
        report = None if self._searches is None else await self._searches.cancel(search, ordered_by)
        return 200, {"search": report}

    async def remove(self, model: str, ordered_by: str) -> Answered:
        if not model:
            raise RefusedError(400, "bad-query", "The name of the model to remove is missing.", "Pass model=NAME.")
        await self._slots.remove(model, ordered_by)
        return 200, {"removed": model}

    async def collect(self, dry_run: bool, model: str) -> Answered:
        machine = self._slots.named(model).machine
        return 200, {"releases": await machine.collect(dry_run), "dry_run": dry_run}


def error_answer(error: EdgeoptError, settings: Settings | None = None, client: str = "") -> Answered:
    """Returns the answer; with settings, a client on this device can copy the commands of the hint."""
    hint = error.hint if settings is None else for_client(error.hint, settings, client)
    return _status_of(error), {"error": {"code": error.code, "message": error.message, "hint": hint}}


def _status_of(error: EdgeoptError) -> int:
    if isinstance(error, RefusedError):
        return error.status
    if error.code == DiskFullError.code:
        return 507
    return 400 if isinstance(error, InputError) else 500
