"""A kernel32 that records its calls, and kills the process of a job whose handle is closed."""

import contextlib
import os
import signal

CALLS = []
JOB, PROCESS = 0x10, 0x20


class FakeKernel32:
    """Holds one job; `refused` names a call that fails."""

    def __init__(self, refused=""):
        self.refused, self.opened, self.held = refused, 0, False

    def __getattr__(self, name):
        def call(*arguments):
            CALLS.append((name, *arguments))
            if name == "OpenProcess":
                self.opened = arguments[2]
            self.held |= name == "AssignProcessToJobObject" != self.refused
            if (name, *arguments, self.held) == ("CloseHandle", JOB, True):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.opened, signal.SIGKILL)
            return 0 if name == self.refused else {"CreateJobObjectW": JOB, "OpenProcess": PROCESS}.get(name, 1)

        return call
