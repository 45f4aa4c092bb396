"""Runs of one session from asyncio: on a few threads that the session owns."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from edgeopt.backends.base import closed

Given = ParamSpec("Given")
Result = TypeVar("Result")


class RunThreads:
    """A pool of threads that start when they are first needed and end with the session."""

    def __init__(self, threads: int) -> None:
        self._pool = ThreadPoolExecutor(threads, "edgeopt-run")
        self._closed = False

    async def run(self, call: Callable[Given, Result], *given: Given.args, **named: Given.kwargs) -> Result:
        """A cancelled caller gives up its place in the queue; a call under way ends, and its result is dropped."""
        return await asyncio.wrap_future(self.submit(call, *given, **named))

    def submit(self, call: Callable[Given, Result], *given: Given.args, **named: Given.kwargs) -> "Future[Result]":
        def work() -> Result:
            if self._closed:
                raise closed()
            return call(*given, **named)

        try:
            return self._pool.submit(work)
        except RuntimeError:
            if self._closed:
                raise closed() from None
            raise

    def close(self) -> None:
        """Waits for the calls under way; those in the queue fail with the error of a closed session."""
        self._closed = True
        self._pool.shutdown()
