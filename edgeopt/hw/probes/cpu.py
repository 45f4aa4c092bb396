"""The CPU: vendor, model, SIMD sets, cores; from the kernel's files, elsewhere from sysctl or py-cpuinfo."""

from typing import NamedTuple

from edgeopt.hw import arm_parts, kernel_text, simd, topology
from edgeopt.hw.device import Cpu
from edgeopt.hw.facts import Facts
from edgeopt.hw.host import Host
from edgeopt.hw.probes.host import architecture


class _Identity(NamedTuple):
    vendor: str | None
    model: str | None
    flags: frozenset[str]
    sources: dict[str, str]


def probe(host: Host) -> Facts:
    name, _ = architecture(host)
    found = kernel_text.blocks(host.read("/proc/cpuinfo") or "")
    if found:
        identity = _from_cpuinfo(found)
    elif name == "aarch64" and host.call("platform", "system") == "Darwin":
        identity = _from_sysctl(host)
    else:
        identity = _from_py_cpuinfo(host)
    sets = simd.names(identity.flags, name)
    sources = dict(identity.sources)
    if not sets and name == "aarch64":
        sets = ("neon",)  # every 64-bit Arm CPU has it
        sources["cpu.simd"] = "the architecture, aarch64"
    if "cpu.simd" in sources:
        sources["cpu.simd_level"] = sources["cpu.simd"]
    logical, physical = topology.logical_cores(host), topology.physical_cores(host)
    if logical:
        sources["cpu.logical_cores"] = logical[1]
    if physical:
        sources["cpu.physical_cores"] = physical[1]
    return Facts(
        Cpu(
            vendor=identity.vendor,
            model=identity.model,
            simd_level=simd.level(sets),
            simd=sets,
            physical_cores=physical[0] if physical else None,
            logical_cores=logical[0] if logical else 1,  # this code runs, so there is one
        ),
        sources,
    )


def _from_cpuinfo(found: tuple[kernel_text.Block, ...]) -> _Identity:
    sources: dict[str, str] = {}
    lists = kernel_text.values(found, "flags") or kernel_text.values(found, "Features")
    # A thread may move to any core, so on a CPU with unlike cores only what all of them have counts.
    flags = frozenset.intersection(*(frozenset(text.split()) for text in lists)) if lists else frozenset()
    if lists:
        sources["cpu.simd"] = "/proc/cpuinfo: flags" if "flags" in found[0] else "/proc/cpuinfo: Features"
    implementers = kernel_text.values(found, "CPU implementer")
    if implementers:
        sources["cpu.vendor"] = "/proc/cpuinfo: CPU implementer"
        sources["cpu.model"] = "/proc/cpuinfo: CPU part"
        parts = dict.fromkeys(
            arm_parts.model(b.get("CPU implementer"), b.get("CPU part")) for b in found if "CPU part" in b
        )
        model = " + ".join(part for part in parts if part) or None
        return _Identity(arm_parts.vendor(implementers[0]), model, flags, sources)
    vendors = kernel_text.values(found, "vendor_id")
    if vendors:
        sources["cpu.vendor"] = "/proc/cpuinfo: vendor_id"
    for key in ("model name", "uarch", "cpu"):  # x86, RISC-V, POWER
        if models := kernel_text.values(found, key):
            sources["cpu.model"] = f"/proc/cpuinfo: {key}"
            return _Identity(vendors[0] if vendors else None, " + ".join(models), flags, sources)
    return _Identity(vendors[0] if vendors else None, None, flags, sources)


def _from_sysctl(host: Host) -> _Identity:
    lines = (host.run(("sysctl", "hw.optional")) or "").splitlines()
    pairs = (line.partition(":") for line in lines)
    flags = frozenset(name.rpartition(".")[2] for name, _, value in pairs if value.strip() == "1")
    model = (host.run(("sysctl", "-n", "machdep.cpu.brand_string")) or "").strip() or None
    sources = {"cpu.simd": "sysctl hw.optional"} if flags else {}
    if model:
        sources["cpu.model"] = "sysctl machdep.cpu.brand_string"
    return _Identity("Apple", model, flags, sources)


def _from_py_cpuinfo(host: Host) -> _Identity:
    """Windows and older Macs; it takes more than a second, so it comes last."""
    answer = host.call("cpuinfo", "get_cpu_info")
    if not isinstance(answer, dict):
        return _Identity(None, None, frozenset(), {})
    vendor, model, flags = (answer.get(key) for key in ("vendor_id_raw", "brand_raw", "flags"))
    known = frozenset(str(flag) for flag in flags) if isinstance(flags, list) else frozenset()
    facts = {"vendor": vendor, "model": model, "simd": known}
    return _Identity(
        vendor if isinstance(vendor, str) else None,
        model if isinstance(model, str) else None,
        known,
        {f"cpu.{fact}": "py-cpuinfo" for fact, value in facts.items() if value},
    )
