"""seccomp: keeps this process and all that it starts in its process group, so that one signal ends them all."""

import ctypes
import errno
import os
import platform
import struct
import sys

_NO_NEW_PRIVILEGES, _SET_SECCOMP, _FILTER = 38, 22, 2
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
"""Instructions of the kernel's filters: load a word, jump if it is equal or at least, end."""
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | errno.EPERM
_NUMBER_PLACE, _ARCHITECTURE_PLACE = 0, 4
_OTHER_ABI = 0x40000000
"""Numbers of system calls from here on are those of x32, a second set on x86-64."""

_CALLS = {
    "x86_64": (0xC000003E, 112, 109),
    "aarch64": (0xC00000B7, 157, 154),
    "riscv64": (0xC00000F3, 157, 154),
}
"""By machine: the kernel's number of the architecture, of `setsid` and of `setpgid`."""


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def stay_in_group() -> None:
    """Refuses `setsid` and `setpgid` from now on; raises OSError where the kernel or the machine has no filters.

    Holds for the calling thread and those that it starts, so it comes before any other thread.
    """
    known = _CALLS.get(platform.machine())
    if known is None or sys.maxsize < 1 << 32:
        raise OSError(errno.ENOSYS, f"no filter is known for {platform.machine()}")
    architecture, set_session, set_group = known
    # A jump counts the instructions that it skips, if so and if not.
    steps = (
        (_LOAD, 0, 0, _ARCHITECTURE_PLACE),
        (_EQUAL, 0, 5, architecture),
        (_LOAD, 0, 0, _NUMBER_PLACE),
        (_AT_LEAST, 3, 0, _OTHER_ABI),
        (_EQUAL, 2, 0, set_session),
        (_EQUAL, 1, 0, set_group),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _REFUSE),
    )
    instructions = b"".join(struct.pack("=HBBI", *step) for step in steps)
    program = _Program(len(steps), instructions)
    libc = ctypes.CDLL(None, use_errno=True)
    for call in ((_NO_NEW_PRIVILEGES, 1, 0, 0, 0), (_SET_SECCOMP, _FILTER, ctypes.byref(program), 0, 0)):
        if libc.prctl(*call):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
