"""The two channels to a worker: a large request is received and parsed while small ones are answered."""

import asyncio
from collections.abc import Sequence

from edgeopt_agent.workers.channel import Body, Channel, Question, Received
from edgeopt_agent.workers.frames import Generate, Infer, ToWorker, Transcribe
from edgeopt_agent.workers.lane_mark import LARGE, SMALL, LaneMark
from edgeopt_agent.workers.requests import LARGE_BYTES, Request


class Lanes:
    def __init__(self, mark: LaneMark, small: Channel, large: Channel) -> None:
        self._small, self._large = small, large
        self._both = small, large
        self._mark = mark

    @property
    def unanswered_bytes(self) -> int:
        return sum(each.unanswered_bytes for each in self._both)

    @property
    def busy_s(self) -> float:
        """The longer `busy_s` of both channels."""
        return max(each.busy_s for each in self._both)

    @property
    def run_s(self) -> Sequence[float]:
        """Durations of the last answered requests of both channels, in seconds."""
        return [*self._small.run_s, *self._large.run_s]

    @property
    def waiting(self) -> bool:
        """Whether the worker has something to answer."""
        return any(each.waiting for each in self._both)

    @property
    def closed(self) -> bool:
        return any(each.closed for each in self._both)

    @property
    def at_work(self) -> Channel | None:
        """The channel whose question the worker is answering, or was when it ended."""
        return {SMALL: self._small, LARGE: self._large}.get(self._mark.lane())

    @property
    def in_work(self) -> tuple[Question, ...]:
        """Questions that the worker may have been running when it ended: one, or the requests of a batch."""
        channel = self.at_work  # read once: a living worker moves the mark at any time
        return () if channel is None else channel.in_work

    def allow_batches(self, maximum: int) -> None:
        for each in self._both:
            each.batch_size = maximum

    async def lost(self) -> None:
        """Returns once nothing more comes from the worker."""
        for each in self._both:
            await each.lost.wait()

    def close_mark(self) -> None:
        """Closes the mark after the process has ended; `at_work` stays known."""
        self._mark.close()

    def ask(
        self,
        message: ToWorker,
        text_bytes: int = 0,
        body: Sequence[Body] = (),
        request: Request | None = None,
    ) -> asyncio.Future[Received]:
        """Sends a frame of the agent itself, or one for a client; the future gets the answer or an error."""
        is_large = sum(map(len, body)) > LARGE_BYTES
        # Reading long audio takes seconds without a pause: in the lane of its next steps, a request that waits
        # behind it does not count as hung.
        channel = self._large if is_large and not isinstance(message, Generate | Transcribe) else self._small
        return channel.ask(message, text_bytes, body, request)

    def run(self, message: Infer, request: Request) -> asyncio.Future[Received]:
        """Sends a client's request; the future gets the answer, or ChannelClosedError."""
        channel = self._large if request.is_large else self._small
        return channel.ask(message, request.text_bytes, request.parts, request)

    def channel_of(self, future: asyncio.Future[Received]) -> Channel:
        """Returns the channel on which a question was asked."""
        return self._large if self._large.has(future) else self._small

    def say_goodbye(self) -> None:
        for each in self._both:
            each.say_goodbye()

    def close(self) -> None:
        for each in self._both:
            each.close()
