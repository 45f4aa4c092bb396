"""An agent that can be told to die at a write of a state into the journal, or that its disk is broken."""

# ruff: noqa: T201 - a program that prints

import asyncio
import json
import os
import signal
import sys
import threading
from pathlib import Path

import msgspec

from edgeopt_agent import service
from edgeopt_agent.data_dir import DataDir
from edgeopt_agent.deployments import receive, watched
from edgeopt_agent.drift.settings import DriftSettings
from edgeopt_agent.journal import Journal
from edgeopt_agent.mqtt import link
from edgeopt_agent.mqtt.settings import MqttSettings
from edgeopt_agent.settings import Settings


def die_at(state, when):
    commit = Journal._commit

    def deadly(self, record, new=False):
        if record.state != state:
            return commit(self, record, new)
        if when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        commit(self, record, new)
        return os.kill(os.getpid(), signal.SIGKILL)

    Journal._commit = deadly


def die_after(writes, when="after"):
    """Dies when so many states are written, of whatever deployment or order, before or after the last of them."""
    commit, left = Journal._commit, [writes]
    counting = threading.Lock()

    def deadly(self, record, new=False):
        with counting:  # each journal writes on a thread of its own
            left[0] -= 1
            if not left[0] and when == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            written = commit(self, record, new)
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)
            return written

    Journal._commit = deadly


def break_disk(step, number):
    """Lets the disk fail where a bundle is received or staged, or an added model makes its folders."""

    def fail(*_):
        raise OSError(number, os.strerror(number))

    if step == "add":
        make = DataDir.make
        DataDir.make = lambda self: (make(self), fail()) if self.shared else make(self)
        return
    setattr(receive, {"receive": "to_disk", "stage": "publish_folder"}[step], fail)


def trust_the_cache():
    """Nothing waits for the disk: of what a killed process wrote, the system loses nothing."""
    connect = Journal._connect

    def quickly(self):
        db = connect(self)
        db.execute("PRAGMA synchronous = OFF")
        return db

    Journal._connect = quickly
    os.fsync = lambda _: None


def look_often():
    """What an agent looks at again and again, it looks at more often."""
    watched.LOOK_S = 0.05
    link._SETTLE_S = 0.02


def main():
    given, kill, broken = (json.loads(argument) for argument in sys.argv[1:])
    for name in {"data_dir", "tls_cert", "tls_key", "watch_dir", "registry_auth"} & given.keys():
        given[name] = given[name] and Path(given[name])
    if "mqtt" in given:
        given["mqtt"] = msgspec.convert(given["mqtt"], MqttSettings, dec_hook=lambda kind, value: kind(value))
    if "drift" in given:
        given["drift"] = DriftSettings(**given["drift"])
    trust_the_cache()
    look_often()
    if kill:
        (die_after if "writes" in kill else die_at)(**kill)
    if broken:
        break_disk(**broken)
    asyncio.run(service.run(Settings(**given), lambda port: print(port, flush=True)))


if __name__ == "__main__":
    main()
