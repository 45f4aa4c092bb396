"""SIGTERM and Ctrl-C as exceptions, raised once and only where they can do no harm.

They never come inside a record (`held`): what reads the records would be given half of one. Nor inside an import:
a native library that is interrupted while it is loaded has been seen to crash at the end of the process, and to
turn the exception into one that nobody knows. Nor while something temporary is made, or a folder removed: what is
left of it then, nobody would remove.
"""

import _thread
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from edgeopt.errors import Terminated

NUMBERS = (signal.SIGTERM, signal.SIGINT)
_AGAIN_S = 0.01
# Work that takes longer hangs, and Ctrl-C is meant to end it.
_LONGEST_WAIT_S = 5.0
_IMPORTING = "<frozen importlib._bootstrap>"


class Signals:
    """Handling of the two signals while a command runs."""

    def __init__(self) -> None:
        self.interrupt: Callable[[], bool] | None = None
        """Asked at the first Ctrl-C: whether the work ends by itself now, so that nothing need be raised."""
        self.over = False
        """Whether a signal was raised or the last record is written; further signals are ignored."""
        self.raised: KeyboardInterrupt | None = None
        self.said = False
        """Whether the command has written its last record, so that nothing can follow."""
        self._due: list[int] = []
        self._holds = 0
        self._wait_until_s = 0.0

    @property
    def pressing(self) -> bool:
        """Whether somebody waits for the end: a signal is held back, or the command is on its way out."""
        return self.over or bool(self._due)

    def hear(self, number: int, frame: FrameType | None) -> None:
        """Handles both signals: raises one, or defers it."""
        if self.over:
            return
        if self._holds:
            self._due.append(number)
        elif not self._waits(frame) or not _send_again(number):
            self._raise(number)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Holds signals back until the end of `with`, and raises them then."""
        self._holds += 1
        try:
            yield
        finally:
            self._holds -= 1
            while self._due and not self._holds and not self.over:
                self._raise(self._due.pop(0))

    def finish(self) -> None:
        """The last record is being written: from here on nothing can change how the command ended."""
        self.over = self.said = True
        for number in NUMBERS:
            signal.signal(number, self.hear)  # the work may have put others there: asyncio does

    def lost(self, unraisable: "sys.UnraisableHookArgs") -> bool:
        """Whether it was raised where Python drops exceptions, as where an object goes; then it comes again."""
        if self.raised is None or unraisable.exc_value is not self.raised:
            return False
        self.over = False
        return _send_again(signal.SIGTERM if isinstance(self.raised, Terminated) else signal.SIGINT)

    def _waits(self, frame: FrameType | None) -> bool:
        if not _is_at_it(frame):
            return False
        self._wait_until_s = self._wait_until_s or time.monotonic() + _LONGEST_WAIT_S
        return time.monotonic() < self._wait_until_s

    def _raise(self, number: int) -> None:
        if number == signal.SIGINT and self.interrupt is not None:
            ask, self.interrupt = self.interrupt, None
            if ask():
                return
        # One is enough: the clean-up, and the way out after it, must not be interrupted.
        self.over = True
        self.raised = Terminated() if number == signal.SIGTERM else KeyboardInterrupt()
        raise self.raised


_now: Signals | None = None


@contextmanager
def heard() -> Iterator[Signals]:
    """Both signals are exceptions in here; the outermost of several has them to its end."""
    global _now  # noqa: PLW0603 - a process has one set of signals
    if _now is not None:
        yield _now
        return
    found = _now = Signals()
    before = {number: signal.getsignal(number) for number in NUMBERS}
    hook_before = sys.unraisablehook

    def hook(unraisable: "sys.UnraisableHookArgs") -> None:
        if not found.lost(unraisable):
            hook_before(unraisable)

    sys.unraisablehook = hook
    for number in NUMBERS:
        signal.signal(number, found.hear)
    try:
        yield found
    finally:
        found.over = True
        sys.unraisablehook = hook_before
        for number, handler in before.items():
            if signal.getsignal(number) == found.hear:
                signal.signal(number, handler)
        _now = None


@contextmanager
def held() -> Iterator[None]:
    """No signal is raised in here, where any are heard at all."""
    if _now is None:
        yield
        return
    with _now.held():
        yield


def pressing() -> bool:
    """Whether somebody waits for the end of this command."""
    return _now is not None and _now.pressing


def _is_at_it(frame: FrameType | None) -> bool:
    """Whether it must not be interrupted, as far out as the work of a command reaches."""
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
    """Sends it once more in a moment; False where that cannot be done.

    By a bare thread: a handler may run while `threading` holds the locks that its own threads take.
    """
    if not hasattr(signal, "pthread_kill"):
        return False
    main = threading.main_thread().ident

    def send() -> None:
        time.sleep(_AGAIN_S)
        if main is not None:
            signal.pthread_kill(main, number)

    try:
        _thread.start_new_thread(send, ())
    except RuntimeError:  # the system gives no more threads
        return False
    return True
