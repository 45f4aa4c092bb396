"""Follows a fleet on its broker: what changes at devices and rollouts, as events, until it is stopped."""

import asyncio
import contextlib
import time
from typing import NoReturn

import msgspec

from edgeopt import units
from edgeopt.errors import EdgeoptError, MissingError
from edgeopt.events import Emit, Log, Update
from edgeopt.fleet.devices import FleetDevice, described, known_names
from edgeopt.fleet.mqtt_client import FleetClient, broker_of, connected
from edgeopt.fleet.rollout_commands import RolloutReport, seen_report, with_broker_options
from edgeopt.fleet.rollout_documents import OPEN_PHASES, Rollout, phase_sentence
from edgeopt.fleet.rollout_driver import FleetState, read_fleet
from edgeopt.fleet.rollout_plan import selected
from edgeopt.fleet.rollout_request import DevicesRequest

_LOOK_S = 1.0
_SETTLE_S = 0.25
"""Changes that follow each other closely are reported together."""
_RECONNECT_S = 90.0
"""Longest delay of an agent before it connects again: `reconnect_most_s`, and half of it by chance."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 10.0
_MOVING = frozenset({"ordered", "withdrawn", "deploying", "stuck", "rolling-back"})
"""States of a device in which its reports still count for a rollout that has ended."""
replace = msgspec.structs.replace


class FleetUpdate(msgspec.Struct, frozen=True, omit_defaults=True):
    """Changes in a fleet; the first update has the whole fleet."""

    fleet: str
    devices: tuple[FleetDevice, ...] = ()
    removed_devices: tuple[str, ...] = ()
    rollouts: tuple[RolloutReport, ...] = ()
    removed_rollouts: tuple[str, ...] = ()


@with_broker_options
def follow(request: DevicesRequest, emit: Emit) -> NoReturn:
    """Raises MissingError if there is no broker at first; one that goes away later is waited for."""
    asyncio.run(_Follower(request, emit).run())
    raise AssertionError("it ends only by an exception")


class _Follower:
    """Keeps what was told, so that after a reconnection only the difference is."""

    def __init__(self, request: DevicesRequest, emit: Emit) -> None:
        self._request = request
        self._emit = emit
        self._devices: dict[str, FleetDevice] = {}
        self._rollouts: dict[str, RolloutReport] = {}
        self._ended: dict[str, tuple[Rollout, RolloutReport]] = {}
        """Reports of rollouts that no device can change any more."""
        self._connected = False
        self._away = False
        self._back_s = 0.0
        """Monotonic time of the last connection to the broker."""

    async def run(self) -> NoReturn:
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                async with connected(self._request) as client:
                    state = await read_fleet(client)
                    for topic, content in await client.retained([client.topics.telemetry]):
                        state.take(topic, content)
                    self._emit_connected(state)
                    pause_s = _FIRST_PAUSE_S
                    await self._read(client, state)
            except MissingError as error:
                if not self._connected:
                    raise
                if not self._away:
                    self._emit_away(error)
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)

    async def _read(self, client: FleetClient, state: FleetState) -> NoReturn:
        while True:
            found = await client.messages(_LOOK_S)
            await asyncio.sleep(_SETTLE_S)
            # A broker that stops first sends the last wills of all devices: the lost connection is raised here.
            while more := await client.messages(0):
                found += more
            for topic, content in found:
                state.take(topic, content)
            self._emit_update(state)

    def _emit_away(self, error: MissingError) -> None:
        now_s = time.time()
        devices = {name: replace(each, unknown_since_s=now_s) for name, each in self._devices.items()}
        since = time.strftime("%H:%M", time.localtime(now_s))
        count = units.count(len(devices), "device")
        message = f"{error.message} Connecting again. The state of {count} is unknown since {since}."
        self._emit(Log("warning", message, kind="broker-away", reason=error.message))
        self._emit(Update("fleet", msgspec.to_builtins(FleetUpdate(self._request.fleet, tuple(devices.values())))))
        self._devices, self._away = devices, True

    def _emit_connected(self, state: FleetState) -> None:
        broker = broker_of(self._request)
        kind, how = ("broker-back", "again") if self._away else ("broker-connected", "")
        self._emit(Log("info", f"Connected to the broker {broker}{how and f' {how}'}.", kind=kind))
        first = not self._connected
        self._back_s = time.monotonic()
        self._connected, self._away = True, False
        self._emit_update(state, first=first)

    def _emit_update(self, state: FleetState, *, first: bool = False) -> None:
        devices, rollouts = self._seen_devices(state), self._reports(state)
        update = FleetUpdate(
            self._request.fleet,
            tuple(each for name, each in devices.items() if each != self._devices.get(name)),
            tuple(sorted(self._devices.keys() - devices.keys())),
            tuple(each for name, each in rollouts.items() if each != self._rollouts.get(name)),
            tuple(sorted(self._rollouts.keys() - rollouts.keys())),
        )
        if not (first or update != FleetUpdate(update.fleet)):
            return
        if not first:
            self._log_changes(update)
        self._devices, self._rollouts = devices, rollouts
        self._emit(Update("fleet", msgspec.to_builtins(update)))

    def _log_changes(self, update: FleetUpdate) -> None:
        for device in update.devices:
            before = self._devices.get(device.device)
            presence = device.online, device.unknown_since_s
            if before is None or (before.online, before.unknown_since_s) != presence:
                state = "online" if device.online else "offline"
                self._emit(
                    Log("info", f"{device.device} is {state}.", kind=f"device-{state}", subject=device.device)
                )
        for rollout in update.rollouts:
            known = self._rollouts.get(rollout.name)
            if known is None or known.phase != rollout.phase:
                message = phase_sentence(rollout.name, rollout.phase, rollout.reason)
                self._emit(Log("info", message, kind="rollout", subject=rollout.name))

    def _seen_devices(self, state: FleetState) -> dict[str, FleetDevice]:
        names = known_names(state.devices)
        if self._request.to:
            names = ()
            with contextlib.suppress(EdgeoptError):  # none matches yet
                names = selected(self._request.to, state.devices)
        return {name: self._since_then(described(name, state.devices[name])) for name in names}

    def _since_then(self, device: FleetDevice) -> FleetDevice:
        """A last will was written before the device died: the moment it is read is when that happened."""
        before = self._devices.get(device.device)
        waits = before is not None and before.online and before.unknown_since_s is not None and self._returns
        if waits and not device.online and before is not None:
            return before  # that is the last will which the broker kept as it went
        if device.online or device.since_s is not None or before is None:
            return device
        return replace(device, since_s=time.time() if before.online else before.since_s)

    @property
    def _returns(self) -> bool:
        """Whether devices may still be about to connect again, because the broker has just come back."""
        return time.monotonic() - self._back_s < _RECONNECT_S

    def _reports(self, state: FleetState) -> dict[str, RolloutReport]:
        found: dict[str, RolloutReport] = {}
        for name, rollout in sorted(state.rollouts().items(), key=lambda item: item[1].sequence):
            known = self._ended.get(name)
            if known is not None and known[0] == rollout:
                found[name] = known[1]
                continue
            report = found[name] = seen_report(state, rollout)
            if report.phase not in OPEN_PHASES and not _MOVING.intersection(report.counts):
                self._ended[name] = (rollout, report)
        return found
