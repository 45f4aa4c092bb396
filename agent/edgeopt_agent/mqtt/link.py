"""The agent's place in a fleet: connects again and again, reports, follows the desired state, answers commands."""

import asyncio
import contextlib
import logging
import random
import sqlite3
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Literal

import aiomqtt
import msgspec

from edgeopt.decoding import thread_safe
from edgeopt.errors import EdgeoptError, printable
from edgeopt.fleet.broker import connect_problem
from edgeopt.fleet.mqtt_documents import DeviceEvent, Following, Presence, Reported
from edgeopt.fleet.mqtt_topics import ROLES
from edgeopt.version import __version__
from edgeopt_agent.control.answers import Answers
from edgeopt_agent.control.documents import Document
from edgeopt_agent.deployments.record import Record
from edgeopt_agent.deployments.slots import Slots
from edgeopt_agent.deployments.states import State
from edgeopt_agent.mqtt.commands import Commands
from edgeopt_agent.mqtt.connection import (
    NotConnectedError,
    answer_properties,
    asker_of,
    close,
    connect,
    new_client,
    subscribe,
    taken_over,
)
from edgeopt_agent.mqtt.figures import FleetFigures
from edgeopt_agent.mqtt.orders import Orders
from edgeopt_agent.mqtt.outbox import Outbox
from edgeopt_agent.mqtt.settings import MqttSettings, broker_of, topics_of
from edgeopt_agent.mqtt.signatures import SignedCommands
from edgeopt_agent.mqtt.target import own_labels
from edgeopt_agent.tasks import end_tasks
from edgeopt_agent.trials.search import Searches
from edgeopt_agent.trust import Trust

log = logging.getLogger(__name__)
# Its rate is limited: a client of the broker can send any number of commands.
ignored_log = logging.getLogger(f"{__name__}.ignored")
_STABLE_S = 30.0
"""Length of a connection after which the delays start again from the shortest."""
# The log says again that there is no connection; then each time after twice the time.
_FIRST_AGAIN_S = 60.0
_MAX_REASONS = 8
_SETTLE_S = 0.2
"""Changes that follow each other closely are reported once."""
_LOOK_AGAIN_S = 60.0
_AT_ONCE = 16
_MAX_COMMANDS = 16
_LONGEST_CORRELATION = 256
_FAREWELL_S = 1.0
_PASSING = frozenset({"uptime_s"})
"""Fields that change in a status although nothing happened."""


class FleetLink:
    def __init__(
        self,
        slots: Slots,
        settings: MqttSettings,
        answers: Answers,
        trust: Callable[[], Trust],
        searches: Searches,
    ) -> None:
        data = slots.first.site.data
        self._slots = slots
        self._settings = settings
        self._answers = answers
        self._trust = trust
        self._searches = searches
        self._topics = topics_of(settings)
        self._outbox = Outbox(data.outbox, settings.outbox_bytes, settings.outbox_s)
        self._changed = asyncio.Event()
        self._broker = str(broker_of(settings))
        self._orders = Orders(self._topics, data, self._outbox, answers, self._changed.set, self._broker)
        self._commands = Commands(answers, trust, SignedCommands(self._topics, data, self._outbox))
        self._answering: set[asyncio.Task[None]] = set()
        self._figures = FleetFigures(slots) if settings.telemetry_s else None
        self._desired = b""
        self._ordered = asyncio.Event()
        """Set when a desired state has come."""
        self._session = 0
        self._labels: Mapping[str, str] = settings.labels
        """The configured labels, and those of the device once they are known."""
        self._client: aiomqtt.Client | None = None
        """Client of the present connection."""
        self._tasks: list[asyncio.Task[None]] = []
        self._outage = Outage()

    async def start(self) -> None:
        await self._orders.load()
        await self._searches.load(self._changed.set)
        self._slots.listeners.append(self._event)
        self._slots.watchers.append(self._changed.set)
        self._tasks.append(asyncio.create_task(self._connect_always(), name="mqtt"))
        if self._figures is not None:
            self._tasks.append(asyncio.create_task(self._measure(self._figures), name="mqtt telemetry"))

    async def stop(self) -> None:
        """Says that the device goes offline, and ends the connection."""
        client = self._client
        if client is not None:
            with contextlib.suppress(aiomqtt.MqttError):
                farewell = msgspec.json.encode(self._presence("offline"))
                await client.publish(self._topics.status, farewell, 1, retain=True, timeout=_FAREWELL_S)
        await end_tasks((*self._tasks, *self._answering))
        await self._orders.stop()
        await self._searches.stop()
        self._slots.listeners.remove(self._event)
        self._slots.watchers.remove(self._changed.set)
        await self._outbox.close()

    async def _connect_always(self) -> None:
        settings, delay_s = self._settings, self._settings.reconnect_s
        self._session = await self._outbox.next_session()
        self._labels = await self._own_labels()
        while True:
            began = time.monotonic()
            try:
                await self._connect_once()
            except (aiomqtt.MqttError, NotConnectedError, OSError, sqlite3.Error) as error:
                self._log_lost(error)
                if taken_over(error):
                    delay_s = settings.reconnect_most_s  # else two devices of one name drive each other out
            except Exception:
                log.exception("The connection to %s failed; it is tried again.", self._broker)
            if time.monotonic() - began >= _STABLE_S:
                delay_s = settings.reconnect_s
            await asyncio.sleep(delay_s * random.uniform(0.5, 1.5))  # noqa: S311 - no secret
            delay_s = min(2 * delay_s, settings.reconnect_most_s)

    async def _own_labels(self) -> Mapping[str, str]:
        try:
            return await own_labels(await self._slots.first.site.device(), self._settings.labels)
        except (EdgeoptError, OSError) as error:
            log.warning("The kind and target of this device are not known: %s", error)
            return self._settings.labels

    async def _connect_once(self) -> None:
        """Returns or raises when the connection ends; each has a client of its own, and a session number."""
        client = await new_client(self._settings, self._topics, self._session, self._labels)
        await connect(client)
        try:
            await subscribe(client, self._topics)
            self._client = client
            await self._announce(client)
            log.info("Connected to %s as %s.", self._broker, self._topics.base)
            self._outage.connected()
            await _first_end(self._listen(client), self._follow(), self._report(client), self._send(client))
        finally:
            self._client = None
            await close(client)
            self._session = await self._outbox.next_session()

    def _log_lost(self, error: BaseException) -> None:
        reason = (
            f"another client connected as {self._topics.base}" if taken_over(error) else connect_problem(error)
        )
        if (for_s := self._outage.note_failure(reason)) is not None:
            since = f" for {for_s / 60:.0f} minutes" if for_s >= _FIRST_AGAIN_S else ""
            log.warning("Not connected to %s%s: %s. It is tried again.", self._broker, since, reason)

    async def _announce(self, client: aiomqtt.Client) -> None:
        await client.publish(self._topics.status, msgspec.json.encode(self._presence("online")), 1, retain=True)

    def _presence(self, state: Literal["online", "offline"]) -> Presence:
        return Presence(state, self._session, __version__, time.time(), dict(self._labels))

    async def _listen(self, client: aiomqtt.Client) -> None:
        roles = {self._topics.command(role): role for role in ROLES}
        async for message in client.messages:
            topic = str(message.topic)
            content = message.payload if isinstance(message.payload, bytes) else b""
            if topic == self._topics.desired:
                self._desired = content
                self._ordered.set()
            elif topic in roles:
                self._begin_answer(client, roles[topic], content, message)
            elif topic == self._topics.status and _is_late(content, self._session):
                await self._announce(client)

    async def _follow(self) -> None:
        """Follows the newest desired state, one after another; commands are answered meanwhile."""
        while True:
            await self._ordered.wait()
            self._ordered.clear()
            await self._orders.receive(self._desired)

    def _begin_answer(self, client: aiomqtt.Client, role: str, content: bytes, message: aiomqtt.Message) -> None:
        asker = answer_topic, correlation = asker_of(message)
        sound = self._topics.is_answer(answer_topic) and 0 < len(correlation) <= _LONGEST_CORRELATION
        if message.retain or not sound:
            ignored_log.warning(
                "A command was ignored: it is retained, or has no answer topic or correlation data."
            )
            return
        if len(self._answering) >= _MAX_COMMANDS:
            ignored_log.warning("A command was ignored: %d are being answered.", len(self._answering))
            return
        task = asyncio.create_task(self._answer(client, role, content, asker), name="mqtt command")
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)

    async def _answer(self, client: aiomqtt.Client, role: str, content: bytes, asker: tuple[str, bytes]) -> None:
        try:
            by = f"the MQTT client '{printable(asker[0].rpartition('/')[2])}' at {self._broker}"
            answer = await self._commands.answer(role, content, asker, by)
        except Exception:
            log.exception("A command failed.")
            return
        with contextlib.suppress(aiomqtt.MqttError):  # who still waits asks again, and gets the same answer
            await client.publish(asker[0], answer, 1, properties=answer_properties(asker[1]))

    async def _report(self, client: aiomqtt.Client) -> None:
        """Publishes the state at once, and then whenever it has changed."""
        published: Document = {}
        while True:
            self._changed.clear()
            _, status = await self._answers.status("")
            found: Document = {**status, "trust": self._trust()}
            orders = self._orders
            following = await self._with_end(orders.following)
            search = self._searches.last
            seen: Document = {
                "status": _lasting(found),
                "desired": following,
                "refused": orders.refused,
                "search": search,
            }
            if seen != published:
                published = seen
                state = Reported(self._session, time.time(), found, following, orders.refused, search)
                await client.publish(self._topics.reported, msgspec.json.encode(state), 1, retain=True)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), _LOOK_AGAIN_S)
            await asyncio.sleep(_SETTLE_S)

    async def _with_end(self, following: Following | None) -> Following | None:
        """Returns what the device follows, with the end of its deployment once the journal has it."""
        if following is not None and following.order is not None:
            return await self._with_models(following, following.order)
        if following is None or following.deployment is None:
            return following
        try:
            record = await self._slots.named(following.model).site.journal.deployment(following.deployment)
        except EdgeoptError:
            return following  # the model was removed meanwhile, or the journal cannot be read
        if record is None or not record.final:
            return following
        if record.state is State.COMMITTED:
            return msgspec.structs.replace(following, state="done")
        return msgspec.structs.replace(following, state="failed", reason=record.reason)

    async def _with_models(self, following: Following, number: int) -> Following:
        """Returns the order with the state of each of its models, and its end."""
        try:
            record = await self._answers.order(number)
        except EdgeoptError:
            return following  # its journal cannot be read
        if record is None:
            return following
        found = msgspec.structs.replace(following, models=self._answers.order_models(record))
        if not record.final or record.interrupted:
            return found
        if record.state is State.COMMITTED:
            return msgspec.structs.replace(found, state="done")
        return msgspec.structs.replace(found, state="failed", reason=record.reason)

    async def _send(self, client: aiomqtt.Client) -> None:
        """Sends what waits, in order; what the broker has not confirmed is sent again, with what came after it."""
        places = {"event": self._topics.event, "telemetry": self._topics.telemetry}
        while True:
            self._outbox.changed.clear()
            waiting = await self._outbox.oldest(_AT_ONCE)
            sending = [client.publish(places[each.kind], each.payload, 1) for each in waiting]
            outcomes = await asyncio.gather(*sending, return_exceptions=True)
            for each, outcome in zip(waiting, outcomes, strict=True):
                if isinstance(outcome, BaseException):
                    raise outcome
                await self._outbox.sent(each.number)
            if not waiting:
                await self._outbox.changed.wait()

    async def _measure(self, figures: FleetFigures) -> None:
        while True:
            await asyncio.sleep(self._settings.telemetry_s)
            self._outbox.add(figures.report(self._session))

    def _event(self, record: Record) -> None:
        slot = next((each for each in self._slots.all if each.machine.newest is record), self._slots.first)
        time_s = record.history[-1].time_s
        what = (slot.site.model, record.id, record.kind, record.state, record.release, record.reason)
        self._outbox.add(DeviceEvent(self._session, 0, time_s, *what))
        self._changed.set()
        if record.final:
            self._orders.deployment_ended()


class Outage:
    """The rule by which the log names a broker that is away: each reason once, and then at growing intervals."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._connected_s: float | None = None
        self._since_s: float | None = None
        self._again_s = 0.0
        """The time at which the log says it again."""
        self._reasons: set[str] = set()

    def connected(self) -> None:
        self._connected_s = self._clock()

    def note_failure(self, reason: str) -> float | None:
        """Notes a failure; returns how long the broker has been away if the log should say so, else None."""
        now = self._clock()
        if self._connected_s is not None and now - self._connected_s >= _STABLE_S:
            self._since_s = None
        self._connected_s = None
        if self._since_s is None:
            self._since_s, self._again_s = now, now + _FIRST_AGAIN_S
            self._reasons = {reason}
            return 0.0
        away_s = now - self._since_s
        if now >= self._again_s:
            # As long again as it has lasted.
            self._again_s = now + away_s
        elif reason in self._reasons or len(self._reasons) >= _MAX_REASONS:
            return None
        self._reasons.add(reason)
        return away_s


async def _first_end(*ways: Coroutine[None, None, None]) -> None:
    """Runs them together; when one ends, so do the others, and its error is raised."""
    tasks = [asyncio.create_task(way) for way in ways]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await end_tasks(tasks)
    for task in done:
        task.result()


def _is_late(content: bytes, session: int) -> bool:
    """Whether it is the last will of an earlier connection of this device."""
    try:
        found = msgspec.json.decode(content, type=thread_safe(Presence))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return True  # nobody else may write there
    return found.session <= session


def _lasting(status: Document) -> bytes:
    return msgspec.json.encode({name: value for name, value in status.items() if name not in _PASSING})
