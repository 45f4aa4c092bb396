"""Signatures of the desired state and of commands, which a device requires once it trusts a key."""

import asyncio
import logging
import sqlite3
import time
from collections.abc import Callable

import msgspec

from edgeopt.bundle.sign import Envelope, load_public_key
from edgeopt.bundle.signed_document import opened_document, verify_document
from edgeopt.decoding import thread_safe
from edgeopt.errors import printable
from edgeopt.fleet.mqtt_documents import COMMAND_TYPE, LONGEST_BYTES, MAX_SEQUENCE, Command, SignedCommand
from edgeopt.fleet.mqtt_topics import Topics
from edgeopt_agent.data_dir import DataDir
from edgeopt_agent.deployments.refused import RefusedError, disk_refusal
from edgeopt_agent.mqtt.outbox import Outbox
from edgeopt_agent.trust import trusted_files

log = logging.getLogger(__name__)
_MEMORY = "command"
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def check_signature(envelope: Envelope | None, data: DataDir, what: str) -> bool:
    """Returns whether a trusted key signed it; False where no key is trusted. Raises EdgeoptError otherwise."""
    try:
        files = trusted_files(data.trust)
    except OSError as error:
        raise disk_refusal(f"The trusted keys cannot be read: {error}.", error) from None
    if not files:
        return False
    if envelope is None:
        sentence = f"The {what} is not signed, and this device trusts only signed ones."
        raise RefusedError(403, "unsigned", sentence, "Sign it with the key of the bundles.")
    verify_document(envelope, [load_public_key(file) for file in files])
    return True


class SignedCommands:
    """Reads commands; with a trusted key, each signed one counts once, for this device, until it expires."""

    def __init__(
        self, topics: Topics, data: DataDir, outbox: Outbox, clock: Callable[[], float] = time.time
    ) -> None:
        self._topics = topics
        self._data = data
        self._outbox = outbox
        self._clock = clock
        self._sequence: int | None = None
        """The highest that was taken; None until it was read from the disk."""

    def read(self, content: bytes) -> tuple[Command, Envelope | None]:
        """Returns the command in a message with its envelope, both unchecked; raises RefusedError."""
        if len(content) > LONGEST_BYTES:
            raise RefusedError(413, "too-large", f"The command has more than {LONGEST_BYTES} bytes.")
        envelope = opened_document(content, COMMAND_TYPE)
        try:
            if envelope is not None:
                return _signed(envelope).command, envelope
            return msgspec.json.decode(content, type=thread_safe(Command)), None
        except _UNREADABLE as error:
            hint = 'Send {"command": "status"}; docs/fleet.md lists the commands.'
            raise RefusedError(400, "bad-document", f"The command cannot be read: {error}.", hint) from None

    async def check(self, envelope: Envelope | None, correlation: bytes, repeated: bool) -> None:
        """Raises EdgeoptError for what must not be performed; `repeated`: its answer is known already."""
        if not await asyncio.to_thread(check_signature, envelope, self._data, "command"):
            return
        assert envelope is not None  # noqa: S101 - it is signed
        signed = _signed(envelope)
        if (signed.fleet, signed.device) != (self._topics.fleet, self._topics.device):
            meant = printable(f"{signed.fleet[:64]}/{signed.device[:64]}")
            sentence = f"The command is for {meant}, not for {self._topics.fleet}/{self._topics.device}."
            raise RefusedError(403, "other-device", sentence, "Send one that names this device.")
        if signed.correlation.encode() != correlation:
            sentence = "The command was signed for other correlation data than those of the message."
            raise RefusedError(403, "replayed", sentence, "Sign each command again.")
        if self._clock() > signed.expires_s:
            sentence = "The command has expired by the clock of this device."
            raise RefusedError(409, "expired", sentence, "Sign it again; check the clocks of both machines.")
        if not 0 < signed.sequence <= MAX_SEQUENCE:
            raise RefusedError(400, "bad-document", f"The sequence number must be from 1 to {MAX_SEQUENCE}.")
        await self._take(signed.sequence, repeated)

    async def _take(self, sequence: int, repeated: bool) -> None:
        newest = await self._newest()
        if sequence > newest:
            self._sequence = sequence
            try:  # before it is performed
                await self._outbox.remember(_MEMORY, str(sequence).encode())
            except sqlite3.Error as error:  # a device with a full disk can still be rolled back
                log.warning("The number of the last command could not be written down: %s.", error)
        elif not repeated:
            sentence = f"The command {sequence} is not newer than {newest}, which this device has taken already."
            raise RefusedError(409, "replayed", sentence, "Sign it again, with a higher sequence number.")

    async def _newest(self) -> int:
        if self._sequence is None:
            try:
                self._sequence = int(await self._outbox.recall(_MEMORY) or 0)
            except (sqlite3.Error, ValueError) as error:
                log.warning("The number of the last command cannot be read: %s.", error)
                self._sequence = 0
        return self._sequence


def _signed(envelope: Envelope) -> SignedCommand:
    return msgspec.json.decode(envelope.payload, type=thread_safe(SignedCommand))
