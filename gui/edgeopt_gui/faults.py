"""Faults of the app itself: whatever nobody caught is shown and logged, and the app goes on."""

import sys
import threading
import traceback
from types import TracebackType

from PySide6.QtCore import QMessageLogContext, QObject, QtMsgType, Signal, qInstallMessageHandler

from edgeopt.version import __version__
from edgeopt_gui.jobs.ending import Ending


class Faults(QObject):
    """Handlers of uncaught errors and Qt's messages, from `install` on; signals arrive in the window's thread."""

    happened = Signal(object)
    """An `Ending` that says what went wrong."""
    complained = Signal(str)
    """A warning or error message from Qt."""

    def install(self) -> None:
        self._before = (sys.excepthook, sys.unraisablehook, threading.excepthook)
        sys.excepthook = self._raised
        sys.unraisablehook = lambda fault: self._report(fault.exc_value)
        threading.excepthook = lambda fault: self._report(fault.exc_value)
        self._qt_before = qInstallMessageHandler(self._qt_message)

    def remove(self) -> None:
        sys.excepthook, sys.unraisablehook, threading.excepthook = self._before
        qInstallMessageHandler(self._qt_before)

    def _raised(self, kind: type[BaseException], error: BaseException, _trace: TracebackType | None) -> None:
        if issubclass(kind, KeyboardInterrupt):
            sys.__excepthook__(kind, error, _trace)
            return
        self._report(error)

    def _report(self, error: BaseException | None) -> None:
        if error is None:
            return
        details = "".join(traceback.format_exception(error))
        sys.stderr.write(details)
        what = f"Internal error of the app: {type(error).__name__}: {error}"
        next_step = (
            "The app keeps running and your files are unchanged. Please report this with the details below."
        )
        self.happened.emit(Ending("crashed", {}, what, next_step, f"edgeopt-gui {__version__}\n{details}"))

    def _qt_message(self, kind: QtMsgType, _where: QMessageLogContext, message: str) -> None:
        if kind in {QtMsgType.QtDebugMsg, QtMsgType.QtInfoMsg}:
            return
        sys.stderr.write(f"Qt: {message}\n")
        self.complained.emit(message)
