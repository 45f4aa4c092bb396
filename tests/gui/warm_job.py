"""Processes of jobs that are forked with everything imported, as `tests/warm.py` does it."""

# ruff: noqa: N802, N815 - Qt's spelling

import os
import select
import subprocess
import time

from PySide6.QtCore import QByteArray, QObject, QProcess, QSocketNotifier, Signal

_READ_BYTES = 65_536


class _Pipe:
    """What was read and nobody has taken yet."""

    def __init__(self, file, signal, parent):
        self.file = file
        self._signal = signal
        self._content = b""
        os.set_blocking(file.fileno(), False)
        self._notifier = QSocketNotifier(file.fileno(), QSocketNotifier.Type.Read, parent)
        self._notifier.activated.connect(self.read)

    def read(self):
        """Reads what is there now; whether more may come."""
        before, content = len(self._content), None
        while content := self.file.read(_READ_BYTES):
            self._content += content
        if len(self._content) > before:
            self._signal.emit()
        if content == b"":
            self._notifier.setEnabled(False)
        return content != b""

    def take(self):
        content, self._content = self._content, b""
        return QByteArray(content)

    def close(self):
        self.read()
        self._notifier.setEnabled(False)
        self.file.close()


class WarmProcess(QObject):
    """What a `Job` uses of QProcess."""

    ProcessState = QProcess.ProcessState
    ExitStatus = QProcess.ExitStatus
    ProcessError = QProcess.ProcessError
    UnixProcessFlag = QProcess.UnixProcessFlag
    UnixProcessParameters = QProcess.UnixProcessParameters

    readyReadStandardOutput = Signal()
    readyReadStandardError = Signal()
    finished = Signal(int, QProcess.ExitStatus)
    errorOccurred = Signal(QProcess.ProcessError)

    def __init__(self, parent=None):
        super().__init__(parent)
        self._program, self._arguments = "", []
        self._environment = None
        self._started = None
        self._pidfd = -1  # while it does not run

    def setProgram(self, program):
        self._program = program

    def setArguments(self, arguments):
        self._arguments = arguments

    def setProcessEnvironment(self, environment):
        self._environment = dict(each.split("=", 1) for each in environment.toStringList())

    def setUnixProcessParameters(self, parameters):
        assert parameters.flags == QProcess.UnixProcessFlag.CreateNewSession

    def start(self):
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        command = [self._program, *self._arguments]
        self._started = subprocess.Popen(
            command, **pipes, bufsize=0, start_new_session=True, env=self._environment
        )
        self._output = _Pipe(self._started.stdout, self.readyReadStandardOutput, self)
        self._errors = _Pipe(self._started.stderr, self.readyReadStandardError, self)
        self._pidfd = os.pidfd_open(self._started.pid)
        self._end_notifier = QSocketNotifier(self._pidfd, QSocketNotifier.Type.Read, self)
        self._end_notifier.activated.connect(self._end)

    def processId(self):
        return self._started.pid if self._pidfd != -1 else 0

    def state(self):
        return self.ProcessState.NotRunning if self._pidfd == -1 else self.ProcessState.Running

    def terminate(self):
        if self._pidfd != -1:
            self._started.terminate()

    def kill(self):
        if self._pidfd != -1:
            self._started.kill()

    def waitForFinished(self, timeout_ms):
        waits = select.poll()
        pipes = {pipe.file.fileno(): pipe for pipe in (self._output, self._errors)}
        for file in (self._pidfd, *pipes):
            waits.register(file, select.POLLIN)
        end = time.monotonic() + timeout_ms / 1e3
        while found := waits.poll(max(0, (end - time.monotonic()) * 1e3)):
            if time.monotonic() > end:
                break  # however much it still writes
            for file, _ in found:
                if file == self._pidfd:
                    self._end()
                    return True
                if not pipes[file].read():
                    waits.unregister(file)
        return False

    def readAllStandardOutput(self):
        return self._output.take()

    def readAllStandardError(self):
        return self._errors.take()

    def _end(self):
        if self._pidfd == -1:
            return
        self._end_notifier.setEnabled(False)
        os.close(self._pidfd)
        self._pidfd = -1
        code = self._started.wait()
        self._output.close()
        self._errors.close()
        self._started.stdin.close()
        self.finished.emit(abs(code), self.ExitStatus.CrashExit if code < 0 else self.ExitStatus.NormalExit)
