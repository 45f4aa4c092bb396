"""Ctrl-C in the terminal, and SIGTERM: the window closes as by its own button."""

import contextlib
import signal
import socket
from types import FrameType

from PySide6.QtCore import QObject, QSocketNotifier, Signal

NUMBERS = (signal.SIGINT, signal.SIGTERM)


def _ignore(_number: int, _frame: FrameType | None) -> None:
    """Does nothing: Python calls it late, and the byte that a signal writes to the socket wakes Qt's loop."""


class EndSignals(QObject):
    """Handlers of the signals that end the app; earlier signals are delivered when the event loop runs."""

    came = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._read, self._write = socket.socketpair()
        for end in (self._read, self._write):
            end.setblocking(False)
        self._notifier = QSocketNotifier(self._read.fileno(), QSocketNotifier.Type.Read, self)
        self._notifier.activated.connect(self._deliver)
        self._wakeup_before = signal.set_wakeup_fd(self._write.fileno(), warn_on_full_buffer=False)
        self._before = {number: signal.signal(number, _ignore) for number in NUMBERS}

    def close(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup_before)
        self._notifier.setEnabled(False)
        self._read.close()
        self._write.close()

    def _deliver(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._read.recv(64)
        self.came.emit()
