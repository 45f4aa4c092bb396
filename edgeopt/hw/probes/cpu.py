"""The CPU: vendor, model, SIMD sets, cores; from the kernel's files, elsewhere from sysctl or the registry."""

from dataclasses import replace

from edgeopt.hw import arm_hwcap, cpu_identity, cpu_models, kernel_text, simd, sysctl, topology, windows_facts
from edgeopt.hw.cpu_identity import CpuIdentity
from edgeopt.hw.device import Cpu, Facts
from edgeopt.hw.host import Host
from edgeopt.hw.probes.host import architecture, cpuinfo_architecture

SVE_LENGTH = "/proc/sys/abi/sve_default_vector_length"
RVV_ALLOWED = "/proc/sys/abi/riscv_v_default_allow"
_NUMBERS = ("family", "model", "stepping")
# Why a fact is not there, unless a more exact reason is at hand.
_REASONS = {
    "vendor": "neither the kernel nor a library reports it",
    "model": "neither the kernel nor a library reports it",
    "microarchitecture": "this version of edgeopt has no name for the IDs of this CPU",
    "sockets": "no source says which CPUs share a socket",
    "physical_cores": "no source says which CPUs share a core",
    "threads_per_core": "no source says which CPUs share a core",
    "vector_bits": "no vector instructions were found",
}


def probe(host: Host) -> Facts:
    name, _ = architecture(host)
    unavailable: dict[str, str] = {}
    found = _identity(host, name, unavailable)
    sources = dict(found.sources)
    sets = _sets(host, name, found, sources, unavailable)
    if "cpu.simd" in sources:
        sources["cpu.simd_level"] = sources["cpu.simd"]
    bits = _vector_bits(host, sets, found.flags, sources, unavailable)
    cores, sockets = topology.cores(host), topology.sockets(host)
    logical, physical = topology.logical_cores(host), topology.physical_cores(host, cores)
    if physical and physical[0] > (logical[0] if logical else 1):
        physical = cores = None  # they contradict each other, and the program runs on logical ones
    threads = topology.threads_per_core(cores) if cores else None
    packages = len(sockets.cpus) if sockets else None
    if cores:
        sources["cpu.threads_per_core"] = cores.source
    elif logical and physical and logical[0] % physical[0] == 0:
        threads = logical[0] // physical[0]
        sources["cpu.threads_per_core"] = f"{logical[1]} / {physical[1]}"
    if sockets:
        sources["cpu.sockets"] = sockets.source
    elif packages := sysctl.count(sysctl.read(host), "hw.packages"):
        sources["cpu.sockets"] = "sysctl hw.packages"
    for fact, answer in (("logical_cores", logical), ("physical_cores", physical)):
        if answer:
            sources[f"cpu.{fact}"] = answer[1]
    section = Cpu(
        vendor=found.vendor,
        model=found.model,
        simd_level=simd.level(sets),
        simd=sets,
        physical_cores=physical[0] if physical else None,
        logical_cores=logical[0] if logical else 1,  # this code runs, so there is one
        microarchitecture=found.microarchitecture,
        sockets=packages,
        threads_per_core=threads,
        vector_bits=bits,
    )
    for fact, reason in _REASONS.items():
        if getattr(section, fact) is None:
            unavailable.setdefault(f"cpu.{fact}", reason)
    return Facts(section, sources, unavailable)


def _identity(host: Host, architecture_name: str, unavailable: dict[str, str]) -> CpuIdentity:
    if found := kernel_text.blocks(host.read(cpu_identity.CPUINFO) or ""):
        listed = cpuinfo_architecture(host)
        if _is_other_cpu(listed, architecture_name):
            reason = f"{cpu_identity.CPUINFO} describes an {listed} CPU, which emulates this one"
            unavailable |= {f"cpu.{fact}": reason for fact in ("vendor", "model", "microarchitecture")}
            identity = CpuIdentity()
        else:
            identity = cpu_identity.from_cpuinfo(host, found)
        return _with_hwcap(host, identity) if architecture_name == "aarch64" else identity
    if values := sysctl.read(host):
        return _from_sysctl(values)
    if answer := windows_facts.read(host):
        return windows_facts.identity(host, answer)
    return _from_py_cpuinfo(host)


def _is_other_cpu(listed: str | None, architecture_name: str) -> bool:
    """Whether the CPU in /proc/cpuinfo cannot run this process itself."""
    x86 = {"x86_64", "i686"}
    return listed in x86 and architecture_name.startswith(("aarch64", "arm", "riscv"))


def _with_hwcap(host: Host, found: CpuIdentity) -> CpuIdentity:
    """The identity with the instruction sets that this process may use, if /proc/cpuinfo lists others."""
    flags = arm_hwcap.flags(host)
    if not flags or simd.names(flags, "aarch64") == simd.names(found.flags, "aarch64"):
        return found
    return replace(found, flags=flags, flags_of_some={}, sources={**found.sources, "cpu.simd": arm_hwcap.SOURCE})


def _sets(
    host: Host, architecture_name: str, found: CpuIdentity, sources: dict[str, str], unavailable: dict[str, str]
) -> tuple[str, ...]:
    flags = found.flags
    if "avx_ifma" in flags and "avx_vnni" in flags and "hypervisor" not in flags:
        flags |= {"avx_vnni_int8"}
        sources["cpu.simd"] += " (avx_ifma implies avx-vnni-int8, which the kernel does not print)"
    if "v" in flags and (host.read(RVV_ALLOWED) or "").strip() == "0":
        flags = frozenset(flag for flag in flags if flag != "v" and not flag.startswith("zv"))
        unavailable["cpu.simd.rvv"] = f"the CPU has it, but the kernel has disabled it ({RVV_ALLOWED} is 0)"
    sets = simd.names(flags, architecture_name)
    for flag, cpus in found.flags_of_some.items():
        for lacking in simd.names(frozenset({flag}), architecture_name):
            if lacking not in sets:
                where = f"CPUs {kernel_text.as_list(cpus)}" if cpus else "some cores"
                unavailable[f"cpu.simd.{lacking}"] = f"only {where} have it, and a thread may move to any core"
    if not sets and architecture_name == "aarch64":
        sources["cpu.simd"] = "the architecture, aarch64"
        return ("neon",)  # every 64-bit Arm CPU has it
    return sets


def _vector_bits(
    host: Host, sets: tuple[str, ...], flags: frozenset[str], sources: dict[str, str], unavailable: dict[str, str]
) -> int | None:
    if "sve" in sets:
        length = kernel_text.whole(host.read(SVE_LENGTH))
        if length and length % 16 == 0 and 16 <= length <= 256:
            sources["cpu.vector_bits"] = SVE_LENGTH
            return 8 * length
        unavailable["cpu.vector_bits"] = f"SVE has no fixed length, and {SVE_LENGTH} does not report it"
        return None
    if "rvv" in sets:
        bits = cpu_identity.vector_bits(flags)
        if bits is None:
            unavailable["cpu.vector_bits"] = "RVV has no fixed length, and the isa string has no zvl*b"
        else:
            sources["cpu.vector_bits"] = f"{cpu_identity.CPUINFO}: isa, zvl{bits}b (at least)"
        return bits
    fixed = simd.fixed_vector_bits(sets)
    if fixed:
        sources["cpu.vector_bits"] = f"the width of {sets[0] if fixed == 128 else f'{fixed}-bit sets'} in cpu.simd"
    return fixed


def _from_sysctl(values: sysctl.Values) -> CpuIdentity:
    flags = sysctl.flags(values)
    model = values.get("machdep.cpu.brand_string")
    vendor = values.get("machdep.cpu.vendor") or ("Apple" if model and model.startswith("Apple") else None)
    sources = {"cpu.simd": "sysctl hw.optional, machdep.cpu.features"} if flags else {}
    for fact, value in (("vendor", vendor), ("model", model)):
        if value:
            sources[f"cpu.{fact}"] = "sysctl machdep.cpu"
    family, number, stepping = (kernel_text.whole(values.get(f"machdep.cpu.{n}")) for n in _NUMBERS)
    name = sysctl.apple_cores(values) or cpu_models.name_of_all(vendor, family, number, stepping)
    if name:
        sources["cpu.microarchitecture"] = "sysctl hw.cpufamily" if vendor == "Apple" else "sysctl machdep.cpu"
    return CpuIdentity(vendor, model, name, flags, sources=sources)


def _from_py_cpuinfo(host: Host) -> CpuIdentity:
    """Returns the CPU's identity from py-cpuinfo, the last resort: it takes more than a second."""
    answer = host.call("cpuinfo", "get_cpu_info")
    if not isinstance(answer, dict):
        return CpuIdentity()
    vendor, model, flags = (answer.get(key) for key in ("vendor_id_raw", "brand_raw", "flags"))
    known = frozenset(str(flag) for flag in flags) if isinstance(flags, list) else frozenset()
    facts = {"vendor": vendor, "model": model, "simd": known}
    return CpuIdentity(
        vendor if isinstance(vendor, str) and vendor else None,
        model if isinstance(model, str) and model else None,
        flags=known,
        sources={f"cpu.{fact}": "py-cpuinfo" for fact, value in facts.items() if value},
    )
