"""The desired state from the broker: what is refused, and how the newest one is followed."""

import asyncio
import contextlib
import logging
import sqlite3
import time
from collections.abc import Callable
from hashlib import sha256

import msgspec

from edgeopt.bundle.signed_document import opened_document
from edgeopt.decoding import thread_safe
from edgeopt.errors import EdgeoptError, printable
from edgeopt.fleet.mqtt_documents import (
    DESIRED_TYPE,
    LONGEST_BYTES,
    MAX_SEQUENCE,
    DesiredState,
    Following,
    Progress,
)
from edgeopt.fleet.mqtt_topics import Topics
from edgeopt.fleet.records import FleetOrder
from edgeopt_agent.control.answers import Answers
from edgeopt_agent.control.desired import checked
from edgeopt_agent.data_dir import DataDir
from edgeopt_agent.deployments.refused import RefusedError
from edgeopt_agent.mqtt.outbox import Outbox
from edgeopt_agent.mqtt.signatures import check_signature
from edgeopt_agent.tasks import end_tasks

log = logging.getLogger(__name__)
_MEMORY = "desired"
_LONGEST_ROLLOUT = 120
_BUSY_RETRY_S = 5.0
_TIDY_S = 0.1
"""Time from the last state of a deployment until another one is accepted."""


class Known(msgspec.Struct, frozen=True):
    """The newest desired state, as the disk remembers it."""

    digest: str
    following: Following


def read_state(content: bytes, topics: Topics, data: DataDir) -> DesiredState:
    """Reads a message; raises EdgeoptError unless it is a trusted document for this device."""
    if len(content) > LONGEST_BYTES:
        raise RefusedError(
            *(413, "too-large", f"The document has {len(content)} bytes; at most {LONGEST_BYTES} are read.")
        )
    envelope = opened_document(content, DESIRED_TYPE)
    check_signature(envelope, data, "desired state")
    try:
        state = msgspec.json.decode(
            content if envelope is None else envelope.payload, type=thread_safe(DesiredState)
        )
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        hint = "docs/fleet.md describes the document."
        raise RefusedError(400, "bad-document", f"The document cannot be read: {error}.", hint) from None
    if (state.fleet, state.device) != (topics.fleet, topics.device):
        meant = printable(f"{state.fleet[:64]}/{state.device[:64]}")
        sentence = f"The document is for {meant}, not for {topics.fleet}/{topics.device}."
        raise RefusedError(403, "other-device", sentence, "Send one that names this device.")
    if not 0 < state.sequence <= MAX_SEQUENCE:
        raise RefusedError(400, "bad-document", f"The sequence number must be from 1 to {MAX_SEQUENCE}.")
    return state


class Orders:
    """Follows the newest desired state; one that waits gives way to a newer one."""

    def __init__(
        self,
        topics: Topics,
        data: DataDir,
        outbox: Outbox,
        answers: Answers,
        on_change: Callable[[], None],
        broker: str = "",
    ) -> None:
        self._topics = topics
        self._data = data
        self._outbox = outbox
        self._answers = answers
        self._on_change = on_change
        self._broker = broker
        self._known: Known | None = None
        self._running: set[asyncio.Task[None]] = set()
        self._ended = asyncio.Event()
        self.refused: Following | None = None
        """Last document that was refused; the one that is followed reports its own state."""

    @property
    def following(self) -> Following | None:
        return None if self._known is None else self._known.following

    async def load(self) -> None:
        try:
            found = await self._outbox.recall(_MEMORY)
            self._known = None if found is None else msgspec.json.decode(found, type=thread_safe(Known))
        except (
            sqlite3.Error,
            msgspec.DecodeError,
        ):  # damaged; the retained one comes again
            log.warning("The desired state in %s cannot be read and is ignored.", self._data.outbox)

    async def receive(self, content: bytes) -> None:
        """Takes a message on the topic `desired`; never raises for what is in it."""
        if not content:
            return  # the retained document was removed, which orders nothing
        sequence = 0
        try:
            state = await asyncio.to_thread(read_state, content, self._topics, self._data)
            sequence = state.sequence
            if not await self._is_new(state):
                return
        except (EdgeoptError, OSError) as error:
            self._refuse(sequence, error)
            return
        self._follow(Known(_digest(state), Following(state.sequence, "accepted", time_s=time.time())))
        await self._save()
        task = asyncio.create_task(self._deploy(state), name=f"desired state {state.sequence}")
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    def deployment_ended(self) -> None:
        """Wakes the orders that wait for the end of another deployment."""
        self._ended.set()

    async def stop(self) -> None:
        await end_tasks(self._running)

    async def _is_new(self, state: DesiredState) -> bool:
        """Whether there is something to do; raises RefusedError for an older document."""
        if self._known is None or state.sequence > self._known.following.sequence:
            return True
        newest = self._known.following.sequence
        if state.sequence < newest:
            sentence = f"The desired state {state.sequence} is older than {newest}, which this device follows."
            raise RefusedError(409, "replayed", sentence, "Publish it with a higher sequence number.")
        if self._known.digest != _digest(state):
            sentence = f"Another desired state with the sequence number {newest} is followed already."
            raise RefusedError(409, "replayed", sentence, "Publish it with a higher sequence number.")
        # What an earlier run of the agent did not finish is done now; the same source again changes nothing.
        following = self._known.following
        if following.order is not None and await self._answers.is_interrupted(following.order):
            return not self._running
        return not self._running and following.state in {"accepted", "waiting"}

    async def _deploy(self, state: DesiredState) -> None:
        while self._is_newest(state):
            try:
                _, document = await self._answers.desired(checked(state.desired), self._ordered_by(state))
            except EdgeoptError as error:
                if not self._is_newest(state):
                    return
                waits = error.code == "busy"
                self._report_progress(state, "waiting" if waits else "refused", error=error)
                await self._save()
                if not waits:
                    return
                self._ended.clear()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._ended.wait(), _BUSY_RETRY_S)
                await asyncio.sleep(_TIDY_S)
            else:
                self._report_progress(state, "deploying", document.get("deployment"), order=document.get("order"))
                await self._save()
                return

    def _ordered_by(self, state: DesiredState) -> str:
        rollout = f", rollout '{printable(state.rollout[:_LONGEST_ROLLOUT])}'" if state.rollout else ""
        return f"MQTT (sequence {state.sequence}{rollout}, {self._broker})"

    def _is_newest(self, state: DesiredState) -> bool:
        return self._known is not None and self._known.following.sequence == state.sequence

    def _report_progress(
        self,
        state: DesiredState,
        progress: Progress,
        deployment: object = None,
        error: EdgeoptError | None = None,
        order: object = None,
    ) -> None:
        if not self._is_newest(state):
            return
        begun = deployment if isinstance(deployment, dict) else {}
        code, reason, hint = ("", "", "") if error is None else (error.code, error.message, error.hint)
        model = begun.get("model", state.desired.model)
        following = Following(
            *(state.sequence, progress, begun.get("id"), model, code, reason, hint),
            time_s=time.time(),
            order=order.id if isinstance(order, FleetOrder) else None,
        )
        waits = progress == "waiting"
        if error is not None and not (waits and self.following is not None and self.following.state == progress):
            level, what = (logging.INFO, "waits") if waits else (logging.WARNING, "was refused")
            template = f"A desired state {what} ({code}): %s Ordered by %s."
            log.log(level, template, error, self._ordered_by(state))
        self._follow(Known(_digest(state), following))

    def _follow(self, known: Known) -> None:
        self._known = known
        self._on_change()

    def _refuse(self, sequence: int, error: EdgeoptError | OSError) -> None:
        code, hint = (error.code, error.hint) if isinstance(error, EdgeoptError) else ("disk-failed", "")
        template = f"A desired state was refused ({code}): %s Ordered by MQTT (%s%s)."
        log.warning(template, error, f"sequence {sequence}, " if sequence else "", self._broker)
        self.refused = Following(sequence, "refused", None, "", code, str(error), hint, time.time())
        self._on_change()

    async def _save(self) -> None:
        try:
            await self._outbox.remember(_MEMORY, msgspec.json.encode(self._known))
        except sqlite3.Error as error:
            log.warning("The desired state could not be written down: %s.", error)


def _digest(state: DesiredState) -> str:
    # Another client may publish the same order without the name, or with another one.
    return sha256(msgspec.json.encode(msgspec.structs.replace(state, rollout=""))).hexdigest()
