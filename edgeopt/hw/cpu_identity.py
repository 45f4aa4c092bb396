"""Who made the CPU, what it is called and which instruction sets it lists: from /proc/cpuinfo."""

import re
from dataclasses import dataclass, field

from edgeopt.hw import cpu_models, kernel_text, topology
from edgeopt.hw.host import Host
from edgeopt.hw.kernel_text import Block, whole

CPUINFO = "/proc/cpuinfo"
# What x86, RISC-V, POWER, LoongArch and MIPS call the model.
_MODEL_KEYS = ("model name", "uarch", "cpu", "Model Name", "cpu model")
_MADE_UP = ("QEMU", "Common KVM", "Common 32-bit KVM")


@dataclass(frozen=True, slots=True)
class CpuIdentity:
    vendor: str | None = None
    model: str | None = None
    microarchitecture: str | None = None
    flags: frozenset[str] = frozenset()
    """Flags that every core has: a thread may move to any of them."""
    flags_of_some: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Flags that only some cores have, with the numbers of these cores."""
    sources: dict[str, str] = field(default_factory=dict)


def from_cpuinfo(host: Host, found: tuple[Block, ...]) -> CpuIdentity:
    flags, some, flags_source = _flags(found)
    sources = {"cpu.simd": flags_source} if flags_source else {}
    if kernel_text.values(found, "CPU implementer"):
        return _arm(found, flags, some, sources)
    vendor = _vendor(found, sources)
    model = None
    for key in _MODEL_KEYS:
        if models := kernel_text.values(found, key):
            model = kernel_text.name(" + ".join(models))
            break
    if model:
        sources["cpu.model"] = f"{CPUINFO}: {key}"
    is_riscv = bool(kernel_text.values(found, "uarch"))
    core = _riscv_core(found) if is_riscv else _x86_core(host, found, model)
    if core:
        named_by = "uarch" if is_riscv else "vendor_id, cpu family, model"
        sources["cpu.microarchitecture"] = f"{CPUINFO}: {named_by}"
    return CpuIdentity(vendor, model, core, flags, some, sources)


def x86_numbers(found: tuple[Block, ...]) -> tuple[str | None, int | None, int | None, int | None]:
    """Vendor, family, model and stepping of the first CPU."""
    first = next((block for block in found if "cpu family" in block), {})
    family, model, stepping = (kernel_text.whole(first.get(key)) for key in ("cpu family", "model", "stepping"))
    return first.get("vendor_id"), family, model, stepping


def _flags(found: tuple[Block, ...]) -> tuple[frozenset[str], dict[str, tuple[int, ...]], str | None]:
    key = next((key for key in ("flags", "Features", "isa") if kernel_text.values(found, key)), None)
    if key is None:
        return frozenset(), {}, None
    sets = [(kernel_text.whole(b.get("processor")), _split(key, b[key])) for b in found if b.get(key)]
    common = frozenset.intersection(*(flags for _, flags in sets))
    some: dict[str, tuple[int, ...]] = {}
    for cpu, flags in sets:
        for flag in sorted(flags - common):
            some[flag] = (*some.get(flag, ()), *(() if cpu is None else (cpu,)))
    return common, some, f"{CPUINFO}: {key}"


def _split(key: str, text: str) -> frozenset[str]:
    return riscv_extensions(text) if key == "isa" else frozenset(text.split())


def _arm(
    found: tuple[Block, ...], flags: frozenset[str], some: dict[str, tuple[int, ...]], sources: dict[str, str]
) -> CpuIdentity:
    vendor = cpu_models.arm_vendor(kernel_text.values(found, "CPU implementer")[0])
    parts = (cpu_models.arm_model(b.get("CPU implementer"), b.get("CPU part")) for b in found if "CPU part" in b)
    model = " + ".join(dict.fromkeys(part for part in parts if part)) or None
    if vendor:
        sources["cpu.vendor"] = f"{CPUINFO}: CPU implementer"
    if model:
        sources["cpu.model"] = sources["cpu.microarchitecture"] = f"{CPUINFO}: CPU part"
    return CpuIdentity(vendor, model, model, flags, some, sources)


def _vendor(found: tuple[Block, ...], sources: dict[str, str]) -> str | None:
    if vendors := kernel_text.values(found, "vendor_id"):
        vendor = kernel_text.name(vendors[0])
        if vendor:
            sources["cpu.vendor"] = f"{CPUINFO}: vendor_id"
        return vendor
    first = next((block for block in found if "hart" in block or "uarch" in block), None)
    if first and (vendor := kernel_text.name(riscv_vendor(first))):
        sources["cpu.vendor"] = f"{CPUINFO}: mvendorid, uarch"
        return vendor
    return None


def _riscv_core(found: tuple[Block, ...]) -> str | None:
    return kernel_text.name(" + ".join(dict.fromkeys(name for b in found if (name := riscv_core(b)))))


def _x86_core(host: Host, found: tuple[Block, ...], model_name: str | None) -> str | None:
    vendor, family, model, stepping = x86_numbers(found)
    if model_name and model_name.startswith(_MADE_UP):
        return None  # a hypervisor made it up: the numbers are those of no real CPU
    if cores := cpu_models.hybrid_cores(vendor, family, model):
        guest = "hypervisor" in found[0].get("flags", "").split()
        # A guest cannot see the kinds; on the machine itself no efficiency cores means that it has none.
        if not guest and not topology.of_hybrid(host):
            return cores.performance
    return cpu_models.name_of_all(vendor, family, model, stepping)


# JEDEC numbers of mvendorid, as the kernel's arch/riscv/include/asm/vendorid_list.h has them, and others.
_VENDORS = {
    0x31E: "Andes",
    0x489: "SiFive",
    0x5B7: "T-Head",
    0x61F: "Tenstorrent",
    0x67E: "StarFive",
    0x710: "SpacemiT",
}
# The left half of a device tree's `compatible`, which the kernel prints as uarch.
_PREFIXES = {
    "andes": "Andes",
    "andestech": "Andes",
    "microchip": "Microchip",
    "sifive": "SiFive",
    "sophgo": "Sophgo",
    "spacemit": "SpacemiT",
    "starfive": "StarFive",
    "tenstorrent": "Tenstorrent",
    "thead": "T-Head",
    "ultrarisc": "UltraRISC",
}
_ISA = re.compile(r"rv(32|64|128)([a-z]*)((?:_[a-z0-9]+)*)")
_VECTOR_LENGTH = re.compile(r"zvl([1-9]\d{1,5})b")


def riscv_extensions(isa: str | None) -> frozenset[str]:
    """`rv64imafdcv_zfh_zvfh` as its parts: single letters, and longer names as they are."""
    match = _ISA.fullmatch((isa or "").strip().lower())
    if not match:
        return frozenset()
    # g stands for imafd with zicsr and zifencei (the unprivileged specification, chapter on naming).
    letters = match[2].replace("g", "imafd")
    return frozenset(letters) | frozenset(part for part in match[3].split("_") if part)


def vector_bits(names: frozenset[str]) -> int | None:
    """The least length of the vector registers, where the hart tells by a `zvl` extension."""
    lengths = [int(match[1]) for name in names if (match := _VECTOR_LENGTH.fullmatch(name))]
    powers = [length for length in lengths if length & (length - 1) == 0 and 32 <= length <= 65536]
    return max(powers, default=None)


def riscv_vendor(block: Block) -> str | None:
    """Returns the vendor by the number in mvendorid, or else by the left half of uarch."""
    number = whole(block.get("mvendorid"))
    if number in _VENDORS:
        return _VENDORS[number]
    prefix, comma, _ = block.get("uarch", "").partition(",")
    return _PREFIXES.get(prefix, prefix or None) if comma else None


def riscv_core(block: Block) -> str | None:
    """`SiFive U74`, out of `sifive,u74-mc`."""
    prefix, comma, core = block.get("uarch", "").partition(",")
    if not comma or not core:
        return None
    name = core.removesuffix("-mc")
    return f"{_PREFIXES.get(prefix, prefix)} {name.upper() if len(name) <= 5 else name}"
