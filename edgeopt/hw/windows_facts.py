"""Facts that Windows reports about the CPU, as plain data: read by `Host.call`, so that they can be recorded.

The registry and one call of the system take microseconds, where PowerShell takes half a second to start.
"""

import re
import sys

from edgeopt.hw import cpu_models, probe_cache
from edgeopt.hw.cpu_identity import CpuIdentity
from edgeopt.hw.host import Host

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


FACTS_MODULE = "edgeopt.hw.windows_facts"
REGISTRY = r"registry: HKLM\HARDWARE\DESCRIPTION\System\CentralProcessor\0"
NOT_ASKED = "on Windows edgeopt reads only the name, the instruction sets and the affinity"
_NUMBERS = re.compile(r"Family (\d{1,3}) Model (\d{1,3}) Stepping (\d{1,3})")
_LIBRARY = "py-cpuinfo"
# The system has numbers for these only; what makes an inference engine fast beyond them needs CPUID.
_WORTH_A_CLOSER_LOOK = frozenset({"avx2", "avx512f"})


def read(host: Host) -> dict[str, object]:
    """Returns the result of `windows_facts.cpu()`; empty on other systems than Windows."""
    answer = host.call(FACTS_MODULE, "cpu") if host.call("platform", "system") == "Windows" else None
    return answer if isinstance(answer, dict) else {}


def identity(host: Host, answer: dict[str, object]) -> CpuIdentity:
    vendor, model = _text(answer, "VendorIdentifier"), _text(answer, "ProcessorNameString")
    match = _NUMBERS.search(_text(answer, "Identifier") or "")
    family, number, stepping = (int(part) for part in match.groups()) if match else (None, None, None)
    name = cpu_models.name_of_all(vendor, family, number, stepping)
    listed = answer.get("flags")
    flags = frozenset(str(flag) for flag in listed) if isinstance(listed, list) else frozenset()
    source = "IsProcessorFeaturePresent()"
    if not flags.isdisjoint(_WORTH_A_CLOSER_LOOK):
        closer = _from_cpuid(host, model)
        flags |= closer
        source += " and py-cpuinfo (CPUID)" if closer else ""
    if "avx2" in flags and cpu_models.has_avx_vnni(vendor, family, number):
        flags |= {"avx_vnni"}
        source += "; avx-vnni by the model, which always has it"
    facts = {"vendor": vendor, "model": model, "microarchitecture": name}
    sources = {f"cpu.{fact}": REGISTRY for fact, value in facts.items() if value}
    return CpuIdentity(vendor, model, name, flags, sources=sources | ({"cpu.simd": source} if flags else {}))


def _from_cpuid(host: Host, model: str | None) -> frozenset[str]:
    """py-cpuinfo takes more than a second, so its answer is kept for this model of CPU."""
    path = probe_cache.answers_path(host.cache_folder, [_LIBRARY, host.version(_LIBRARY), model])
    kept = probe_cache.load_answers(path).get(_LIBRARY)
    if kept and "CPU" in kept.capabilities:
        return frozenset(kept.capabilities["CPU"])
    answer = host.call("cpuinfo", "get_cpu_info")
    flags = answer.get("flags") if isinstance(answer, dict) else None
    found = tuple(str(flag) for flag in flags) if isinstance(flags, list) else ()
    if path and found:
        probe_cache.store_answers(path, {_LIBRARY: probe_cache.Answer(capabilities={"CPU": found})})
    return frozenset(found)


def _text(answer: dict[str, object], name: str) -> str | None:
    value = answer.get(name)
    return value.strip() or None if isinstance(value, str) else None
