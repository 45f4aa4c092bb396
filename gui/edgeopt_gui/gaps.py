"""Finds out when the event loop does not answer, and what it was doing instead."""

import sys
import threading
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import QObject, Qt, Signal

LONGEST_MS = 50.0
_PAUSE_S = 0.01
_FRAMES = 12


@dataclass(frozen=True, slots=True)
class Gap:
    length_ms: float
    stack: str
    """Stack of the window's thread at the moment when the limit passed."""


class GapMonitor(QObject):
    """Monitor that asks the event loop for an answer again and again, from a thread of its own."""

    found = Signal(object)
    """A `Gap`, in the thread of the window."""
    _probe = Signal()

    def __init__(self, longest_ms: float = LONGEST_MS) -> None:
        super().__init__()
        self.gaps: list[Gap] = []
        self._longest_s = longest_ms / 1000
        self._answered = threading.Event()
        self._stopped = threading.Event()
        self._watched = threading.get_ident()
        self._native = threading.get_native_id()
        self._probe.connect(self._answered.set, Qt.ConnectionType.QueuedConnection)
        self._thread = threading.Thread(target=self._watch, daemon=True, name="gaps")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> tuple[Gap, ...]:
        self._stopped.set()
        self._thread.join()
        return tuple(self.gaps)

    def _watch(self) -> None:
        while not self._stopped.wait(_PAUSE_S):
            self._answered.clear()
            waited_s, probed_s = _waited_s(self._native), time.perf_counter()
            self._probe.emit()
            if self._answered.wait(self._longest_s):
                continue
            late_s = time.perf_counter() - probed_s - self._longest_s
            frame = sys._current_frames().get(self._watched)
            stack = "".join(traceback.format_stack(frame, _FRAMES)) if frame is not None else ""
            while not self._answered.wait(self._longest_s):
                if self._stopped.is_set():
                    return  # the thread of the window waits for this one now
            # A late wake-up of this thread, or a wait of the window's thread for a core, comes from the load of
            # the machine and not from the window. The two may overlap, so only the longer one is subtracted.
            waited_s = _waited_s(self._native) - waited_s
            length_s = time.perf_counter() - probed_s - max(0.0, late_s, waited_s)
            if length_s > self._longest_s:
                gap = Gap(length_s * 1000, stack)
                self.gaps.append(gap)
                self.found.emit(gap)


def _waited_s(thread: int) -> float:
    """Returns how long a thread of this process has waited for a core so far, in seconds; 0 except on Linux."""
    try:
        _running, waited_ns, _slices = Path(f"/proc/self/task/{thread}/schedstat").read_text("ascii").split()
    except (OSError, ValueError):
        return 0.0
    return int(waited_ns) / 1e9
