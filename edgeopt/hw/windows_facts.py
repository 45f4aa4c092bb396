"""What Windows itself tells of the CPU, as plain data: asked through `Host.call`, so that it can be recorded.

The registry and one call of the system take microseconds, where PowerShell takes half a second to start.
"""

import sys

_KEY = r"HARDWARE\DESCRIPTION\System\CentralProcessor\0"
_VALUES = ("ProcessorNameString", "VendorIdentifier", "Identifier", "~MHz")
# `PF_*` of winnt.h (IsProcessorFeaturePresent) as the flags that Linux prints.
_FEATURES = (
    (38, "sse4_2"),
    (39, "avx"),
    (40, "avx2"),
    (41, "avx512f"),
    (19, "asimd"),
    (43, "asimddp"),
    (46, "sve"),
    (47, "sve2"),
    (66, "i8mm"),
    (67, "asimdhp"),
    (68, "bf16"),
    (70, "sme"),
    (71, "sme2"),
)


def cpu() -> dict[str, object]:
    """The values of the registry for the first CPU, and the flags that the system says are there."""
    if sys.platform == "win32":
        import ctypes
        import winreg

        found: dict[str, object] = {}
        with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, _KEY) as key:
            for name in _VALUES:
                try:
                    found[name] = winreg.QueryValueEx(key, name)[0]
                except FileNotFoundError:
                    continue
        present = ctypes.windll.kernel32.IsProcessorFeaturePresent
        found["flags"] = [flag for number, flag in _FEATURES if present(number)]
        return found
    return {}


def affinity() -> list[int]:
    """The logical CPUs that this process may run on."""
    import psutil

    return list(psutil.Process().cpu_affinity())
