"""A kernel32 that records its calls, and kills the process of a job whose handle is closed."""

import contextlib
import os
import signal

CALLS = []
JOB, PROCESS = 0x10, 0x20
SSE4_2, AVX = 38, 39
_NEXT_JOB = 0x100


class FakeKernel32:
    """Holds a process in each job; `refused` names a call that fails."""

    def __init__(self, refused=""):
        self.refused, self.opened, self.made, self.held = refused, 0, 0, {}

    def __getattr__(self, name):
        def call(*arguments):
            if name == "IsProcessorFeaturePresent":
                return arguments[0] in {SSE4_2, AVX}
            CALLS.append((name, *arguments))
            if name == self.refused:
                return 0
            if name == "CreateJobObjectW":
                self.made += 1
                return JOB + (self.made - 1) * _NEXT_JOB
            if name == "OpenProcess":
                self.opened = arguments[2]
                return PROCESS
            if name == "AssignProcessToJobObject":
                self.held[arguments[0]] = self.opened
            if name == "CloseHandle" and arguments[0] in self.held:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.held.pop(arguments[0]), signal.SIGKILL)
            return 1

        return call
