"""The calls of kernel32 that edgeopt makes, recorded, with processes that really end with their job."""

import contextlib
import ctypes
import os
import signal
from itertools import count

CALLS = []


class FakeKernel32:
    """Keeps jobs by handle; `refused` names a call that fails."""

    def __init__(self, refused=""):
        self.flags, self._jobs, self._processes, self._handles = 0, {}, {}, count(0x10, 4)
        for name in ("CreateJobObjectW", "SetInformationJobObject", "OpenProcess", "AssignProcessToJobObject"):
            setattr(self, name, self._recorded(name, getattr(self, f"_{name}"), refused))
        self.CloseHandle = self._recorded("CloseHandle", self._CloseHandle, refused)

    @staticmethod
    def _recorded(name, function, refused):
        def call(*arguments):
            CALLS.append(name)
            return 0 if name == refused else function(*arguments)

        return call

    def _CreateJobObjectW(self, attributes, name):  # noqa: N802 - as Windows names it
        assert (attributes, name) == (None, None)
        handle = next(self._handles)
        self._jobs[handle] = []
        return handle

    def _SetInformationJobObject(self, job, kind, information, size):  # noqa: N802
        assert (job in self._jobs, kind, size) == (True, 9, 144)
        self.flags = ctypes.c_uint32.from_buffer(information._obj, 16).value
        return 1

    def _OpenProcess(self, access, inherit, pid):  # noqa: N802
        assert (access, inherit) == (0x101, False)
        handle = next(self._handles)
        self._processes[handle] = pid
        return handle

    def _AssignProcessToJobObject(self, job, process):  # noqa: N802
        self._jobs[job].append(self._processes[process])
        return 1

    def _CloseHandle(self, handle):  # noqa: N802
        if handle in self._processes:
            del self._processes[handle]
            return 1
        for pid in self._jobs.pop(handle):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return 1
