"""One connection to the broker: who the device is, its last will, TLS, and why a connection failed."""

import asyncio
import logging
import socket
from collections import deque
from collections.abc import Mapping, Sequence

import aiomqtt
import msgspec
from aiomqtt import ProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from edgeopt.errors import printable
from edgeopt.fleet.broker import read_password, tls_context
from edgeopt.fleet.mqtt_documents import Presence
from edgeopt.fleet.mqtt_topics import ROLES, Topics
from edgeopt_agent.http.early import RateLimit
from edgeopt_agent.mqtt.settings import MqttSettings, broker_of
from edgeopt_agent.threads import in_thread

inbox_log = logging.getLogger(f"{__name__}.inbox")
inbox_log.addFilter(RateLimit())
LARGEST_PACKET_BYTES = 4 << 20
"""The broker drops larger ones; what is smaller but too large is refused with a reason."""
_WAITING_MESSAGES = 32
_TIMEOUT_S = 20.0
_CONNECT_TIMEOUT_S = 3.0
_TAKEN_OVER = 142
_NO_RETAINED = 2


class Inbox(asyncio.Queue[aiomqtt.Message]):
    """Messages that wait: of desired states the newest only, which a flood of others cannot keep out."""

    def __init__(self, maxsize: int) -> None:
        super().__init__()
        self._maximum = maxsize

    def put_nowait(self, item: aiomqtt.Message) -> None:
        if not _is_desired(item) and self.qsize() >= self._maximum:
            raise asyncio.QueueFull
        super().put_nowait(item)

    def _put(self, item: aiomqtt.Message) -> None:
        waiting: deque[aiomqtt.Message] = self._queue  # type: ignore[attr-defined]
        if _is_desired(item):
            for older in [each for each in waiting if _is_desired(each)]:
                waiting.remove(older)
        waiting.append(item)


def _is_desired(message: aiomqtt.Message) -> bool:
    return str(message.topic).endswith("/desired")


class NotConnectedError(Exception):
    """The broker cannot be reached or does not take this device; its text says why."""


async def new_client(
    settings: MqttSettings, topics: Topics, session: int, labels: Mapping[str, str]
) -> aiomqtt.Client:
    """Returns a client for one connection; raises NotConnectedError if its files or the host are unusable."""
    broker = broker_of(settings)
    try:
        # The end of the agent waits for the thread in which the library connects, so a slow name server is
        # waited for here.
        await in_thread(lambda: socket.getaddrinfo(broker.host, broker.port, type=socket.SOCK_STREAM))
        files = (settings.ca_file, settings.cert_file, settings.key_file)
        # Read for each connection, so that renewed certificates are taken.
        tls = await in_thread(lambda: tls_context(*files)) if broker.tls else None
        password = await in_thread(lambda: read_password(settings.password_file))
    except (OSError, ValueError) as error:
        raise NotConnectedError(printable(str(error))) from None
    properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
    properties.SessionExpiryInterval = settings.session_expiry_s
    properties.MaximumPacketSize = LARGEST_PACKET_BYTES
    properties.ReceiveMaximum = _WAITING_MESSAGES // 2
    last_will = Presence("offline", session, labels=dict(labels))
    client = aiomqtt.Client(
        broker.host,
        broker.port,
        username=settings.username or None,
        password=password,
        identifier=f"{topics.fleet}.{topics.device}",
        protocol=ProtocolVersion.V5,
        will=aiomqtt.Will(topics.status, msgspec.json.encode(last_will), qos=1, retain=True),
        timeout=_TIMEOUT_S,
        keepalive=settings.keepalive_s,
        clean_start=False,
        max_queued_incoming_messages=_WAITING_MESSAGES,
        queue_type=Inbox,
        logger=inbox_log,
        properties=properties,
        tls_context=tls,
    )
    client._client.connect_timeout = _CONNECT_TIMEOUT_S
    return client


async def connect(client: aiomqtt.Client) -> None:
    try:
        await client.__aenter__()
    except aiomqtt.MqttError:
        client._client.disconnect()  # a broker that did not answer may hold the connection open
        raise


async def subscribe(client: aiomqtt.Client, topics: Topics) -> None:
    """Raises NotConnectedError where the broker allows one of the topics not.

    The desired state comes with QoS 0: the retained one counts, not those that the broker would keep for a device
    that is away. Commands are never retained.
    """
    commands = [(topics.command(role), SubscribeOptions(1, retainHandling=_NO_RETAINED)) for role in ROLES]
    presence = (topics.status, SubscribeOptions(1, noLocal=True, retainHandling=_NO_RETAINED))
    subscriptions = [(topics.desired, SubscribeOptions(0)), presence, *commands]
    codes = await client.subscribe(subscriptions)
    refused = [topic for (topic, _), code in zip(subscriptions, _numbers(codes), strict=False) if code >= 128]
    if refused:
        raise NotConnectedError(f"the broker does not allow to subscribe to {', '.join(refused)}")


def answer_properties(correlation: bytes) -> Properties:
    properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
    properties.CorrelationData = correlation
    return properties


def asker_of(message: aiomqtt.Message) -> tuple[str, bytes]:
    """Returns the answer topic and the correlation data of a command; empty if they are missing."""
    properties = message.properties
    return getattr(properties, "ResponseTopic", ""), getattr(properties, "CorrelationData", b"")


def taken_over(error: BaseException) -> bool:
    """Whether another client has connected with the id of this one."""
    code = getattr(error, "rc", None)
    return getattr(code, "value", code) == _TAKEN_OVER


async def close(client: aiomqtt.Client) -> None:
    """Disconnects, so that the broker does not send the last will."""
    try:
        await asyncio.wait_for(client.__aexit__(None, None, None), 1.0)
    except (TimeoutError, aiomqtt.MqttError):
        return


def _numbers(codes: Sequence[ReasonCode | int]) -> list[int]:
    return [code if isinstance(code, int) else code.value for code in codes]
