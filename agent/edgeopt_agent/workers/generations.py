"""Generations of text on the agent's side: one for each request, driven step by step."""

import asyncio
import time
from contextlib import suppress
from types import TracebackType
from typing import Self

from edgeopt.workers.protocol import NO_MEMORY, Failed
from edgeopt_agent.settings import Settings
from edgeopt_agent.v2.errors import RequestError
from edgeopt_agent.workers.frames import (
    Begin,
    EndGeneration,
    FromWorker,
    GenerationBegun,
    NextPiece,
    Piece,
    PromptRefused,
    Transcribe,
)
from edgeopt_agent.workers.outcomes import RequestTooLarge, WorkerDied
from edgeopt_agent.workers.process import Worker
from edgeopt_agent.workers.requests import Request
from edgeopt_agent.workers.router import BusyError, Router

_closing: set[asyncio.Task[None]] = set()


class PromptTooLongError(RequestError):
    """A prompt with more tokens than the context of the model holds."""


class Generation:
    """The text that one request asks for; `async with` waits for its turn and gives that back.

    Leaving it early ends the generation: the worker finishes the token that it computes, and no other.
    """

    def __init__(self, router: Router, request: Request, message: Begin, settings: Settings) -> None:
        self.prompt_tokens = self.tokens = 0
        self.audio_s = 0.0
        """Seconds of speech."""
        self.ending = ""
        """The reason that there is no more text: `stop`, `max_tokens` or `context`; empty before."""
        self._router, self._request, self._message = router, request, message
        self._settings = settings
        self._arrived = time.perf_counter()
        self._first_at = self._last_at = 0.0
        """Times of the first and the last token, by the clock of `_arrived`."""
        self._compute_s = 0.0
        self._worker: Worker
        self._step: asyncio.Task[FromWorker] | None = None
        self._failed = False

    async def __aenter__(self) -> Self:
        """Waits for the turn and begins; raises RequestError if the prompt is refused or nothing serves."""
        self._worker = await self._router.text_turn(self._request, isinstance(self._message, Transcribe))
        try:
            begun = await self._ask(self._message)
            if isinstance(begun, PromptRefused):
                self._count_refusal()
                raise (PromptTooLongError if begun.is_too_long else RequestError)(400, begun.sentence)
            assert isinstance(begun, GenerationBegun)  # noqa: S101 - what the question is answered with
            self.prompt_tokens, self.audio_s = begun.prompt_tokens, begun.audio_s
        except BaseException:
            self._close()
            raise
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._close()

    async def next(self) -> str:
        """Returns the text that became final with one more step; raises RequestError if the worker fails."""
        start = time.perf_counter()
        piece = await self._ask(NextPiece())
        assert isinstance(piece, Piece)  # noqa: S101 - what the question is answered with
        now = time.perf_counter()
        self._compute_s += now - start
        if piece.tokens > self.tokens:
            self._first_at, self._last_at = self._first_at or now, now
        self.tokens, self.ending = piece.tokens, piece.ending
        return piece.text

    async def _ask(self, message: Begin | NextPiece) -> FromWorker:
        # The first token computes the prompt, and any token of speech may begin with the next window.
        is_short = self.tokens and not isinstance(self._message, Transcribe)
        limit_s = self._settings.request_timeout_s if is_short else self._settings.generation_timeout_s
        self._step = asyncio.ensure_future(self._worker.generate(message, self._request, limit_s))
        try:
            # The step goes on without its client, with its time limit: the worker can hang in it.
            answer = await asyncio.shield(self._step)
        except WorkerDied as error:
            if isinstance(error, RequestTooLarge):
                raise self._failure(507, error.reason, begun=error.begun) from None
            sentence = f"The model '{self._worker.name}' did not finish the text. {error.reason}"
            raise self._failure(503, sentence, begun=error.begun) from None
        if isinstance(answer, Failed):
            raise self._failure(507 if answer.code == NO_MEMORY else 500, answer.message)
        return answer

    def _failure(self, status: int, sentence: str, begun: bool = True) -> RequestError:
        self._failed = True
        if status == 507:  # the request needs too much, which says nothing about the release
            self._count_refusal()
        elif not self._worker.stopping:
            self._router.text_failed(self._worker, self._request, self._arrived, sentence, begun)
        return BusyError(status, sentence) if status == 503 else RequestError(status, sentence)

    def _count_refusal(self) -> None:
        took_s = time.perf_counter() - self._arrived
        self._router.totals_of_worker(self._worker).fail("OTHER", took_s, time.time())

    def _close(self) -> None:
        self._count()
        if self.ending or self._failed:
            self._worker.generating.release()
            return
        closing = asyncio.create_task(self._end(), name="end of a generation")
        _closing.add(closing)
        closing.add_done_callback(_closing.discard)

    async def _end(self) -> None:
        try:
            with suppress(WorkerDied):
                if self._step is not None:
                    await self._step
                await self._worker.generate(EndGeneration(), self._request, self._settings.request_timeout_s)
        finally:
            self._worker.generating.release()

    def _count(self) -> None:
        totals = self._router.totals_of_worker(self._worker)
        totals.prompt_tokens += self.prompt_tokens
        if self.tokens:
            totals.add_text(self.tokens, self._first_at - self._arrived, self._last_at - self._first_at)
        if self.ending:
            total_s = time.perf_counter() - self._arrived
            self._router.text_generated(self._worker, self._request, total_s, self._compute_s)
