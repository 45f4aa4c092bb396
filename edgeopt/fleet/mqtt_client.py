"""A connection of a client to the broker of a fleet."""

import asyncio
import contextlib
import os
import uuid
from collections.abc import AsyncIterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from edgeopt.errors import InputError, MissingError, MissingExtraError, UsageError, printable
from edgeopt.fleet.broker import Broker, connect_problem, read_broker, read_password, tls_context
from edgeopt.fleet.mqtt_topics import NAME, PREFIX_PATTERN, FleetTopics
from edgeopt.fleet.rollout_request import BrokerRequest

if TYPE_CHECKING:
    import aiomqtt
    from paho.mqtt.properties import Properties

_TIMEOUT_S = 20.0
_QUIET_S = 1.0
_AT_ONCE = 10
_TRIES = 2
_MARKER_S = 60
_SMALLEST_QUEUE = 1000
"""Messages that common brokers queue for a client by default: fewer are not dropped."""


def fleet_topics(request: BrokerRequest) -> FleetTopics:
    """Raises UsageError for names that cannot be parts of a topic."""
    if not NAME.fullmatch(request.fleet) or not PREFIX_PATTERN.fullmatch(request.prefix):
        raise UsageError(
            "--fleet and --prefix must be topics without wildcards.", "Use letters, digits, '.', '_', '-'."
        )
    return FleetTopics(request.fleet, request.prefix)


def broker_of(request: BrokerRequest) -> Broker:
    url = request.broker or os.environ.get("EDGEOPT_BROKER", "").strip()
    hint = "For instance: --broker mqtts://broker.example.com; or set EDGEOPT_BROKER."
    if not url:
        raise UsageError("The broker of the fleet is missing.", hint)
    try:
        broker = read_broker(url)
    except ValueError:
        raise UsageError(f"'{printable(url)}' is not the address of a broker.", hint) from None
    if not (broker.tls or broker.loopback or request.allow_plain):
        raise UsageError(
            f"{broker} is another machine without TLS: passwords and orders could be read and changed.",
            "Write mqtts://…; or, in a VPN, pass --allow-plain.",
        )
    return broker


def _too_many(pattern: str, count: int, *, checked: bool) -> MissingError:
    drops = "drops" if checked else "may drop"
    return MissingError(
        f"The broker {drops} messages of the fleet: {count} came of {pattern}, and the queue of a client is full.",
        "Let it queue more messages for a client, at least one per device: max_queued_messages in mosquitto.conf; "
        "and let this user write to _clients. See docs/fleet.md, Large fleets.",
    )


def _expiry(seconds: int) -> "Properties":
    from paho.mqtt.packettypes import PacketTypes
    from paho.mqtt.properties import Properties

    properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
    properties.MessageExpiryInterval = seconds
    return properties


@contextlib.asynccontextmanager
async def connected(request: BrokerRequest) -> "AsyncIterator[FleetClient]":
    """Raises MissingError where the broker cannot be reached or refuses this client."""
    if find_spec("aiomqtt") is None:
        raise MissingExtraError("fleet", "Using an MQTT broker")
    import aiomqtt

    broker, topics = broker_of(request), fleet_topics(request)
    client = _client(request, broker)
    try:
        await client.__aenter__()
    except (aiomqtt.MqttError, OSError) as error:
        client._client.disconnect()  # a broker that did not answer may hold the connection open
        raise MissingError(
            f"The broker {broker} cannot be used: {connect_problem(error)}.",
            "Check --broker, --username, --password-file and --ca-file.",
        ) from None
    reading = FleetClient(client, topics)
    try:
        yield reading
    except aiomqtt.MqttError as error:
        raise MissingError(
            f"The connection to the broker {broker} was lost: {printable(str(error))}.", "Run the command again."
        ) from None
    finally:
        await reading.close()
        with contextlib.suppress(aiomqtt.MqttError, TimeoutError):
            await asyncio.wait_for(client.__aexit__(None, None, None), 1.0)


def _authorities(request: BrokerRequest) -> Path | None:
    named = os.environ.get("EDGEOPT_CA_FILE", "").strip()
    return request.ca_file or (Path(named) if named else None)


def _client(request: BrokerRequest, broker: Broker) -> "aiomqtt.Client":
    import aiomqtt
    from aiomqtt import ProtocolVersion

    password = os.environ.get("EDGEOPT_BROKER_PASSWORD")
    try:
        tls = tls_context(_authorities(request), request.client_cert, request.client_key) if broker.tls else None
        password = read_password(request.password_file) or password
    except (OSError, ValueError) as error:
        raise InputError(
            f"A file for the broker cannot be used: {printable(str(error))}.",
            "Check --password-file, --ca-file, --client-cert and --client-key.",
        ) from None
    return aiomqtt.Client(
        broker.host,
        broker.port,
        username=request.username or os.environ.get("EDGEOPT_BROKER_USERNAME") or None,
        password=password,
        identifier=f"edgeopt-{uuid.uuid4().hex[:12]}",
        protocol=ProtocolVersion.V5,
        timeout=_TIMEOUT_S,
        max_inflight_messages=_AT_ONCE,
        tls_context=tls,
    )


class FleetClient:
    """Messages of a fleet as they come; what is retained first."""

    def __init__(self, client: "aiomqtt.Client", topics: FleetTopics) -> None:
        self._client = client
        self.topics = topics
        self._came: list[tuple[str, bytes]] = []
        self._news = asyncio.Event()
        self._reader = asyncio.create_task(self._read(), name="mqtt messages")

    async def close(self) -> None:
        self._reader.cancel()
        await asyncio.gather(self._reader, return_exceptions=True)

    async def retained(self, patterns: Sequence[str]) -> list[tuple[str, bytes]]:
        """Subscribes, and returns what the broker keeps on these topics, one pattern after the other.

        Raises MissingError where the broker drops some of it because the queue of this client is full.
        """
        marker = self.topics.marker(self._client.identifier)
        await self._client.subscribe(marker, 1)
        found: list[tuple[str, bytes]] = []
        for number, pattern in enumerate(patterns):
            part, last = await self._retained_of(pattern, number)
            if not last and (len(part) >= _SMALLEST_QUEUE or last is False):
                raise _too_many(pattern, len(part), checked=last is False)
            found += part
        return found

    async def read_again(self, patterns: Sequence[str]) -> list[tuple[str, bytes]]:
        """Returns what the broker keeps on these topics; nothing if reports that come meanwhile fill the queue."""
        with contextlib.suppress(MissingError):  # the next time may find the queue empty
            return await self.retained(patterns)
        return []

    async def _retained_of(self, pattern: str, number: int) -> tuple[list[tuple[str, bytes]], bool | None]:
        """The retained messages on a pattern, and whether all came; None where the broker cannot be asked.

        The broker queues what it keeps in the order of the patterns of one subscription and drops what exceeds
        the queue. So a kept message on the last pattern comes only if all before it came.
        """
        from paho.mqtt.subscribeoptions import SubscribeOptions

        marker = self.topics.marker(self._client.identifier)
        last, content = self.topics.last_marker(self._client.identifier, number), str(number).encode()
        await self._client.publish(last, content, 1, retain=True, properties=_expiry(_MARKER_S))
        codes = await self._client.subscribe(
            [(pattern, SubscribeOptions(1, noLocal=True)), (last, SubscribeOptions(1))]
        )
        if getattr(codes[0], "value", codes[0]) >= 128:
            raise MissingError(
                f"The broker does not allow to read {pattern}.", "Check the access rules of the broker."
            )
        found: list[tuple[str, bytes]] = []
        complete = allowed = False
        for _ in range(_TRIES):  # a full queue drops the marker too
            await self._client.publish(marker, content, 1)
            # Without the right to write there, it is quiet some time after the last message.
            while not (complete and allowed) and (more := await self.messages(_QUIET_S)):
                found += [each for each in more if each[0] not in {marker, last}]
                complete = complete or (last, content) in more
                allowed = allowed or (marker, content) in more
            if allowed or complete:
                break
        await self._client.unsubscribe(last)
        await self._client.publish(last, b"", 1, retain=True)
        return found, complete if allowed else (complete or None)

    async def messages(self, wait_s: float) -> list[tuple[str, bytes]]:
        """Returns all messages, once there is one, or none after this time. Raises aiomqtt.MqttError without a
        connection.
        """
        if not self._came:
            self._news.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), wait_s)
        found, self._came = self._came, []
        if not found and self._reader.done():
            self._reader.result()
        return found

    async def _read(self) -> None:
        """A task of its own: a wait for a message that is given up could lose it."""
        try:
            async for message in self._client.messages:
                content = message.payload if isinstance(message.payload, bytes) else b""
                self._came.append((str(message.topic), content))
                self._news.set()
        finally:
            self._news.set()

    async def publish(self, messages: Sequence[tuple[str, bytes]]) -> None:
        """Retained, each confirmed by the broker."""
        for begin in range(0, len(messages), _AT_ONCE):
            part = messages[begin : begin + _AT_ONCE]
            await asyncio.gather(
                *(self._client.publish(topic, content, 1, retain=True) for topic, content in part)
            )

    async def command(self, topic: str, content: bytes, answer: str, correlation: bytes) -> None:
        """Sends a command; devices perform one with this answer topic and correlation data once."""
        from paho.mqtt.packettypes import PacketTypes
        from paho.mqtt.properties import Properties

        properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
        properties.ResponseTopic = answer
        properties.CorrelationData = correlation
        await self._client.publish(topic, content, 1, properties=properties)
