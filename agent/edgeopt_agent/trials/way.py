"""The agent's own way to the program of a measurement, used by the agent itself instead of a client elsewhere."""

import asyncio
import concurrent.futures
from collections.abc import Coroutine
from typing import Any, TypeVar

from edgeopt.errors import EdgeoptError, MissingError
from edgeopt_agent.tasks import end_tasks
from edgeopt_agent.trials.trials import Trial

Found = TypeVar("Found")


class OwnWay:
    """A `Way` of `edgeopt.remote.link`, called in a thread; its session lives in the event loop."""

    host = "this device"
    first = b""
    has_edgeopt = True
    other_python = "the one that runs the agent"

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self._loop = asyncio.get_running_loop()
        self._pending = b""
        self._reading: asyncio.Task[None] | None = None
        self._over = False

    async def leave(self) -> None:
        """Lets go of the session, whatever the thread waits for."""
        self._over = True
        if self._reading is not None:
            await end_tasks((self._reading,))

    def send(self, data: bytes) -> None:
        if data:
            self._in_loop(self._trial.write(data))

    def line(self) -> bytes:
        while b"\n" not in self._pending:
            if not (more := self._in_loop(self._read())):
                return self._taken(len(self._pending))
            self._pending += more
        return self._taken(self._pending.index(b"\n") + 1)

    def read(self, size: int) -> bytes:
        if not self._pending:
            self._pending = self._in_loop(self._read())
        return self._taken(min(size, len(self._pending)))

    def end_reason(self) -> str:
        return ""

    def failure(self, reason: str) -> EdgeoptError:
        return MissingError(
            f"The measurement ended before it began{reason}.", "The log of the agent may say more."
        )

    def close(self, patience_s: float) -> None:
        """Does nothing, because the session is ended by who began it."""

    def _taken(self, size: int) -> bytes:
        taken, self._pending = self._pending[:size], self._pending[size:]
        return taken

    async def _read(self) -> bytes:
        if self._over:
            return b""
        self._reading = asyncio.current_task()
        try:
            return await self._trial.read()
        finally:
            self._reading = None

    def _in_loop(self, work: Coroutine[Any, Any, Found]) -> Found:
        try:
            return asyncio.run_coroutine_threadsafe(work, self._loop).result()
        except (RuntimeError, concurrent.futures.CancelledError) as error:  # the program or the agent has ended
            raise ConnectionError from error
