"""Capabilities: what lets a process pass the kernel's checks; a worker has none and never gets one again."""

import ctypes
import errno
import struct

_DROP_FROM_BOUNDS, _READ_BOUNDS, _AMBIENT, _CLEAR_AMBIENT = 24, 23, 47, 4
_SET_SECURE_BITS, _SECURE_BITS = 28, 0xEF
"""Root gets none by being root, no call keeps or raises any, and all this is locked."""
_VERSION_3 = 0x20080522

_libc = ctypes.CDLL(None, use_errno=True)


def drop_capabilities() -> None:
    """Drops all capabilities from every set; raises OSError if one is left."""
    # What needs a capability itself may be denied: then there is nothing to drop, or the last step fails.
    _libc.prctl(_SET_SECURE_BITS, _SECURE_BITS, 0, 0, 0)
    number = 0
    while _libc.prctl(_READ_BOUNDS, number, 0, 0, 0) >= 0:
        _libc.prctl(_DROP_FROM_BOUNDS, number, 0, 0, 0)
        number += 1
    _libc.prctl(_AMBIENT, _CLEAR_AMBIENT, 0, 0, 0)
    header, none = struct.pack("=Ii", _VERSION_3, 0), bytes(24)
    dropped = _libc.capset(header, none) == 0
    code = ctypes.get_errno()
    found = ctypes.create_string_buffer(24)
    if _libc.capget(header, found) == 0 and not any(found.raw):
        return
    # In a user namespace a process has all capabilities over what belongs to that.
    raise OSError(errno.EPERM if dropped else code, "those over its own network are left: capset is denied")
