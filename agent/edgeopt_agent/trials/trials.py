"""The one session at a time in which a client measures on this device."""

import asyncio
import contextlib
import logging
import secrets
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process

from edgeopt.hw.child import python_command
from edgeopt.remote.address import PROBE_ONLY
from edgeopt_agent.deployments.record import Record
from edgeopt_agent.deployments.refused import RefusedError
from edgeopt_agent.deployments.slots import Slots
from edgeopt_agent.settings import Settings
from edgeopt_agent.trials.confined import why_open

log = logging.getLogger(__name__)
GRACE_S = 15.0
"""More than the program needs to end what it has started."""
_OUTPUT_BYTES = 1 << 16


class Trial:
    """A session: the program that does its work, as long as the client is connected."""

    def __init__(self, process: Process, beside_serving: bool) -> None:
        self.id = secrets.token_urlsafe(24)
        self.beside_serving = beside_serving
        self._process = process
        self._writing = asyncio.Lock()
        assert process.stdin is not None  # noqa: S101 - it was opened as a pipe
        assert process.stdout is not None  # noqa: S101 - it was opened as a pipe
        self._input, self._output = process.stdin, process.stdout

    def writing(self) -> asyncio.Lock:
        """Returns a lock to hold while a request is passed on, so that its bytes stay together."""
        return self._writing

    async def write(self, piece: bytes) -> None:
        """Raises OSError once the program has ended."""
        self._input.write(piece)
        await self._input.drain()

    async def read(self) -> bytes:
        """Returns the next bytes for the client; empty once the program has ended."""
        return await self._output.read(_OUTPUT_BYTES)

    def make_way(self) -> None:
        """Ends it because of a deployment, and lets the program say so."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGUSR1)

    def hang_up(self) -> None:
        """Closes the program's input, whereupon it ends what it has started, and then itself."""
        self._input.close()

    async def end(self) -> None:
        self.hang_up()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GRACE_S):
                while await self.read():  # or it would wait for a reader
                    pass
                await self._process.wait()
        if self._process.returncode is None:
            self._process.kill()
            await self._process.wait()


class Trials:
    def __init__(self, slots: Slots) -> None:
        self._slots = slots
        self._trial: Trial | None = None
        self._starting = False
        slots.listeners.append(self._deploying)

    async def begin(self, beside_serving: bool, probes: bool) -> Trial:
        """Begins a session, with `probes` one that reads the facts of the device only.

        Raises RefusedError where the agent takes none now.
        """
        settings = self._slots.first.site.settings
        check_allowed(settings)
        if self._trial is not None or self._starting:
            raise RefusedError(
                409, "busy", "Another measurement runs on this agent: one runs at a time.", "Try again later."
            )
        if not (beside_serving or probes) and any(self._is_used()):
            raise RefusedError(
                409,
                "serving",
                "A release serves or is deployed on this agent, and would share the processor with a measurement.",
                "Add ?beside_serving=1 to the address to measure anyway; both become slower.",
            )
        self._starting = True
        try:
            folder = self._slots.first.site.data.trials
            if why := why_open():
                log.warning("A measurement runs with the rights of the agent, because %s.", why)
            arguments = (
                str(folder),
                str(settings.max_bundle_bytes),
                str(settings.disk_reserve_bytes),
                str(settings.trials_bytes),
                PROBE_ONLY if probes else "",
            )
            self._trial = Trial(
                await asyncio.create_subprocess_exec(
                    *python_command("-P", "-m", "edgeopt_agent.trials.child", *arguments),
                    stdin=PIPE,
                    stdout=PIPE,
                    stderr=DEVNULL,
                    start_new_session=True,
                ),
                beside_serving or probes,
            )
        finally:
            self._starting = False
        return self._trial

    def _is_used(self) -> list[bool]:
        return [slot.machine.busy or slot.site.router.serving is not None for slot in self._slots.all]

    def named(self, session: str) -> Trial:
        trial = self._trial
        if trial is None or not secrets.compare_digest(trial.id.encode(), session.encode()):
            raise RefusedError(404, "no-trial", "There is no such measurement, or it has ended.", "Begin another.")
        return trial

    async def end(self, trial: Trial) -> None:
        try:
            await trial.end()
        finally:
            self._trial = None

    def stop(self) -> None:
        if self._trial is not None:
            self._trial.hang_up()

    def _deploying(self, record: Record) -> None:
        if self._trial is not None and not self._trial.beside_serving and not record.final:
            self._trial.make_way()


def check_allowed(settings: Settings) -> None:
    """Raises RefusedError unless the agent measures for others."""
    if not settings.trials:
        raise RefusedError(
            403,
            "trials-off",
            "This agent runs no measurements for others.",
            "Allow them in its configuration: trials = true",
        )
