"""A process that answers one question after another; if it ends, the next question starts a new one.

How it ended is an answer like any other. Callers that cannot go on without a process pass answers to
`refuse_machine_failure`.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from edgeopt.errors import TrialError
from edgeopt.measure.host import Child, TrialHost
from edgeopt.measure.processes.failed import Failed, ended

Answer = TypeVar("Answer")

_BEGIN_BYTES = 60


class Asked(Generic[Answer]):
    """Several can be asked before any is waited for: `send`, then `answer`."""

    def __init__(
        self,
        host: TrialHost,
        module: str,
        decode: Callable[[bytes], Answer | Failed],
        most_starts: int | None = None,
    ) -> None:
        self.child: Child | None = None
        """None before the first question and after an end."""
        self._host, self._module, self._decode = host, module, decode
        self._starts_left = most_starts
        self._failure: Failed | None = None
        """Why what was sent last has gone nowhere."""

    def ask(self, request: msgspec.Struct, limit_s: float) -> Answer | Failed:
        try:
            self.send(request)
            return self.answer(limit_s)
        except BaseException:
            # Nobody waits for the answer any more: it could be taken for that to another question, and what it
            # writes meanwhile blocks the removal of its files.
            self.close()
            raise

    def send(self, request: msgspec.Struct) -> None:
        self._failure = None if self.child is not None else self._start()
        if self.child is not None:
            self.child.send(msgspec.json.encode(request))

    def answer(self, limit_s: float) -> Answer | Failed:
        """To what was sent last."""
        if self._failure is not None:
            return self._failure
        if self.child is None:
            return Failed("was ended", ending="closed")
        try:
            return answered(self.child, self._decode, limit_s)
        except TrialError as error:
            self.close()
            return ended(error)

    def ready(self, timeout_s: float) -> bool:
        """Whether what was asked last has its answer by then, if only that there is none."""
        return self._failure is not None or self.child is None or self.child.ready(timeout_s)

    def begin(self) -> None:
        """Starts the process before it is asked anything; where that cannot be, the first question tries again."""
        if self.child is None:
            self._failure = self._start()

    def close(self) -> None:
        """Ends the process; safe to call twice."""
        if self.child is not None:
            self.child.close()
            self.child = None

    def _start(self) -> Failed | None:
        if self._starts_left == 0:
            return Failed("ended too often; it was not started again", ending="too-often")
        if self._starts_left is not None:
            self._starts_left -= 1
        try:
            self.child = self._host.start(self._module)
        except TrialError as error:
            return ended(error)
        return None


def answered(child: Child, decode: Callable[[bytes], Answer], limit_s: float) -> Answer:
    """The next answer; raises TrialError when there is none that can be read, and the process is gone then."""
    line = child.receive(limit_s)
    try:
        return decode(line)
    except msgspec.MsgspecError:
        # What comes next from such a process could be taken for the answer to another question.
        child.close()
        begin = line[:_BEGIN_BYTES].decode(errors="replace")
        raise TrialError(f"sent an invalid answer: {begin!r}; it was killed", ending="nonsense") from None
