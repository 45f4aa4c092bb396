"""Rollouts to many light agents on one Mosquitto: time, messages and bytes a device, memory of broker and client.

Light agents are coroutines that speak the real protocol without a model: presence, desired and reported state.
A bad bundle must stop in the first wave, a good one must reach all devices, those that are offline must catch up,
and after a restart of the broker all must be back.

    python benchmarks/fleet_rollout.py
    python benchmarks/fleet_rollout.py --devices 100 --offline 10
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import psutil

sys.path.insert(0, str(Path(__file__).parents[1]))  # the light agents are those of the tests

from edgeopt.fleet import rollout_commands as commands
from edgeopt.fleet.rollout_request import DevicesRequest, RolloutStatusRequest
from tests.broker import Broker
from tests.fleet.light_agents import LightFleet

GOOD, BAD = "sha256:" + "a" * 64, "sha256:" + "b" * 64
STOPPED = 6
FILES = 8192


class Client(NamedTuple):
    """What a command took, and what it printed to stderr."""

    code: int
    seconds: float
    cpu_s: float
    peak_mib: float
    stderr: str


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, default=2000)
    parser.add_argument("--offline", type=int, default=20, help="devices that are offline at first")
    parser.add_argument("--waves", default="1,10%,rest")
    parser.add_argument("--queue", type=int, default=0, help="max_queued_messages of the broker; 0: no limit")
    given = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES if hard < 0 else min(FILES, hard), hard))
    names = [f"device-{number:04d}" for number in range(given.devices)]
    with tempfile.TemporaryDirectory() as folder:
        broker = Broker(Path(folder), f"max_queued_messages {given.queue}")
        fleet = LightFleet(broker.port)
        try:
            empty_mib = _broker_mib(broker)
            began = time.monotonic()
            fleet.add(names, lambda digest: "roll back" if digest == BAD else "commit", step_s=0.05)
            print(f"{given.devices} devices connected in {time.monotonic() - began:.1f} s")
            per_device = (_broker_mib(broker) - empty_mib) * 1024 / given.devices
            print(f"  broker: {_broker_mib(broker):.1f} MiB, {per_device:.1f} KiB a device")
            offline = names[: given.offline]
            fleet.stop(offline)
            _run(fleet, broker, given.waves, offline)
            _restart(fleet, broker)
        finally:
            fleet.close()
            broker.stop()


def _run(fleet: LightFleet, broker: Broker, waves: str, offline: list[str]) -> None:
    def begin(name: str, digest: str) -> Client:
        command = ["start", "https://host/model.edgeopt", "--digest", digest, "--to", "*", "--waves", waves]
        return _client(broker, [*command, "--name", name])

    bad = begin("bad", BAD)
    if bad.code != STOPPED:
        raise SystemExit(f"The bad bundle did not stop the rollout: {bad.stderr}")
    ordered = sum(bool(each.orders) for each in fleet.agents.values())
    print(f"bad bundle: stopped after {bad.seconds:.1f} s; {ordered} of {len(fleet.agents)} devices were ordered")

    before, broker_s, read = _traffic(fleet), _broker_cpu_s(broker), _broker_read_bytes(broker)
    good = begin("good", GOOD)
    if good.code:
        raise SystemExit(f"The good bundle did not reach the devices: {good.stderr}")
    report = commands.status(RolloutStatusRequest(broker=broker.url, name="good"))
    print(f"good bundle: {report.phase} after {good.seconds:.1f} s, waves {report.waves}, {report.counts}")
    print(f"  client: {good.cpu_s:.1f} s of CPU time, peak {good.peak_mib:.0f} MiB")
    print(f"  broker: {_broker_cpu_s(broker) - broker_s:.1f} s of CPU time, {_broker_mib(broker):.1f} MiB")
    sent = _broker_read_bytes(broker) - read - (_traffic(fleet)[1] - before[1])
    print(f"  client sent {sent / 1e6:.1f} MB, with the headers of all messages")
    online = len(fleet.agents) - len(offline)
    for what, had, now in zip(
        ("sent", "bytes sent", "received", "bytes received"), before, _traffic(fleet), strict=True
    ):
        print(f"  {what} by a device: {(now - had) / online:.1f}")

    began = time.monotonic()
    fleet.start(offline)
    fleet.wait(lambda: set(fleet.serving().values()) == {GOOD[7:19]}, "devices that were offline")
    twice = [name for name, each in fleet.agents.items() if len(each.orders) > len(set(each.orders))]
    print(f"offline devices: {len(offline)} caught up after {time.monotonic() - began:.1f} s")
    print(f"devices that were ordered twice: {len(twice)}")


def _restart(fleet: LightFleet, broker: Broker) -> None:
    """Restarts the broker; all devices connect again at once, without the delay by chance of real agents."""
    broker.stop()
    began = time.monotonic()
    broker.start()
    fleet.connect_again()
    seconds = time.monotonic() - began
    listing = time.monotonic()
    found = commands.devices(DevicesRequest(broker=broker.url)).devices
    online = sum(each.online for each in found)
    print(f"broker restarted: {online} of {len(found)} devices online after {seconds:.1f} s")
    print(f"  listed in {time.monotonic() - listing:.1f} s")


def _client(broker: Broker, command: list[str]) -> Client:
    began = time.monotonic()
    with tempfile.TemporaryFile("w+") as stderr:
        run = [sys.executable, "-m", "edgeopt", "fleet", "rollout", *command, "--broker", broker.url]
        process = subprocess.Popen(run, stdout=subprocess.DEVNULL, stderr=stderr)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        stderr.seek(0)
        seconds, cpu_s = time.monotonic() - began, used.ru_utime + used.ru_stime
        return Client(process.returncode, seconds, cpu_s, used.ru_maxrss / 1024, stderr.read()[-500:])


def _broker_mib(broker: Broker) -> float:
    return float(psutil.Process(broker.pid).memory_info().rss) / (1 << 20)


def _broker_cpu_s(broker: Broker) -> float:
    used = psutil.Process(broker.pid).cpu_times()
    return float(used.user + used.system)


def _broker_read_bytes(broker: Broker) -> int:
    return int(psutil.Process(broker.pid).io_counters().read_chars)


def _traffic(fleet: LightFleet) -> tuple[int, ...]:
    agents = list(fleet.agents.values())
    return tuple(
        sum(getattr(each, name) for each in agents)
        for name in ("sent", "sent_bytes", "received", "received_bytes")
    )


if __name__ == "__main__":
    main()
