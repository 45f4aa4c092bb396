"""Samples the device's load once a second, off the event loop, while somebody looks."""

from PySide6.QtCore import QObject, QThreadPool, QTimer, Signal

from edgeopt.hw.load import LoadSampler

INTERVAL_MS = 1000


class LoadWatch(QObject):
    sampled = Signal(object)
    """A `LoadSample`, once a second."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._under_way = False
        # Lives on its own: this object may be gone before a sample that is under way has been taken.
        self._samples = _Samples()
        self._samples.taken.connect(self._taken)
        self._timer = QTimer(self)
        self._timer.setInterval(INTERVAL_MS)
        self._timer.timeout.connect(self._take)

    @property
    def running(self) -> bool:
        return self._timer.isActive()

    def start(self) -> None:
        if not self.running:
            self._timer.start()
            self._take()

    def stop(self) -> None:
        self._timer.stop()

    def _take(self) -> None:
        # The sampler is not for several threads: where the disk hangs, seconds are left out.
        if not self._under_way:
            self._under_way = True
            QThreadPool.globalInstance().start(self._samples.take)

    def _taken(self, sample: object) -> None:
        self._under_way = False
        if self.running:
            self.sampled.emit(sample)


class _Samples(QObject):
    taken = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self._sampler: LoadSampler | None = None

    def take(self) -> None:
        if self._sampler is None:
            self._sampler = LoadSampler()
        self.taken.emit(self._sampler.sample())
