"""The client of a worker process: starts it, sends requests, and reports how it ended."""

from collections.abc import Callable
from typing import TypeVar

import msgspec

from edgeopt.decoding import thread_safe
from edgeopt.errors import TrialError
from edgeopt.workers.host import Child, TrialHost
from edgeopt.workers.protocol import Failed, ended

Answer = TypeVar("Answer")
_SHOWN_BYTES = 60


class WorkerClient:
    """One worker process, started with the first request, and again after it has ended.

    Several workers can be asked before any answer is awaited: `send`, then `answer`.
    """

    def __init__(self, host: TrialHost, max_starts: int | None = None) -> None:
        self.child: Child | None = None
        """The worker process; None before the first request and after the process has ended."""
        self._host = host
        self._starts_left = max_starts
        self._failure: Failed | None = None
        """The failure to start a process for the last request; None if it was sent."""

    def ask(self, request: msgspec.Struct, answer: type[Answer], limit_s: float) -> Answer | Failed:
        try:
            self.send(request)
            return self.answer(answer, limit_s)
        except BaseException:
            # No caller waits for the answer any more: it could be taken for the answer to another request, and
            # files that the worker still writes block their removal.
            self.close()
            raise

    def send(self, request: msgspec.Struct) -> None:
        self._failure = None if self.child is not None else self._start(str(request.__struct_config__.tag))
        if self.child is not None:
            self.child.send(msgspec.json.encode(request))

    def answer(self, answer: type[Answer], limit_s: float) -> Answer | Failed:
        """Returns the answer to the last request; a crash or a hang of the worker is returned as `Failed`."""
        if self._failure is not None:
            return self._failure
        if self.child is None:
            return Failed("was ended", ending="closed")
        try:
            decoder: msgspec.json.Decoder[Answer | Failed] = msgspec.json.Decoder(thread_safe(answer | Failed))
            return read_answer(self.child, decoder.decode, limit_s)
        except TrialError as error:
            self.close()
            return ended(error)

    def ready(self, timeout_s: float) -> bool:
        """Waits until the last request has its answer or has failed; returns False if `timeout_s` passes first."""
        return self._failure is not None or self.child is None or self.child.ready(timeout_s)

    def begin(self, task: str) -> None:
        """Starts the process before the first request; if that fails, the first request tries again."""
        if self.child is None:
            self._failure = self._start(task)

    def close(self) -> None:
        """Ends the process; safe to call twice."""
        if self.child is not None:
            self.child.close()
            self.child = None

    def _start(self, task: str) -> Failed | None:
        if self._starts_left == 0:
            return Failed("ended too often; it was not started again", ending="too-often")
        if self._starts_left is not None:
            self._starts_left -= 1
        try:
            self.child = self._host.start(task)
        except TrialError as error:
            return ended(error)
        return None


def read_answer(child: Child, decode: Callable[[bytes], Answer], limit_s: float) -> Answer:
    """Returns the next answer; raises TrialError, with the process ended, if no answer can be read."""
    line = child.receive(limit_s)
    try:
        return decode(line)
    except msgspec.MsgspecError:
        # The next line of such a process could be taken for the answer to another request.
        child.close()
        begin = line[:_SHOWN_BYTES].decode(errors="replace")
        raise TrialError(f"sent an invalid answer: {begin!r}; it was killed", ending="nonsense") from None
