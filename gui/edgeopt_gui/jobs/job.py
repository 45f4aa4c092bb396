"""One job: a child process that runs the command line with `--json`, its events as signals."""

import contextlib
import time
from pathlib import Path

from PySide6.QtCore import QObject, QProcess, QProcessEnvironment, QTimer, Signal

from edgeopt import events
from edgeopt.hw.child import python_command
from edgeopt.platform import processes, signals
from edgeopt.platform.child_job import ChildJob
from edgeopt_gui.jobs.command import LOCK_VARIABLE, Command
from edgeopt_gui.jobs.ending import Ending, ending_of
from edgeopt_gui.jobs.lines import EventLines

CHILD_MODULE = "edgeopt_gui.jobs.child"
PATIENCE_MS = 3000
_DETAILS_BYTES = 8192


def can_stop() -> bool:
    """Whether a command can be told to end early: elsewhere, such a signal would end it at once."""
    return signals.can_interrupt()


class Job(QObject):
    """A job that is started once and ends once; `ended` is its last signal."""

    event_received = Signal(object)
    """Each `edgeopt.events.Event` except the result or error."""
    ended = Signal(object)
    """The `Ending`."""

    def __init__(self, command: Command, parent: QObject | None = None, lock: Path | None = None) -> None:
        """`lock` is the file that the command locks while it measures on this device."""
        super().__init__(parent)
        self.command = command
        self.cancelled = False
        self.stopping = False
        """Whether the job was asked to end early with the results that it has."""
        self.ending: Ending | None = None
        self.progress: events.Progress | None = None
        self._began_s = self._received_s = 0.0
        self._ends_s: float | None = None
        self._phase_ends_s: float | None = None
        self._lines = EventLines()
        self._last: events.Result | events.Error | None = None
        self._printed = b""
        self._group = 0
        self._process = QProcess(self)
        # With -P, a file in the working folder with the name of a module is not imported instead of it.
        program, *arguments = python_command("-P", "-m", CHILD_MODULE, *command.arguments, "--json")
        self._process.setProgram(program)
        self._process.setArguments(arguments)
        variables = command.secrets
        if lock is not None and command.measures_here:
            variables += ((LOCK_VARIABLE, str(lock)),)
        if variables:
            environment = QProcessEnvironment.systemEnvironment()
            for name, value in variables:
                environment.insert(name, value)
            self._process.setProcessEnvironment(environment)
        if processes.has_groups():
            # A session of its own, so that the processes that the job starts can be ended with it.
            own = QProcess.UnixProcessParameters()
            own.flags = QProcess.UnixProcessFlag.CreateNewSession
            self._process.setUnixProcessParameters(own)
        self._process.readyReadStandardOutput.connect(self._read)
        self._process.readyReadStandardError.connect(self._read_complaints)
        self._process.finished.connect(self._finished)
        self._process.errorOccurred.connect(self._not_started)

    @property
    def running(self) -> bool:
        return self.ending is None and self._process.state() != QProcess.ProcessState.NotRunning

    @property
    def pid(self) -> int:
        return self._group

    @property
    def left_s(self) -> float | None:
        """Time until the job ends, or else its phase, in seconds; None if unknown or passed."""
        return _left_s(self._ends_s) or _left_s(self._phase_ends_s)

    @property
    def share_of_time(self) -> float | None:
        """Share of the job's expected time that has passed; None if its end is unknown or passed."""
        if self._ends_s is None or _left_s(self._ends_s) is None:
            return None
        return (time.monotonic() - self._began_s) / (self._ends_s - self._began_s)

    @property
    def silent_s(self) -> float:
        """Time since the last output on stdout, in seconds."""
        return time.monotonic() - self._received_s

    def start(self) -> None:
        self._began_s = self._received_s = time.monotonic()
        limit_s = self.command.limit_s
        self._ends_s = self._began_s + limit_s if limit_s is not None else None
        self._process.start()
        self._group = int(self._process.processId())
        self._job = ChildJob(self._group)

    def cancel(self) -> None:
        """Asks the command to stop and clean up; after three seconds it is ended with all that it started."""
        if not self.running or self.cancelled:
            return
        self.cancelled = True
        if signals.can_interrupt():
            self._process.terminate()
        else:
            self._process.closeWriteChannel()  # the child ends itself then
        QTimer.singleShot(PATIENCE_MS, self, self.kill)

    def stop(self) -> None:
        """Asks the command to end early with what it has so far, which may take it some seconds more."""
        if self.running and not self.cancelled and not self.stopping and can_stop() and self._group > 1:
            self.stopping = True
            with contextlib.suppress(ProcessLookupError):
                signals.interrupt(self._group)

    def kill(self) -> None:
        """Ends the process and all that it started, now."""
        if self.running:
            self._end_group()
            self._process.kill()

    def wait(self, timeout_ms: int) -> bool:
        """Blocks until the process ends; returns whether it ended in time. For the end of the app only."""
        return self._process.waitForFinished(timeout_ms)

    def note(self, progress: events.Progress) -> None:
        """Records the latest progress, and updates the expected end of the job or of its phase."""
        self.progress = progress
        self._phase_ends_s = None
        if progress.time_left_s is None or self.command.watches:
            return
        ends_s = time.monotonic() + progress.time_left_s
        # The time left is that of a phase if there is a total; in a search it is always that of the whole.
        if progress.total and not self.command.searches:
            self._phase_ends_s = ends_s
        else:
            self._ends_s = ends_s

    def _read(self) -> None:
        self._received_s = time.monotonic()
        for event in self._lines.feed(bytes(self._process.readAllStandardOutput().data())):
            if isinstance(event, events.Result | events.Error):
                self._last = event
                continue
            if isinstance(event, events.Progress):
                self.note(event)
            self.event_received.emit(event)

    def _read_complaints(self) -> None:
        printed = self._printed + bytes(self._process.readAllStandardError().data())
        self._printed = printed[-_DETAILS_BYTES:]

    def _finished(self, exit_code: int, status: QProcess.ExitStatus) -> None:
        self._read()
        self._read_complaints()
        self._end_group()
        crashed = status == QProcess.ExitStatus.CrashExit
        # A command that is asked to stop before it has a result reports an error that means it was cancelled.
        nothing = self.stopping and isinstance(self._last, events.Error) and self._last.code == "cancelled"
        self._end(
            ending_of(
                self._last,
                cancelled=self.cancelled or nothing,
                exit_code=exit_code,
                crashed=crashed,
                details=self._details(exit_code),
            )
        )

    def _not_started(self, error: QProcess.ProcessError) -> None:
        if error == QProcess.ProcessError.FailedToStart:
            what = f"The command line could not be started: {self._process.errorString()}."
            self._end(Ending("crashed", {}, what, "Install edgeopt again.", self._details(-1)))

    def _end(self, ending: Ending) -> None:
        self.ending = ending
        self.ended.emit(ending)

    def _details(self, exit_code: int) -> str:
        printed = self._printed.decode(errors="replace").strip()
        return f"$ {self.command.line}\nexit code {exit_code}\n{printed}".rstrip()

    def _end_group(self) -> None:
        """Kills the process group of the job; after a clean exit, the group is empty."""
        if self._group > 1:
            processes.end_group(self._group)
            self._job.close()


def _left_s(ends_s: float | None) -> float | None:
    left_s = ends_s - time.monotonic() if ends_s is not None else 0.0
    return left_s if left_s > 0 else None
