"""A real Mosquitto on loopback, and a client of it that remembers what it has seen."""

import contextlib
import getpass
import shutil
import subprocess
import threading
import time
import uuid

import msgspec
import pytest
from paho.mqtt import client as paho
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from edgeopt.fleet.mqtt_documents import DesiredBundle, DesiredState, desired_message
from edgeopt.fleet.mqtt_topics import Topics
from tests.ports import free_port
from tests.processes import wait_listening

PATH = "/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin:/opt/homebrew/sbin"  # not on the PATH of every user
BINARY = shutil.which("mosquitto") or shutil.which("mosquitto", path=PATH)
DEADLINE_S = 30.0
TOPICS = Topics("default", "device-1")


class Broker:
    def __init__(self, folder, listener="", access="allow_anonymous true"):
        self.port = free_port()
        self._config = folder / "mosquitto.conf"
        self._config.write_text(
            f"listener {self.port} 127.0.0.1\n{listener}\n{access}\nmax_packet_size 8388608\n"
            f"user {getpass.getuser()}\npersistence true\npersistence_location {folder}/\n"
        )
        self._log = folder / "mosquitto.log"
        self._process = None
        self.start()

    @property
    def url(self):
        return f"mqtt://127.0.0.1:{self.port}"

    @property
    def pid(self):
        return self._process.pid

    @property
    def log(self):
        return self._log.read_text()

    def start(self):
        with self._log.open("a") as log:
            self._process = subprocess.Popen([BINARY, "-c", str(self._config)], stdout=log, stderr=log)
        wait_listening(self._process, self.port, self._log, DEADLINE_S)

    def stop(self, kill=False):
        """Killed, it loses what it was sent since its start."""
        (self._process.kill if kill else self._process.terminate)()
        self._process.wait(DEADLINE_S)


@pytest.fixture(scope="session")
def mosquitto():
    if BINARY is None:
        pytest.skip("Mosquitto is not installed: sh packaging/system-packages.sh tests")


@pytest.fixture(scope="module")
def broker(mosquitto, tmp_path_factory):
    """One for all tests of a file."""
    running = Broker(tmp_path_factory.mktemp("broker"))
    yield running
    running.stop()


@pytest.fixture
def make_broker(mosquitto, tmp_path_factory):
    """Brokers of a test's own, to be stopped and started."""
    with contextlib.ExitStack() as stack:

        def make():
            running = Broker(tmp_path_factory.mktemp("broker"))
            stack.callback(running.stop)
            return running

        yield make


class Client:
    """Someone who manages devices."""

    def __init__(self, broker, topics=TOPICS, tls=None, login=None):
        self.topics = topics
        self.seen = []
        """Topic and payload of all messages, in their order."""
        self._new = threading.Condition()
        self.name = f"client-{uuid.uuid4().hex[:8]}"
        self._paho = paho.Client(paho.CallbackAPIVersion.VERSION2, self.name, protocol=paho.MQTTv5)
        if tls is not None:
            self._paho.tls_set_context(tls)
        if login is not None:
            self._paho.username_pw_set(*login)
        self._paho.on_message = self._saw
        subscribed = threading.Event()
        self._paho.on_connect = lambda *_: self._paho.subscribe(f"{topics.base}/#", 1)
        self._paho.on_subscribe = lambda *_: subscribed.set()
        kept = Properties(PacketTypes.CONNECT)
        kept.SessionExpiryInterval = 3600  # it misses nothing while the broker is away
        self._paho.connect("127.0.0.1", broker.port, clean_start=False, properties=kept)
        self._paho.reconnect_delay_set(1, 1)
        self._paho.loop_start()
        assert subscribed.wait(DEADLINE_S)

    def _saw(self, _client, _data, message):
        correlation = getattr(message.properties, "CorrelationData", b"")
        with self._new:
            self.seen.append((message.topic, message.payload, correlation))
            self._new.notify_all()

    def of(self, topic):
        """The documents on a topic so far."""
        return [msgspec.json.decode(payload) for each, payload, _ in list(self.seen) if each == topic and payload]

    def until(self, find, what, within_s=DEADLINE_S):
        """What `find` gives, once it gives something."""
        deadline = time.monotonic() + within_s
        with self._new:
            while not (found := find()):
                left = deadline - time.monotonic()
                assert left > 0, f"{what} did not come: {self.seen[-5:]}"
                self._new.wait(min(left, 1.0))
        return found

    def reported(self, holds, what="the report", within_s=DEADLINE_S):
        """The last report, once something holds of it."""
        return self.until(
            lambda: (all_ := self.of(self.topics.reported)) and holds(all_[-1]) and all_[-1], what, within_s
        )

    def presence(self, state, after=0):
        """The last presence, once it has this state and a session number above `after`."""

        def found():
            last = (self.of(self.topics.status) or [None])[-1]
            return last if last and last["state"] == state and last["session"] > after else None

        return self.until(found, state)

    def publish(self, topic, payload, retain=False, properties=None):
        self._paho.publish(topic, payload, 1, retain, properties).wait_for_publish(DEADLINE_S)

    def flood(self, topic, payload):
        """Sends a message and does not wait."""
        self._paho.publish(topic, payload, 0)

    def desire(self, sequence, url, digest, key=None, device=None, rollout="", **more):
        bundle = DesiredBundle(bundle=url, digest=digest, **more)
        state = DesiredState(
            sequence=sequence,
            fleet=self.topics.fleet,
            device=device or self.topics.device,
            desired=bundle,
            rollout=rollout,
        )
        self.publish(self.topics.desired, desired_message(state, key), retain=True)

    def ask(self, role, document, correlation=None, times=1):
        """The answer to a command, which is sent so many times."""
        correlation = correlation or uuid.uuid4().bytes
        properties = Properties(PacketTypes.PUBLISH)
        properties.ResponseTopic = self.topics.answer(self.name)
        properties.CorrelationData = correlation
        before = len(self.seen)
        payload = document if isinstance(document, bytes) else msgspec.json.encode(document)
        for _ in range(times):
            self.publish(self.topics.command(role), payload, properties=properties)

        def answer():
            return next(
                (payload for topic, payload, known in self.seen[before:]
                 if topic == self.topics.answer(self.name) and known == correlation),
                None,
            )  # fmt: skip

        return msgspec.json.decode(self.until(answer, "the answer"))

    def close(self):
        self._paho.disconnect()
        self._paho.loop_stop()
        self._paho._reset_sockets()  # those by which its thread was woken, which it else leaves to the collector
