"""Python's garbage is collected in the thread of the window and nowhere else.

The interpreter collects in whatever thread happens to allocate, and a Qt object that ends in another thread than
its own takes timers and the process down with it. Modules and pages live as long as the app: once they are made,
they are frozen, or each full collection would visit them and block the window for 30 to 50 ms.
"""

import gc

from PySide6.QtCore import QObject, QTimer

INTERVAL_MS = 500


class GarbageTimer(QObject):
    """Timer that collects garbage while it exists; afterwards the interpreter collects again."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        gc.disable()
        gc.freeze()
        self.destroyed.connect(_give_back)
        timer = QTimer(self)
        timer.setInterval(INTERVAL_MS)
        timer.timeout.connect(collect_due)
        timer.start()


def _give_back() -> None:
    gc.unfreeze()
    gc.enable()


def collect_due() -> None:
    """Collects the oldest generation over its threshold, as the interpreter would do by itself."""
    counts, thresholds = gc.get_count(), gc.get_threshold()
    due = [k for k in range(3) if counts[k] > thresholds[k] > 0]
    if due:
        gc.collect(due[-1])
