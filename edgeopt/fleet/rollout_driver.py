"""Runs a rollout: reads what devices report, writes the state down on the broker, and sends the orders."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from edgeopt.bundle.sign import PublicKey
from edgeopt.bundle.signed_document import public_half
from edgeopt.decoding import thread_safe
from edgeopt.errors import EdgeoptError, InputError, MissingError, UsageError
from edgeopt.events import Emit, Log, Progress
from edgeopt.fleet.devices import DeviceReport, FleetView
from edgeopt.fleet.mqtt_client import FleetClient, connected
from edgeopt.fleet.mqtt_documents import CommandAnswer, SignedCommand, command_message, desired_message
from edgeopt.fleet.mqtt_topics import NAME, FleetTopics
from edgeopt.fleet.rollout import advance, control, counts, is_pending, missing_orders
from edgeopt.fleet.rollout_documents import (
    OPEN_PHASES,
    Action,
    Control,
    Decision,
    DeviceProgress,
    DeviceState,
    KindProgress,
    Order,
    Phase,
    Rollout,
    control_message,
    device_word,
    is_signed,
    phase_sentence,
    read_control,
    read_rollout,
    rollout_message,
)
from edgeopt.fleet.rollout_merge import merged
from edgeopt.fleet.rollout_proof import checked_kind
from edgeopt.fleet.rollout_request import BrokerRequest
from edgeopt.nearest import nearest

_GOES_ON: tuple[Phase, ...] = ("running", "rolling-back")
_ORDERED: tuple[DeviceState, ...] = ("ordered", "withdrawn", "rolling-back")
_LOOK_S = 1.0
"""Interval between checks of time limits."""
_WRITE_S = 1.0
"""Interval at which the state is written while only the progress of devices changes, in seconds."""
_SETTLE_S = 0.1
"""Reports that follow each other closely are judged together."""
_REREAD_S = 60.0
"""Time without news of a device at work after which its retained report is read again, in seconds."""
_PATIENCE_S = 60.0
_PAUSE_S = 1.0
replace = msgspec.structs.replace


class FleetState:
    """All retained documents of a fleet: devices, rollouts, and what is asked of them."""

    def __init__(self, topics: FleetTopics, key: PublicKey | None = None) -> None:
        """Starts without rollouts; with a key, only documents signed by it lead to orders, others are shown."""
        self._topics = topics
        self._key = key
        self._view = FleetView(topics, key)
        self.states: dict[str, bytes] = {}
        """Contents of rollouts, unchecked."""
        self.controls: dict[str, Control] = {}
        self._read: dict[str, tuple[bytes, Rollout | None]] = {}
        """Decoded states: a large one is decoded once."""

    @property
    def devices(self) -> Mapping[str, DeviceReport]:
        return self._view.devices

    def take(self, topic: str, content: bytes) -> None:
        parts = self._topics.parts(topic)
        if len(parts) == 3 and parts[1] == "answer" and parts[0] in self._view.devices:
            self._take_answer(parts[0], content)
        elif len(parts) != 3 or not NAME.fullmatch(parts[1]):
            self._view.take(topic, content)
        elif parts[2] == "state":
            self.states[parts[1]] = content
        elif parts[2] == "control":
            try:
                self.controls[parts[1]] = read_control(content, self._key)
            except InputError:
                self.controls.pop(parts[1], None)

    def _take_answer(self, device: str, content: bytes) -> None:
        with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self.expect_answer(device, msgspec.json.decode(content, type=thread_safe(CommandAnswer)))

    def expect_answer(self, device: str, answer: CommandAnswer | None = None) -> None:
        """Forgets the answer of a device to an earlier command."""
        self._view.devices[device] = replace(self._view.devices.get(device, DeviceReport()), answer=answer)

    def rollouts(self) -> dict[str, Rollout]:
        """Returns the readable rollouts, with the controls requested since their state was written."""
        found = {}
        for name, content in self.states.items():
            known = self._read.get(name)
            if known is None or known[0] is not content:
                known = self._read[name] = (content, _readable(content))
            if (rollout := known[1]) is not None:
                request = self.controls.get(name)
                found[name] = rollout if request is None else control(rollout, request)
        return found

    def claimed(self, own: Rollout) -> Mapping[str, DeviceReport]:
        """The devices, with the newer rollout that will order each of them."""
        claims: dict[str, str] = {}
        for name, other in self.rollouts().items():
            if name != own.name and other.sequence > own.sequence and other.phase in OPEN_PHASES:
                claims |= dict.fromkeys(other.devices, name)
        known = self.devices
        return {**known, **{n: replace(known.get(n, DeviceReport()), claimed_by=by) for n, by in claims.items()}}


def _readable(content: bytes) -> Rollout | None:
    try:
        return read_rollout(content)
    except EdgeoptError:
        return None


async def read_fleet(
    client: FleetClient, key: PublicKey | None = None, rollouts: bool = True, answers_to: str = ""
) -> FleetState:
    """Returns all that the broker keeps of the fleet, and subscribes to it and to answers to this name."""
    state = FleetState(client.topics, key)
    patterns = client.topics.devices + ((client.topics.rollouts,) if rollouts else ())
    patterns += (client.topics.answers(answers_to),) if answers_to else ()
    for topic, content in await client.retained(patterns):
        state.take(topic, content)
    return state


def named(state: FleetState, name: str) -> bytes:
    """The state document of a rollout; raises UsageError if it is missing."""
    if not state.states.get(name):
        known = sorted(each for each, content in state.states.items() if content)
        otherwise = "" if known else "See: edgeopt fleet rollout start --help"
        raise UsageError(f"There is no rollout '{name}' on the broker.", nearest(name, known, otherwise))
    return state.states[name]


def now_sequence(at_least: int = 0) -> int:
    return max(time.time_ns() // 1_000_000, at_least + 1)


class Driver:
    """One client that runs a rollout until it ends, is paused, or another client has ended it."""

    def __init__(
        self,
        request: BrokerRequest,
        name: str,
        key: Path | None,
        emit: Emit,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._request = request
        self._name = name
        self._key = key
        self._public = None if key is None else public_half(key)
        self._emit = emit
        self._clock = clock
        self._rollout: Rollout | None = None
        self._lost: str | None = None
        """Reason why the connection was lost; None while it is there."""
        self._written: Rollout | None = None
        self._written_s = 0.0
        self._sequence = 0
        """The sequence number of the last command."""

    async def begin(self, plan: Callable[[FleetState], Rollout]) -> Rollout:
        """Starts a rollout and runs it."""
        async with connected(self._request) as client:
            state = await read_fleet(client, self._public, answers_to=self._name)
            rollout = plan(state)
            await self._write(client, rollout)
            await self._run(client, state)
        return await self._finish()

    async def go_on(self, action: Action) -> Rollout:
        """Continues with what the broker has, after asking for something."""
        async with connected(self._request) as client:
            state = await read_fleet(client, self._public, answers_to=self._name)
            content = named(state, self._name)
            if is_signed(content) and self._key is None:
                raise UsageError(
                    f"The rollout '{self._name}' is signed, so that nobody else continues it.",
                    "Pass the private key with which it was begun: --key",
                )
            found = read_rollout(content, self._public)
            if (request := state.controls.get(self._name)) is not None:
                found = control(found, request)
            check_action(found, action)
            await ask(client, state, found, action, self._key)
            self._rollout = found
            message = f"Rollout {found.name} ({found.phase}): wave {found.wave} of {len(found.waves)} had begun."
            self._emit(Log("info", message, kind="rollout", subject=found.name))
            await self._run(client, state)
        return await self._finish()

    async def _finish(self) -> Rollout:
        """Connects again as long as the rollout goes on without a connection."""
        import aiomqtt

        deadline: float | None = None
        while self._lost is not None:
            reason, self._lost = self._lost, None
            deadline = deadline or time.monotonic() + _PATIENCE_S
            self._emit(Log("warning", f"The connection to the broker was lost: {reason}. Connecting again."))
            await asyncio.sleep(_PAUSE_S)
            try:
                async with connected(self._request) as client:
                    state = await read_fleet(client, self._public, answers_to=self._name)
                    await self._restore(client, state)
                    deadline = None
                    await self._run(client, state)
            except (MissingError, aiomqtt.MqttError) as error:
                if deadline is None or time.monotonic() > deadline:
                    raise MissingError(
                        f"The broker was lost while the rollout '{self._name}' went on: {error}",
                        f"No further wave begins. Continue with: edgeopt fleet rollout resume {self._name}",
                    ) from None
                self._lost = str(error)
        assert self._rollout is not None  # noqa: S101 - it was begun or found
        return self._rollout

    async def _restore(self, client: FleetClient, state: FleetState) -> None:
        """Takes what another client has written, and writes again what a broker has lost that was killed."""
        theirs = read_rollout(content, self._public) if (content := state.states.get(self._name)) else None
        if theirs is not None:
            self._take_state(theirs)
        if self._rollout is not None and self._rollout != theirs:
            await self._write(client, replace(self._rollout, revision=self._rollout.revision + 1), state)

    async def _run(self, client: FleetClient, state: FleetState) -> None:
        import aiomqtt

        try:
            assert self._rollout is not None  # noqa: S101 - set by those who call this
            await self._send(client, missing_orders(self._rollout, state.devices), state)
            read_s = time.monotonic()
            while True:
                await self._step(client, state)
                if self._rollout.phase not in _GOES_ON:
                    return
                news = await self._news(client)
                if time.monotonic() - read_s > _REREAD_S and self._waits_long():
                    # A broker drops what exceeds the queue of a client: a report may never have come.
                    news = [*news, *await client.read_again(client.topics.devices)]
                    read_s = time.monotonic()
                for topic, content in news:
                    state.take(topic, content)
                await self._take_news(client, state)
        except aiomqtt.MqttError as error:
            self._lost = str(error)

    def _waits_long(self) -> bool:
        """Whether a device has been in one state for so long that its report may have been lost."""
        assert self._rollout is not None  # noqa: S101 - as above
        now_s = self._clock()
        return any(
            is_pending(each) and now_s - each.since_s > _REREAD_S for each in self._rollout.devices.values()
        )

    async def _news(self, client: FleetClient) -> Sequence[tuple[str, bytes]]:
        found = await client.messages(_LOOK_S)
        if found:
            await asyncio.sleep(_SETTLE_S)
            found += await client.messages(0)
        return found

    async def _take_news(self, client: FleetClient, state: FleetState) -> None:
        """Another client may have gone on with the rollout too."""
        try:
            theirs = read_rollout(state.states[self._name], self._public)
        except (EdgeoptError, KeyError):
            return  # damaged or not signed by us: ours is written again with the next change
        before = self._rollout
        self._take_state(theirs)
        if self._rollout is not before and self._rollout is not None and self._rollout != theirs:
            await self._write(client, replace(self._rollout, revision=self._rollout.revision + 1), state)

    def _take_state(self, theirs: Rollout) -> None:
        mine = self._rollout
        self._rollout = theirs if mine is None else merged(mine, theirs)
        if mine is not None and self._rollout == mine:
            self._rollout = mine

    async def _step(self, client: FleetClient, state: FleetState) -> None:
        """Advances as far as it goes with what is known, and with the bundles that devices have found."""
        await self._advance(client, state)
        while await self._check_found(client, state):
            await self._advance(client, state)

    async def _check_found(self, client: FleetClient, state: FleetState) -> bool:
        """Checks one bundle that a device has found for its kind; returns whether there was one."""
        rollout = self._rollout
        if rollout is None or rollout.search is None or rollout.phase != "running":
            return False
        kind = next((name for name, each in rollout.kinds.items() if each.state == "found"), "")
        if not kind:
            return False
        checked = await asyncio.to_thread(checked_kind, rollout.search, rollout.kinds[kind], self._key)
        checked = replace(checked, since_s=self._clock())
        after = replace(rollout, kinds={**rollout.kinds, kind: checked}, revision=rollout.revision + 1)
        await self._write(client, after, state)
        self._emit_changes(rollout, after)
        return True

    async def _advance(self, client: FleetClient, state: FleetState) -> None:
        while True:
            before = self._rollout
            assert before is not None  # noqa: S101 - as above
            request = state.controls.get(self._name)
            rollout = before if request is None else control(before, request)
            rollout, orders = advance(rollout, state.claimed(rollout), self._clock())
            if rollout == before:
                break
            self._rollout = rollout
            if orders or _decisions(rollout) != _decisions(before):
                await self._write(client, rollout, state)
            self._emit_changes(before, rollout)
            await self._send(client, orders, state)
        # Without a decision, another client finds the progress of devices in their reports.
        if before is not self._written and time.monotonic() - self._written_s > _WRITE_S:
            await self._write(client, before, state)

    async def _write(self, client: FleetClient, rollout: Rollout, state: FleetState | None = None) -> None:
        """Writes the state before the orders are sent, so that a client that continues after a kill knows them."""
        self._rollout = self._written = rollout
        self._written_s = time.monotonic()
        content = rollout_message(rollout, self._key)
        await client.publish([(client.topics.rollout(rollout.name), content)])
        if state is not None:
            state.states[rollout.name] = content

    async def _send(self, client: FleetClient, orders: Sequence[Order], state: FleetState) -> None:
        messages = []
        for order in orders:
            topics = client.topics.device(order.device)
            if order.command is None:
                content = b"" if order.document is None else desired_message(order.document, self._key)
                messages.append((topics.desired, content))
        await client.publish(messages)
        for topic, content in messages:
            state.take(topic, content)
        for order in orders:
            if order.command is not None and self._rollout is not None:
                topics = client.topics.device(order.device)
                state.expect_answer(order.device)
                target = order.command.search or order.command
                number = target.id or f"{self._name}/{self._rollout.return_sequence}"
                correlation = f"{order.command.command}/{number}"
                self._sequence = now_sequence(self._sequence)
                signed = SignedCommand(
                    sequence=self._sequence,
                    fleet=topics.fleet,
                    device=topics.device,
                    correlation=correlation,
                    expires_s=self._clock() + self._rollout.limits.device_timeout_s,
                    command=order.command,
                )
                message = command_message(signed, self._key), topics.answer(self._name), correlation.encode()
                await client.command(topics.command("deploy"), *message)

    def _emit_changes(self, before: Rollout, after: Rollout) -> None:
        """Emits events about the devices' progress, the decisions that follow, and the new orders."""
        changed = [
            (name, device)
            for name, device in after.devices.items()
            if (device.state, device.stage) != _stage(before.devices.get(name))
        ]
        for name, device in changed:
            if device.state not in _ORDERED:
                self._emit(_device_log(name, device))
        for kind, progress in after.kinds.items():
            known = before.kinds.get(kind)
            if known is None or (known.state, known.attempt) != (progress.state, progress.attempt):
                self._emit(_kind_log(kind, progress))
        for decision in after.decisions[len(before.decisions) :]:
            self._emit(_decision_log(after, decision))
        for name, device in changed:
            if device.state in _ORDERED:
                self._emit(_device_log(name, device))
        found = counts(after)
        done = sum(each.state in {"done", "rolled-back"} for each in after.devices.values())
        message = f"{found.failed} failed, {found.pending} at work{_wait_text(after)}"
        phase = f"wave {after.wave} of {len(after.waves)}" if after.phase in OPEN_PHASES else after.phase
        self._emit(Progress(phase, message, done=done, total=len(after.devices), subject=after.name))


def _decisions(rollout: Rollout) -> tuple[Phase, int, int]:
    return rollout.phase, rollout.wave, rollout.control


def _wait_text(rollout: Rollout) -> str:
    """`; waiting for camera-3 (soaking), at most 3600 s in one state`; empty without a device to wait for."""
    pending = [(name, each) for name, each in rollout.devices.items() if is_pending(each)]
    if not pending or rollout.phase not in _GOES_ON:
        return ""
    name, device = pending[0]
    more = f" and {len(pending) - 1} more" if len(pending) > 1 else ""
    waited = f"{name} ({device_word(device.state, device.stage)}){more}"
    return f"; waiting for {waited}, at most {rollout.limits.device_timeout_s:g} s in one state"


def _stage(device: DeviceProgress | None) -> tuple[str, str]:
    return ("", "") if device is None else (device.state, device.stage)


def _decision_log(rollout: Rollout, decision: Decision) -> Log:
    if decision.what.startswith("wave "):
        message = f"Wave {rollout.wave} of {len(rollout.waves)} begins: {decision.reason}."
    else:
        message = phase_sentence(rollout.name, decision.what, decision.reason)
    level: Literal["info", "warning"] = "warning" if decision.what in {"stopped", "rollback-failed"} else "info"
    return Log(level, message, kind="rollout", subject=rollout.name, reason=decision.reason)


def _device_log(name: str, device: DeviceProgress) -> Log:
    offline = " (offline: it follows when it is back)" if device.state == "ordered" and not device.online else ""
    reason = f": {device.reason}" if device.reason else ""
    level: Literal["info", "warning"] = (
        "warning" if device.state in {"failed", "stuck", "rollback-failed"} else "info"
    )
    message = f"{name}: {device_word(device.state, device.stage)}{offline}{reason}"
    return Log(level, message, kind=f"rollout-{device.state}", subject=name, reason=device.reason)


def _kind_log(kind: str, progress: KindProgress) -> Log:
    level: Literal["info", "warning"] = "warning" if progress.state == "failed" else "info"
    reason = f": {progress.reason}" if progress.reason else ""
    message = {
        "searching": f"Kind {kind}: {progress.device} searches.",
        "found": f"Kind {kind}: {progress.device} has found a bundle, which is checked now.",
        "ready": f"Kind {kind} has its bundle: {progress.summary}.",
        "failed": f"Kind {kind}: the search of {progress.device} failed{reason.rstrip('.')}.",
    }[progress.state]
    return Log(level, message, kind=f"rollout-kind-{progress.state}", subject=kind, reason=progress.reason)


async def ask(
    client: FleetClient, state: FleetState, rollout: Rollout, action: Action, key: Path | None = None
) -> None:
    """Tells the client that runs the rollout; the request stays on the broker until there is one."""
    sequence = now_sequence(max(rollout.control, rollout.sequence))
    request = Control(action, sequence, time.time())
    content = control_message(request, key)
    topic = client.topics.control(rollout.name)
    await client.publish([(topic, content)])
    state.take(topic, content)


_ALLOWED: dict[Action, tuple[Phase, ...]] = {
    "pause": ("running",),
    "resume": ("running", "paused", "rolling-back"),
    "cancel": ("running", "paused"),
    "rollback": ("running", "paused", "completed", "cancelled", "stopped", "rolling-back", "rollback-failed"),
}


def allowed_phases(action: Action) -> tuple[Phase, ...]:
    """Returns the phases in which an action can be requested."""
    return _ALLOWED[action]


def check_action(rollout: Rollout, action: Action) -> None:
    """Raises InputError for what cannot be asked of the rollout now."""
    if rollout.phase in allowed_phases(action):
        return
    back = f"edgeopt fleet rollout rollback {rollout.name}"
    hints = {
        "stopped": f"Return to the releases before with: {back}; or start another rollout.",
        "completed": f"Return to the releases before with: {back}",
        "cancelled": f"Return to the releases before with: {back}; or start another rollout.",
        "paused": f"Continue with: edgeopt fleet rollout resume {rollout.name}",
        "rollback-failed": f"Try again on the devices that failed with: {back}; or start a rollout of the release "
        "that should serve.",
    }
    raise InputError(
        f"The rollout '{rollout.name}' is {rollout.phase.replace('-', ' ')}, so it cannot {_INFINITIVES[action]}.",
        hints.get(rollout.phase, f"See: edgeopt fleet rollout status {rollout.name}"),
    )


_INFINITIVES: dict[Action, str] = {
    "pause": "be paused",
    "resume": "be resumed",
    "cancel": "be cancelled",
    "rollback": "be rolled back",
}
