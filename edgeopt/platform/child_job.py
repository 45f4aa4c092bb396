"""Ends children together with this process on Windows, with a job object.

Follows the documentation of the Win32 API and is tested with a fake of kernel32; it has not run on Windows.
"""

import ctypes
import sys
from functools import cache
from typing import Any

_EXTENDED_LIMITS = 9  # JobObjectExtendedLimitInformation
_KILL_ON_JOB_CLOSE = 0x2000
_TERMINATE_AND_SET_QUOTA = 0x0001 | 0x0100


class ExtendedLimits(ctypes.Structure):
    """`JOBOBJECT_EXTENDED_LIMIT_INFORMATION`, with neighbours of one type in one field."""

    _fields_ = (
        ("TimeLimits", ctypes.c_int64 * 2),
        ("LimitFlags", ctypes.c_uint32),
        ("WorkingSetSizes", ctypes.c_size_t * 2),
        ("ActiveProcessLimit", ctypes.c_uint32),
        ("Affinity", ctypes.c_size_t),
        ("PriorityAndSchedulingClass", ctypes.c_uint32 * 2),
        ("IoInfo", ctypes.c_uint64 * 6),
        ("MemoryLimitsAndPeaks", ctypes.c_size_t * 4),
    )


class ChildJob:
    """Ends a child, and what it starts from now on, when this process ends or closes the job; only on Windows.

    The system closes the job with this process, however it ends. Where it refuses the job, the child is not held.
    """

    def __init__(self, pid: int, kernel32: Any = None) -> None:  # noqa: ANN401 - what ctypes gives
        self._kernel32, self._job = kernel32 or _kernel32(), None
        if self._kernel32 is None:
            return
        # Without security attributes, no child inherits the handle and keeps the job open.
        self._job = self._kernel32.CreateJobObjectW(None, None)
        if self._job and not self._hold(pid):
            self.close()

    def close(self) -> None:
        """Ends the processes that are left in the job; safe to call twice."""
        if self._job:
            self._kernel32.CloseHandle(self._job)
        self._job = None

    def _hold(self, pid: int) -> bool:
        limits = ExtendedLimits(LimitFlags=_KILL_ON_JOB_CLOSE)
        about = (_EXTENDED_LIMITS, ctypes.byref(limits), ctypes.sizeof(limits))
        process = self._kernel32.OpenProcess(_TERMINATE_AND_SET_QUOTA, False, pid)
        if not process:
            return False
        held = self._kernel32.SetInformationJobObject(self._job, *about)
        held = held and self._kernel32.AssignProcessToJobObject(self._job, process)
        self._kernel32.CloseHandle(process)
        return bool(held)


@cache
def _kernel32() -> Any:  # noqa: ANN401 - what ctypes gives
    if sys.platform == "win32":
        found = ctypes.WinDLL("kernel32")
        # Handles are as wide as pointers, and ctypes would cut them to an int.
        handle, number = ctypes.c_void_p, ctypes.c_uint32
        found.CreateJobObjectW.argtypes, found.CreateJobObjectW.restype = (handle, ctypes.c_wchar_p), handle
        found.SetInformationJobObject.argtypes = (handle, ctypes.c_int, handle, number)
        found.OpenProcess.argtypes, found.OpenProcess.restype = (number, ctypes.c_int, number), handle
        found.AssignProcessToJobObject.argtypes = (handle, handle)
        found.CloseHandle.argtypes = (handle,)
        return found
    return None
