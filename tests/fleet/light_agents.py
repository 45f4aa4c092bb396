"""Agents without a model: coroutines that speak the protocol of a device, many in one thread."""

import asyncio
import contextlib
import socket
import threading
import time
from concurrent.futures import Future

import aiomqtt
import msgspec
from aiomqtt import ProtocolVersion
from paho.mqtt.subscribeoptions import SubscribeOptions

from edgeopt.bundle.sign import load_public_key
from edgeopt.bundle.signed_document import opened_document, verify_document
from edgeopt.errors import EdgeoptError
from edgeopt.fleet.mqtt_documents import DESIRED_TYPE, Command, DesiredState, Following, Presence, Reported
from edgeopt.fleet.mqtt_topics import Topics
from edgeopt.fleet.records import COMMITTED, ROLLED_BACK, FleetDeployment, Serving, Status

DEADLINE_S = 60.0


class LightAgent:
    """One device. It survives disconnections as a real one does: what it serves and follows stays."""

    def __init__(self, topics, port, behaviour, labels=None, key=None, step_s=0.0, gate=None):
        self.topics = topics
        self.orders = []
        """The sequence numbers that it followed: a device that is ordered once has one."""
        self.sent_bytes = self.sent = self.received_bytes = self.received = 0
        self._port = port
        self._behaviour = behaviour
        """What becomes of a digest: "commit", "roll back", "hang" or "die"; or figures of a committed one."""
        self._labels = labels or {}
        self._trusted = [load_public_key(key)] if key else []
        self._step_s = step_s
        self._gate = gate
        """Deployments wait for it before they end."""
        self._session = time.time_ns()
        self._status = Status("serving", Serving("release-0", "model"))
        self._following = self._refused = None
        self._deployments = 0
        self._client = None
        self._task = None
        self._working = set()

    async def start(self):
        client = aiomqtt.Client(
            "127.0.0.1", self._port,
            identifier=f"light.{self.topics.fleet}.{self.topics.device}", protocol=ProtocolVersion.V5,
            will=aiomqtt.Will(
                self.topics.status, msgspec.json.encode(Presence("offline", self._session, labels=self._labels)),
                1, retain=True,
            ),
        )  # fmt: skip
        await client.__aenter__()
        self._client = client
        await client.subscribe([(self.topics.desired, SubscribeOptions(0)), (self.topics.command("deploy"), 1)])
        birth = Presence("online", self._session, "light", time.time(), self._labels)
        await self._publish(self.topics.status, msgspec.json.encode(birth))
        await self._report()
        self._task = asyncio.create_task(self._listen(client))

    async def stop(self):
        """Goes offline as a device does that is shut down."""
        offline = Presence("offline", self._session, "light", time.time(), self._labels)
        await self._publish(self.topics.status, msgspec.json.encode(offline))
        for task in (self._task, *self._working):
            task.cancel()
        await asyncio.gather(self._task, *self._working, return_exceptions=True)
        await self._client.__aexit__(None, None, None)
        self._client = None
        self._session += 1

    async def vanish(self):
        """The connection ends without a word, as at a power cut: the broker sends the last will."""
        self._client._client.socket().shutdown(socket.SHUT_RDWR)
        await asyncio.gather(self._task, *self._working, return_exceptions=True)
        with contextlib.suppress(aiomqtt.MqttError):
            await self._client.__aexit__(None, None, None)
        self._client = None
        self._session += 1

    async def connect_again(self):
        """After the broker was away."""
        await asyncio.gather(self._task, return_exceptions=True)
        with contextlib.suppress(aiomqtt.MqttError):
            await self._client.__aexit__(None, None, None)
        self._session += 1
        await self.start()

    @property
    def serving(self):
        return self._status.serving.release

    async def _publish(self, topic, content):
        self.sent, self.sent_bytes = self.sent + 1, self.sent_bytes + len(topic) + len(content)
        await self._client.publish(topic, content, 1, retain=True)

    async def _report(self):
        report = Reported(self._session, time.time(), self._status, self._following, self._refused)
        await self._publish(self.topics.reported, msgspec.json.encode(report))

    async def _listen(self, client):
        with contextlib.suppress(aiomqtt.MqttError):
            async for message in client.messages:
                topic = str(message.topic)
                self.received += 1
                self.received_bytes += len(topic) + len(message.payload or b"")
                if topic == self.topics.desired and message.payload:
                    await self._receive(message.payload)
                elif topic == self.topics.command("deploy"):
                    asked = msgspec.json.decode(message.payload, type=Command)
                    await self._end(COMMITTED, asked.to)

    async def _receive(self, content):
        try:
            envelope = opened_document(content, DESIRED_TYPE)
            if self._trusted:
                if envelope is None:
                    raise EdgeoptError("The desired state is not signed.")
                verify_document(envelope, self._trusted)
        except EdgeoptError as error:
            self._refused = Following(0, "refused", code="unsigned", reason=str(error), time_s=time.time())
            await self._report()
            return
        state = msgspec.json.decode(content if envelope is None else envelope.payload, type=DesiredState)
        assert (state.fleet, state.device) == (self.topics.fleet, self.topics.device)
        newest = self._following.sequence if self._following else 0
        if state.sequence <= newest:
            return
        self._deployments += 1
        self._following = Following(state.sequence, "deploying", self._deployments, time_s=time.time())
        self.orders.append(state.sequence)
        task = asyncio.create_task(self._deploy(state.desired))
        self._working.add(task)
        task.add_done_callback(self._working.discard)

    async def _deploy(self, desired):
        release, ending = desired.digest[7:19], self._behaviour(desired.digest)
        for stage in ("FETCHING", "SOAKING"):
            running = FleetDeployment(self._deployments, stage, release=release)
            self._status = msgspec.structs.replace(self._status, state="deploying", deployment=running)
            await self._report()
            await asyncio.sleep(self._step_s)
        while self._gate is not None and not self._gate.is_set():
            await asyncio.sleep(0.02)
        if ending == "hang":
            return
        if ending == "roll back":
            await self._end(ROLLED_BACK, self.serving, "Its output 'scores' agrees to 3.1 dB.")
        else:
            await self._end(COMMITTED, release, detail=ending if isinstance(ending, dict) else {})

    async def _end(self, state, release, reason="", detail=None):
        ended = FleetDeployment(self._deployments, state, release=release, reason=reason, detail=detail or {})
        self._status = Status("serving", Serving(release, "model"), deployment=ended)
        await self._report()


class LightFleet:
    """Light agents in a thread of their own."""

    def __init__(self, port, fleet="default"):
        self.agents = {}
        self._port = port
        self._fleet = fleet
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def do(self, work):
        future: Future = asyncio.run_coroutine_threadsafe(work, self._loop)
        return future.result(DEADLINE_S)

    def add(self, names, behaviour=lambda _: "commit", online=True, **more):
        """Devices that are connected, or have been and are offline now."""
        new = [LightAgent(Topics(self._fleet, name), self._port, behaviour, **more) for name in names]
        self.agents |= {each.topics.device: each for each in new}
        for begin in range(0, len(new), 50):
            self.do(_all(each.start() for each in new[begin : begin + 50]))
        if not online:
            self.stop(names)

    def start(self, names):
        self.do(_all(self.agents[name].start() for name in names))

    def stop(self, names):
        self.do(_all(self.agents[name].stop() for name in names))

    def connect_again(self):
        self.do(_all(each.connect_again() for each in self.agents.values() if each._client is not None))

    def serving(self):
        return {name: each.serving for name, each in self.agents.items()}

    def wait(self, holds, what):
        deadline = time.monotonic() + DEADLINE_S
        while not holds():
            assert time.monotonic() < deadline, what
            time.sleep(0.02)

    def close(self):
        self.do(_all(each.stop() for each in self.agents.values() if each._client is not None))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(DEADLINE_S)
        self._loop.close()


async def _all(works):
    await asyncio.gather(*works)
