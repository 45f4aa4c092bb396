"""The models of an agent: each is a slot with a folder, a journal, deployments and a worker of its own."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import msgspec

from edgeopt.events import Log, Progress
from edgeopt.fleet.records import RefusedFile, deployment_title
from edgeopt.hw.device import Device
from edgeopt_agent.config import reloaded
from edgeopt_agent.data_dir import DataDir, added_models, remove, sweep_removed, write_whole
from edgeopt_agent.deployments.floors import keep_floors
from edgeopt_agent.deployments.joint import Joint, OrderBook
from edgeopt_agent.deployments.left_order import left_order
from edgeopt_agent.deployments.machine import Listener, Machine
from edgeopt_agent.deployments.record import Record
from edgeopt_agent.deployments.recovery import recover
from edgeopt_agent.deployments.refused import RefusedError, disk_refusal
from edgeopt_agent.deployments.site import Site, current, name_of
from edgeopt_agent.deployments.states import State
from edgeopt_agent.deployments.supervisor import Supervisor
from edgeopt_agent.deployments.switching import FAREWELL_S
from edgeopt_agent.deployments.vacancy import vacancy
from edgeopt_agent.drift.golden import ask_golden
from edgeopt_agent.drift.kept import ReferenceFile
from edgeopt_agent.drift.watch import DriftWatch
from edgeopt_agent.journal import Journal
from edgeopt_agent.settings import Settings
from edgeopt_agent.telemetry.hub import Hub
from edgeopt_agent.workers.models import Models
from edgeopt_agent.workers.names import clash_sentence, clashes
from edgeopt_agent.workers.router import Router

log = logging.getLogger(__name__)
_LONGEST_FOLDER = 255
OnSlot = Callable[["Slot"], None]


@dataclass(slots=True, eq=False)
class Slot:
    """One model: what belongs to it alone."""

    site: Site
    machine: Machine
    hub: Hub
    working: asyncio.Task[None] | None = None
    golden: asyncio.Task[None] | None = None
    """Task that runs the golden inputs of the serving release at intervals."""

    @property
    def name(self) -> str:
        """Name of the model for clients; empty for a first model that nothing was deployed to."""
        serving = self.site.router.serving
        return self.site.model or (serving.name if serving is not None else self.site.router.expected_name())

    @property
    def names(self) -> set[str]:
        """All names that it has or may get back."""
        running = self.machine.work
        old = name_of(self.site, running.record.old) if running is not None else ""
        deploying = str(running.found.get("name", running.record.name)) if running is not None else ""
        return {self.name, self.site.router.expected_name(), old, deploying} - {""}

    @property
    def removed(self) -> bool:
        """Whether an order of several models has taken it out of service; a rollback brings it back."""
        newest = self.machine.newest
        return newest is not None and newest.kind == "remove" and newest.state is State.COMMITTED

    @property
    def empty(self) -> bool:
        """Whether nothing serves here, should serve, or is being deployed."""
        idle = self.machine.recovered.is_set() and not self.machine.busy
        return idle and self.site.router.serving is None and current(self.site) is None

    def serves_committed(self, release: str) -> bool:
        """Whether this release serves, and is not being deployed."""
        serving, work = self.site.router.serving, self.machine.work
        committed = work is None or work.record.release != release
        return committed and serving is not None and serving.release_id == release

    def watch_golden(self) -> None:
        """Starts to ask the golden inputs, where that is wanted."""
        router, settings = self.site.router, self.site.settings
        if (watch := router.drift) is not None and watch.settings.golden_s:
            asking = ask_golden(router, watch, settings.request_timeout_s, lambda: self.machine.busy)
            self.golden = asyncio.create_task(asking, name=f"golden inputs {self.site.model}".rstrip())

    async def work(self) -> None:
        await recover(self.site, self.machine)
        await Supervisor(self.site, self.machine).run()

    async def stop(self, grace_s: float) -> None:
        """Leaves its deployment as it is, and ends its workers."""
        for task in (self.working, self.golden):
            if task is not None:
                task.cancel()
        await self.machine.stop()
        router = self.site.router
        workers = [worker for worker in (router.serving, router.standby) if worker is not None]
        router.switch(None, keep_old=False)
        await asyncio.gather(*(worker.stop(grace_s) for worker in workers))
        if self.working is not None:
            await asyncio.gather(self.working, return_exceptions=True)


class Slots:
    """All slots. The first one is the agent's own folder, and is always there."""

    def __init__(self, settings: Settings, data: DataDir, device: Callable[[], Awaitable[Device]]) -> None:
        self._device = device
        self._on_end: OnSlot | None = None
        """Called when the work of a slot ended; set once the slots work."""
        self._changing = asyncio.Lock()
        self.listeners: list[Listener] = []
        """Told each state of each model's deployments."""
        self.watchers: list[Callable[[], None]] = []
        """Called when a model was added or removed, or what serves or its health has changed."""
        self.refused_files: tuple[RefusedFile, ...] = ()
        """Files in the watched folder that are not deployed."""
        self.models = Models()
        self.orders = OrderBook(data.orders)
        """Orders of several models."""
        self.orders.on_change = self._notify
        self._leaving: asyncio.Task[Joint | None] | None = None
        self.all: list[Slot] = []
        self.first = self._open(settings, data, "", Journal(data.journal))
        sweep_removed(data)
        for name in added_models(data):
            added = data.of_model(name)
            with contextlib.suppress(OSError):  # a folder that cannot be written to still serves
                added.make()  # a killed agent can have made a part of it
            self._open(settings, added, name, Journal(added.journal))

    def start(self, on_end: OnSlot) -> None:
        """Brings every model back into service; calls `on_end` when each is done."""
        self._on_end = on_end
        self._leaving = asyncio.create_task(left_order(self.orders, [slot.site for slot in self.all]))
        for slot in self.all:
            self._start(slot)

    def _start(self, slot: Slot) -> None:
        if (on_end := self._on_end) is None:
            return
        slot.working = asyncio.create_task(slot.work(), name=f"supervisor {slot.site.model}".rstrip())
        slot.watch_golden()
        slot.working.add_done_callback(lambda _: on_end(slot) if slot in self.all else None)

    async def _left_order(self) -> Joint | None:
        return None if self._leaving is None else await asyncio.shield(self._leaving)

    def named(self, name: str) -> Slot:
        """Returns the slot of this name, or the first one without a name; raises RefusedError if there is none."""
        if not name:
            return self.first
        for slot in self.all:
            if name == slot.name:
                return slot
        known = ", ".join(f"'{slot.name}'" for slot in self.all if slot.name) or "none"
        raise RefusedError(
            *(404, "no-model", f"There is no model '{name[:80]}' on this agent; it has {known}."),
            "List them: edgeopt-agent status",
        )

    def with_deployment(self, name: str) -> Slot:
        """Returns the slot of this name; without one, the only slot that deploys, else the first one."""
        running = [slot for slot in self.all if slot.machine.work is not None]
        if name or not running:
            return self.named(name)
        if len(running) > 1:
            names = " and ".join(f"'{slot.name}'" for slot in running)
            raise RefusedError(
                *(409, "several-models", f"Deployments of several models are going on: {names}."),
                "Name one with --model.",
            )
        return running[0]

    def to_return(self, name: str) -> Slot:
        """Returns the slot to roll back: by its name, else the first one, or the only one that is not empty."""
        used = [slot for slot in self.all if not slot.empty]
        return used[0] if not name and len(used) == 1 else self.named(name)

    def for_bundle(self, name: str) -> Slot:
        """Returns the slot that a bundle of this name replaces: the model of its name, or the first one."""
        return next((slot for slot in self.all if name in slot.names), self.first)

    def _clash(self, name: str, own: Slot | None = None) -> str:
        """Returns the name of another model than `own` with which this name clashes; empty if none does."""
        others = (each for each in self.all if each is not own and not each.empty)
        return next((known for each in others for known in each.names if clashes(name, known)), "")

    def hub(self, name: str) -> Hub | None:
        """Returns the telemetry of a model, of the first one without a name."""
        return next((slot.hub for slot in self.all if slot.name == name), None) if name else self.first.hub

    def state(self, router: Router) -> str:
        """Returns the state of the last deployment of the model that this router leads to."""
        newest = next((slot.machine.newest for slot in self.all if slot.site.router is router), None)
        return "" if newest is None else newest.state

    async def add(self, name: str) -> Slot:
        """Returns a slot for one more model; raises RefusedError if the name is taken or there is no slot left."""
        async with self._changing:
            taken = next((slot for slot in self.all if name in slot.names and not slot.empty), None)
            if taken is not None:
                raise RefusedError(
                    *(409, "name-taken", f"A model called '{name}' is on this agent already."),
                    "Deploy the bundle without --add to replace it.",
                )
            if clashing := self._clash(name):
                raise RefusedError(
                    *(409, "name-taken", clash_sentence(name, clashing)), "Give the bundle another name."
                )
            if self.first.empty:
                return self.first
            unused = [slot for slot in self.all if slot.empty]
            if (again := next((slot for slot in unused if slot.site.model == name), None)) is not None:
                return again  # its last deployment failed
            self.check_room()
            if len(self.all) >= self.first.site.settings.max_models:
                await self._remove(unused[0])
            return await self._new(name)

    def check_room(self) -> None:
        """Raises RefusedError where no model can be added, whatever its name; an empty slot gives way."""
        maximum = self.first.site.settings.max_models
        if len(self.all) >= maximum and not any(slot.empty for slot in self.all):
            raise RefusedError(
                *(409, "too-many-models", f"This agent has {len(self.all)} models; `max_models` is {maximum}."),
                "Remove one (edgeopt-agent remove NAME), or raise max_models in the agent's configuration.",
            )

    async def _new(self, name: str) -> Slot:
        data = self.first.site.data.of_model(name)
        if len(data.root.name) > _LONGEST_FOLDER:
            raise RefusedError(
                *(400, "bad-name", f"The name '{name[:40]}…' is too long for a folder."),
                "Give the bundle a shorter name.",
            )
        await asyncio.to_thread(remove, data.root)  # what a removal may have left
        try:
            await asyncio.to_thread(data.make)
        except OSError as error:
            await asyncio.to_thread(remove, data.root)  # the next start would take a part of it for a model
            raise disk_refusal(f"The model '{name}' could not be added: {error.strerror}.", error) from error
        journal = await asyncio.to_thread(Journal, data.journal)
        slot = self._open(self.first.site.settings, data, name, journal)
        self._start(slot)
        self._announce(name, f"The model '{name}' was added.")
        return slot

    async def remove(self, name: str, ordered_by: str) -> None:
        """Ends an added model and deletes all that belongs to it; raises RefusedError while it deploys."""
        async with self._changing:
            slot = self.named(name)
            if slot is self.first:
                raise RefusedError(
                    *(409, "first-model", f"'{slot.name or 'It'}' is the first model of this agent, which stays."),
                    "Replace it: edgeopt-agent deploy BUNDLE --rename",
                )
            await slot.machine.recovered.wait()
            await slot.machine.tidied()
            if slot.machine.busy:
                raise RefusedError(
                    *(409, "busy", f"A deployment of '{slot.name}' is going on."),
                    f"Wait until it ends, or cancel it: edgeopt-agent cancel{slot.site.option}",
                )
            log.info("The model '%s' is removed. Ordered by %s.", slot.site.model, ordered_by)
            await self._remove(slot)

    async def _remove(self, slot: Slot) -> None:
        slot.machine.closed = True
        data, release = slot.site.data, current(slot.site) or ""
        try:
            await keep_floors(data, {slot.site.model, *slot.names}, slot.site.journal)
            await asyncio.to_thread(write_whole, data.removed, "")  # from here on no start brings it back
        except BaseException as error:
            slot.machine.closed = False
            if isinstance(error, OSError):
                sentence = f"The model '{slot.site.model}' could not be removed: {error.strerror}."
                raise disk_refusal(sentence, error) from error
            raise
        self.all.remove(slot)
        self.models.routers.remove(slot.site.router)
        self._announce(slot.site.model, f"The model '{slot.site.model}' was removed.")
        slot.site.journal.wake()
        slot.hub.close()
        await slot.stop(FAREWELL_S)
        await slot.site.journal.close()
        await asyncio.to_thread(remove, data.root)
        log.info("The model '%s' was removed.", slot.site.model)
        await self.first.site.journal.note("REMOVED", release, f"The model '{slot.site.model}' was removed.")

    def reload(self, found: Settings) -> tuple[str, ...]:
        """Takes over changed settings; the names of those that wait for a restart."""
        _, waiting = reloaded(self.first.site.settings, found)
        for slot in self.all:
            slot.site.settings, _ = reloaded(slot.site.settings, found)
        return waiting

    def refuse_files(self, found: tuple[RefusedFile, ...]) -> None:
        """Tells which files in the watched folder are not deployed."""
        if found != self.refused_files:
            self.refused_files = found
            self._notify()

    def wake(self) -> None:
        """Ends every wait for events."""
        for slot in self.all:
            slot.site.journal.wake()

    async def stop(self, grace_s: float) -> None:
        await asyncio.gather(*(slot.stop(grace_s) for slot in self.all))

    async def close(self) -> None:
        for slot in self.all:
            await slot.site.journal.close()
        await self.orders.close()

    def _announce(self, model: str, message: str) -> None:
        """Pages that watch another model can offer this one, or stop offering it."""
        for slot in self.all:
            slot.hub.publish(Log("info", message, kind="models-changed", subject=model))
        self._notify()

    def _notify(self) -> None:
        for watcher in self.watchers:
            watcher()

    def _notify_listeners(self, record: Record) -> None:
        for listener in self.listeners:
            listener(record)

    def _open(self, settings: Settings, data: DataDir, name: str, journal: Journal) -> Slot:
        settings = msgspec.structs.replace(settings, data_dir=data.root)
        router = Router(settings)
        site = Site(settings, data, journal, router, self._device, model=name, left_order=self._left_order)
        if (release := current(site)) is not None:
            site.problem = f"The release {release} is being started."
            router.starting = True
        router.why_nothing = lambda: site.problem
        router.expected_name = lambda: "" if slot.removed else site.model or name_of(site, current(site))
        router.watchers.append(site.observed.watch)
        router.on_change = self._notify
        machine, hub = Machine(site), Hub(router, name)
        slot = Slot(site, machine, hub)
        router.vacancy = lambda: vacancy(machine)
        machine.listeners.append(lambda record: hub.publish(_progress(record)))
        machine.listeners.append(self._notify_listeners)
        if settings.drift is not None:
            kept = ReferenceFile(data.drift)
            router.drift = DriftWatch(settings.drift, kept.read, kept.save, slot.serves_committed)
            router.drift.on_change = self._notify
        site.name_clash = lambda other: self._clash(other, slot)
        self.all.append(slot)
        self.models.routers.append(router)
        return slot


def _progress(record: Record) -> Progress:
    """Returns a deployment's state as viewers of the telemetry see it."""
    message = f"{record.name} {record.reason}".strip()
    subject = deployment_title(record.kind, record.id)
    return Progress(record.state.lower(), message, subject=subject, time_s=record.history[-1].time_s)
