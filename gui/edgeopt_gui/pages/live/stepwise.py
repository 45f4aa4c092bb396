"""Importing what takes long without freezing the window.

In the thread of the window, because Qt's classes must not be made in another one while this one uses them: between
two modules the events that wait are worked off.
"""

import importlib
import sys
import time
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

from PySide6.QtCore import QCoreApplication, QEventLoop, QObject, QTimer
from shiboken6 import isValid

_STEP_S = 0.015
# pyqtgraph looks at all their classes, and PySide makes a class when it is looked at first: a fifth of a second.
_COPIED = ("PySide6.QtCore", "PySide6.QtGui", "PySide6.QtWidgets")


class _Breath:
    """Asked for every module before the real finders are; knows none of them."""

    def __init__(self) -> None:
        self._last_s = time.perf_counter()

    def find_spec(
        self, _name: str, _path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        self.take()
        return None

    def take(self) -> None:
        if time.perf_counter() - self._last_s > _STEP_S:
            # Not clicks and keys: what they start might need what is only half imported.
            QCoreApplication.processEvents(QEventLoop.ProcessEventsFlag.ExcludeUserInputEvents)
            self._last_s = time.perf_counter()


def import_in_steps(module: str) -> ModuleType:
    breath = _Breath()
    sys.meta_path.insert(0, breath)
    try:
        for name in () if "pyqtgraph" in sys.modules else _COPIED:
            copied = importlib.import_module(name)
            for each in dir(copied):
                getattr(copied, each)
                breath.take()
        return importlib.import_module(module)
    finally:
        sys.meta_path.remove(breath)


class StepwiseImport(QObject):
    """Imports one module when it is first needed."""

    def __init__(self, module: str, ready: Callable[[ModuleType], None], parent: QObject) -> None:
        """`ready` is called once, with the module, unless `parent` is gone by then."""
        super().__init__(parent)
        self.loading = False
        self._module, self._ready = module, ready
        self._done = False
        self._waiting: list[Callable[[], None]] = []

    def then(self, work: Callable[[], None]) -> bool:
        """Does it now, or once the module is ready; whether the import begins with this call."""
        if self._done:
            work()
            return False
        self._waiting.append(work)
        if self.loading:
            return False
        self.loading = True
        QTimer.singleShot(0, self, self._load)
        return True

    def _load(self) -> None:
        module = import_in_steps(self._module)
        if not isValid(self):  # the window went away meanwhile
            return
        self._ready(module)
        self.loading, self._done = False, True
        while self._waiting:
            self._waiting.pop(0)()
