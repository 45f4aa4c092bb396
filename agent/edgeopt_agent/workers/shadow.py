"""Requests to a soaking release that its predecessor answers as well, out of the clients' sight."""

import asyncio
import math

from edgeopt_agent.workers.outcomes import Answer, WorkerError
from edgeopt_agent.workers.process import Worker
from edgeopt_agent.workers.requests import LARGE_BYTES, Request

EQUAL_DB = 200.0
_CLOSEST_DB = 199.9
"""Highest ratio of outputs that differ."""
MAX_BYTES = 16 << 20
"""Most bytes of a request and its answer together: larger ones would take memory that the service may need."""


class Shadow:
    """One request at a time, and only when it is wanted: the predecessor must not slow the new release down."""

    def __init__(self) -> None:
        self.compared = 0
        self.not_finite = 0
        """Answers with NaN or infinity where the predecessor answered with numbers."""
        self.outputs: dict[str, tuple[float, float]] = {}
        """The power of the signal and of the noise of each output, over all requests."""
        self._wants_request = False
        self._task: asyncio.Task[None] | None = None

    def agreement_db(self) -> dict[str, float]:
        """Returns how well each output agrees with the predecessor's, in decibels."""
        return {name: _ratio_db(*powers) for name, powers in self.outputs.items()}

    def sample_next(self) -> None:
        """Takes the next request that fits."""
        self._wants_request = True

    def maybe_compare(self, predecessor: Worker | None, request: Request, processed: bool, answer: Answer) -> None:
        """Compares a request that the new release has answered well, if one is wanted and it fits."""
        if not self._wants_request or predecessor is None or not predecessor.alive:
            return
        size_bytes = request.size_bytes + len(answer.body)
        slots = predecessor.slots(size_bytes > LARGE_BYTES)
        if slots.locked() or self._task is not None or size_bytes > MAX_BYTES:
            return
        self._wants_request = False
        comparing = self._compare(predecessor, slots, request, processed, answer)
        self._task = asyncio.create_task(comparing, name="shadow")

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _compare(
        self, predecessor: Worker, slots: asyncio.Semaphore, request: Request, processed: bool, answer: Answer
    ) -> None:
        try:
            async with slots:
                found = await predecessor.compare(request, processed, answer)
        except WorkerError:  # what the predecessor cannot answer says nothing about the new release
            return
        finally:
            self._task = None
        self.compared += 1
        self.not_finite += found.not_finite
        for output in found.outputs:
            signal, noise = self.outputs.get(output.name, (0.0, 0.0))
            self.outputs[output.name] = signal + output.signal, noise + output.noise


def _ratio_db(signal: float, noise: float) -> float:
    # The engine's own function comes with NumPy, which the agent's process does without.
    if noise == 0:
        return EQUAL_DB
    ratio = signal / noise
    return max(-EQUAL_DB, min(_CLOSEST_DB, 10 * math.log10(ratio))) if ratio > 0 else -EQUAL_DB
