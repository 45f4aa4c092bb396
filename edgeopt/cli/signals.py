"""SIGTERM and Ctrl-C as exceptions, raised once and only where they can do no harm.

They are never raised inside a record (`deferred`): its reader would get half of one. Nor inside an import: a
native library that was interrupted while it loaded has crashed at the end of the process, and has replaced the
exception by an unknown one. Nor while something temporary is made, or a folder removed: nobody would remove what
is left.
"""

import _thread
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from edgeopt.errors import Terminated
from edgeopt.platform.signals import NUMBERS, send_to_main_thread

_AGAIN_S = 0.01
# Work that takes longer hangs, and Ctrl-C is meant to end it.
_LONGEST_WAIT_S = 5.0
_IMPORTING = "<frozen importlib._bootstrap>"


class SignalHandler:
    """Handling of the two signals while a command runs."""

    def __init__(self) -> None:
        self.interrupt: Callable[[], bool] | None = None
        """Called at the first Ctrl-C; whether the work ends by itself now, so that nothing need be raised."""
        self.ignoring = False
        """Whether a signal was raised or the last record is written; further signals are ignored."""
        self.raised: KeyboardInterrupt | None = None
        self.finished = False
        """Whether the command has written its last record, so that nothing can follow."""
        self._due: list[int] = []
        self._deferrals = 0
        self._wait_until_s = 0.0

    @property
    def is_ending(self) -> bool:
        """Whether the command should end: a signal is deferred, or was raised, or the last record is written."""
        return self.ignoring or bool(self._due)

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Handles both signals: raises one, or defers it."""
        if self.ignoring:
            return
        if self._deferrals:
            self._due.append(number)
        elif not self._waits(frame) or not _send_again(number):
            self._raise(number)

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Defers signals until the end of `with`, and raises them then."""
        self._deferrals += 1
        try:
            yield
        finally:
            self._deferrals -= 1
            while self._due and not self._deferrals and not self.ignoring:
                self._raise(self._due.pop(0))

    def finish(self) -> None:
        """Ignores further signals: the last record is written, and nothing can change how the command ended."""
        self.ignoring = self.finished = True
        for number in NUMBERS:
            signal.signal(number, self.handle)  # the work may have put others there: asyncio does

    def resend_if_dropped(self, unraisable: "sys.UnraisableHookArgs") -> bool:
        """Sends the signal again if Python dropped its exception, as in `__del__`.

        Returns whether it was sent again.
        """
        if self.raised is None or unraisable.exc_value is not self.raised:
            return False
        self.ignoring = False
        return _send_again(signal.SIGTERM if isinstance(self.raised, Terminated) else signal.SIGINT)

    def _waits(self, frame: FrameType | None) -> bool:
        if not _is_uninterruptible(frame):
            return False
        self._wait_until_s = self._wait_until_s or time.monotonic() + _LONGEST_WAIT_S
        return time.monotonic() < self._wait_until_s

    def _raise(self, number: int) -> None:
        if number == signal.SIGINT and self.interrupt is not None:
            ask, self.interrupt = self.interrupt, None
            if ask():
                return
        # One is enough: the clean-up, and the way out after it, must not be interrupted.
        self.ignoring = True
        self.raised = KeyboardInterrupt() if number == signal.SIGINT else Terminated()
        raise self.raised


_active: SignalHandler | None = None


@contextmanager
def handle_signals() -> Iterator[SignalHandler]:
    """Raises both signals as exceptions until the end of `with`; an inner `with` uses the outer handler."""
    global _active  # noqa: PLW0603 - a process has one set of signals
    if _active is not None:
        yield _active
        return
    handler = _active = SignalHandler()
    before = {number: signal.getsignal(number) for number in NUMBERS}
    hook_before = sys.unraisablehook

    def hook(unraisable: "sys.UnraisableHookArgs") -> None:
        if not handler.resend_if_dropped(unraisable):
            hook_before(unraisable)

    sys.unraisablehook = hook
    for number in NUMBERS:
        signal.signal(number, handler.handle)
    try:
        yield handler
    finally:
        handler.ignoring = True
        sys.unraisablehook = hook_before
        for number, previous in before.items():
            if signal.getsignal(number) == handler.handle:
                signal.signal(number, previous)
        _active = None


@contextmanager
def deferred() -> Iterator[None]:
    """Defers signals until the end of `with`, if they are handled at all."""
    if _active is None:
        yield
        return
    with _active.deferred():
        yield


def is_ending() -> bool:
    """Whether this command should end."""
    return _active is not None and _active.is_ending


def _is_uninterruptible(frame: FrameType | None) -> bool:
    """Whether a frame of the command's work is in an import, `tempfile` or `rmtree`."""
    while frame is not None and (module := frame.f_globals.get("__name__")) != "edgeopt.cli.program":
        code = frame.f_code
        if (
            code.co_filename == _IMPORTING
            or module == "tempfile"
            or (module == "shutil" and "rmtree" in code.co_name)
        ):
            return True
        frame = frame.f_back
    return False


def _send_again(number: int) -> bool:
    """Sends the signal again after a moment; returns False if that is impossible.

    Uses a bare thread: a handler may run while `threading` holds the locks that its own threads take.
    """

    def send() -> None:
        time.sleep(_AGAIN_S)
        send_to_main_thread(number)

    try:
        _thread.start_new_thread(send, ())
    except RuntimeError:  # the system gives no more threads
        return False
    return True
