"""Instruction sets of a 64-bit Arm CPU from the auxiliary vector, which an emulator sets too."""

import struct
import sys
from pathlib import Path

from edgeopt.hw.host import Host

SOURCE = "/proc/self/auxv: AT_HWCAP, AT_HWCAP2"
_AUXV = Path("/proc/self/auxv")
_PAIR = struct.Struct("=QQ")
_TYPES = {16: "AT_HWCAP", 26: "AT_HWCAP2"}
# arch/arm64/include/uapi/asm/hwcap.h, named as in /proc/cpuinfo: the sets that edgeopt.hw.simd knows.
_BITS = {
    "AT_HWCAP": {1: "asimd", 10: "asimdhp", 20: "asimddp", 22: "sve", 23: "asimdfhm"},
    "AT_HWCAP2": {1: "sve2", 9: "svei8mm", 12: "svebf16", 13: "i8mm", 14: "bf16", 23: "sme", 37: "sme2"},
}


def read() -> dict[str, int]:
    """Both words of this process; none in a 32-bit process, whose bits have other meanings."""
    return parse(_AUXV.read_bytes()) if sys.maxsize > 1 << 32 else {}


def parse(vector: bytes) -> dict[str, int]:
    """`AT_HWCAP` and `AT_HWCAP2` of the auxiliary vector of a 64-bit process."""
    whole = vector[: len(vector) - len(vector) % _PAIR.size]
    return {_TYPES[key]: value for key, value in _PAIR.iter_unpack(whole) if key in _TYPES}


def flags(host: Host) -> frozenset[str]:
    """The flags under their names in /proc/cpuinfo; empty if the host does not report them."""
    words = host.call("edgeopt.hw.arm_hwcap", "read")
    if not isinstance(words, dict):
        return frozenset()
    return frozenset(
        flag
        for key, bits in _BITS.items()
        if isinstance(word := words.get(key), int)
        for bit, flag in bits.items()
        if word >> bit & 1
    )
