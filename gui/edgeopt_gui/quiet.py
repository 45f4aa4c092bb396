"""Whether this is a good moment to measure: what others do on this device, looked at while a page shows it."""

from collections.abc import Sequence

from PySide6.QtCore import QObject, QThreadPool, QTimer, Signal

INTERVAL_MS = 1500
_LOOKS = 2
"""Consecutive looks before a state counts: a single one may be a passing moment."""


class QuietWatch(QObject):
    """Looks with the engine's own check, in a thread, while somebody wants to know.

    What the app itself started is none of the others.
    """

    changed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.problem = ""
        """Sentences about what disturbs measurements now; "" if nothing does."""
        self.quiet = False
        """Whether checks found nothing that disturbs; false before the first checks."""
        self.enabled = True
        """Whether to look at all: pictures and tests show what does not depend on others."""
        self._callers = 0
        self._bad = self._good = 0
        self._under_way = False
        # Without a parent, because this object may be deleted before a running check has ended.
        self._looks = _Looks()
        self._looks.taken.connect(self._taken)
        self._timer = QTimer(self, interval=INTERVAL_MS)
        self._timer.timeout.connect(self._look)

    def start(self) -> None:
        """Starts the checks for one more caller; they run until each caller has called `stop`."""
        self._callers += 1
        if self._callers == 1 and self.enabled:
            self._bad = self._good = 0
            self._timer.start()
            self._look()

    def stop(self) -> None:
        self._callers = max(0, self._callers - 1)
        if not self._callers:
            self._timer.stop()

    def take(self, bad: Sequence[str]) -> None:
        """Takes the sentences of one check; only consecutive equal results change the state."""
        self._bad, self._good = (self._bad + 1, 0) if bad else (0, self._good + 1)
        problem, quiet = self.problem, self._good >= _LOOKS
        if self._bad >= _LOOKS:
            problem = " ".join(bad)
        elif quiet:
            problem = ""
        if (problem, quiet) != (self.problem, self.quiet):
            self.problem, self.quiet = problem, quiet
            self.changed.emit()

    def _look(self) -> None:
        if not self._under_way:
            self._under_way = True
            QThreadPool.globalInstance().start(self._looks.take)

    def _taken(self, bad: object) -> None:
        self._under_way = False
        if self._timer.isActive() and isinstance(bad, tuple):
            self.take(bad)


class _Looks(QObject):
    taken = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self._sampler: object = None
        self._number = 0

    def take(self) -> None:
        """Emits what disturbed measurements since the last call; the first call only starts sampling."""
        from edgeopt.measure.instruments.machine_state import StateSampler

        bad: tuple[str, ...] | None = None
        if not isinstance(self._sampler, StateSampler):
            self._sampler = StateSampler(tuple)
        else:
            bad = self._sampler.end_round().bad
        self._number += 1
        self._sampler.begin_round(self._number)
        self.taken.emit(bad)
