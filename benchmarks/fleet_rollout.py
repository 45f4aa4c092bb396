"""Rollouts to many light agents on one Mosquitto: how long, how many messages and bytes a device.

Light agents are coroutines that speak the real protocol without a model: presence, desired and reported state.
A bad bundle must stop in the first wave, a good one must reach all devices, and those that are offline must catch
up.

    python benchmarks/fleet_rollout.py
    python benchmarks/fleet_rollout.py --devices 100 --offline 10
"""

import argparse
import resource
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # the light agents are those of the tests

from edgeopt.errors import VerificationError
from edgeopt.events import Event
from edgeopt.fleet import rollout_commands as commands
from edgeopt.fleet.rollout_request import RolloutStartRequest, RolloutStatusRequest
from tests.broker import Broker
from tests.fleet.light_agents import LightFleet

GOOD, BAD = "sha256:" + "a" * 64, "sha256:" + "b" * 64
FILES = 8192


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, default=500)
    parser.add_argument("--offline", type=int, default=10, help="devices that are offline at first")
    parser.add_argument("--waves", default="1,10%,rest")
    given = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES if hard < 0 else min(FILES, hard), hard))
    names = [f"device-{number:04d}" for number in range(given.devices)]
    with tempfile.TemporaryDirectory() as folder:
        broker = Broker(Path(folder), "max_queued_messages 0")
        fleet = LightFleet(broker.port)
        try:
            fleet.add(names, lambda digest: "roll back" if digest == BAD else "commit", step_s=0.05)
            offline = names[: given.offline]
            fleet.stop(offline)
            _run(fleet, broker, given.waves, offline)
        finally:
            fleet.close()
            broker.stop()


def _run(fleet: LightFleet, broker: Broker, waves: str, offline: list[str]) -> None:
    def begin(name: str, digest: str) -> commands.RolloutReport:
        request = RolloutStartRequest(
            broker=broker.url, bundle="https://host/model.edgeopt", digest=digest, to="*", waves=waves
        )
        return commands.start(request, name, _quiet)

    before, began = _traffic(fleet), time.monotonic()
    try:
        begin("bad", BAD)
        raise SystemExit("The bad bundle did not stop the rollout.")
    except VerificationError as error:
        print(f"bad bundle: stopped after {time.monotonic() - began:.1f} s. {error.message}")
    ordered = sum(bool(each.orders) for each in fleet.agents.values())
    print(f"  devices that were ordered: {ordered} of {len(fleet.agents)}")

    before, began = _traffic(fleet), time.monotonic()
    report = begin("good", GOOD)
    print(f"good bundle: {report.phase} after {time.monotonic() - began:.1f} s, {report.counts}")
    online = len(fleet.agents) - len(offline)
    for what, had, now in zip(
        ("sent", "bytes sent", "received", "bytes received"), before, _traffic(fleet), strict=True
    ):
        print(f"  {what} by a device: {(now - had) / online:.1f}")
    state = commands.status(RolloutStatusRequest(broker=broker.url, name="good"))
    print(f"  waves: {state.waves}")

    began = time.monotonic()
    fleet.start(offline)
    fleet.wait(lambda: set(fleet.serving().values()) == {GOOD[7:19]}, "devices that were offline")
    twice = [name for name, each in fleet.agents.items() if len(each.orders) > len(set(each.orders))]
    print(f"offline devices: {len(offline)} caught up after {time.monotonic() - began:.1f} s")
    print(f"devices that were ordered twice: {len(twice)}")


def _traffic(fleet: LightFleet) -> tuple[int, ...]:
    agents = list(fleet.agents.values())
    return tuple(
        sum(getattr(each, name) for each in agents)
        for name in ("sent", "sent_bytes", "received", "received_bytes")
    )


def _quiet(_event: Event) -> None:
    """The figures at the end are what counts."""


if __name__ == "__main__":
    main()
