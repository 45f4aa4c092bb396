"""Which cores are of one kind: Intel's P- and E-cores, Arm's big and LITTLE, cores with unlike clocks."""

from dataclasses import dataclass

from edgeopt.hw import arm_parts, kernel_text, topology
from edgeopt.hw.host import Host

# The kernel has a performance counter unit for each kind of core of Intel's hybrid CPUs
# (Documentation/admin-guide/perf/ and arch/x86/events/intel/core.c).
HYBRID_FILES = (
    ("performance", "/sys/devices/cpu_core/cpus"),
    ("efficiency", "/sys/devices/cpu_atom/cpus"),
    ("low-power", "/sys/devices/cpu_lowpower/cpus"),
)
ALL = "all"
# On x86 the best cores of one kind clock some percent higher than their sisters, step by step from core to
# core; another kind (Zen 5c beside Zen 5, the low-power cores of a Core Ultra) is a gap wider than this.
_GAP_X86 = 0.85
# On Arm clusters of one core have a clock or capacity each; the same for all cores in them.
_GAP = 0.97
# Slower than this beside the fastest, and a core of an unknown kind counts as an efficiency core.
_EFFICIENCY = 0.5


@dataclass(frozen=True, slots=True)
class Core:
    """One logical CPU as far as it matters for its kind."""

    cpu: int
    model: str | None
    speed: int | None
    """Capacity where the kernel tells it for all, else the highest clock."""


def of_hybrid(host: Host) -> dict[int, str]:
    """The kind of each CPU of an Intel hybrid; empty on all others."""
    found: dict[int, str] = {}
    for kind, path in HYBRID_FILES:
        for cpu in kernel_text.cpu_list(host.read(path)):
            found.setdefault(cpu, kind)
    return found if len(set(found.values())) > 1 else {}


def arm_models(host: Host, cpus: tuple[int, ...]) -> dict[int, str]:
    """The part of each CPU, from /proc/cpuinfo, else from the registers that the kernel shows."""
    blocks = kernel_text.blocks(host.read("/proc/cpuinfo") or "")
    if not kernel_text.values(blocks, "CPU implementer"):
        return {}
    found: dict[int, str] = {}
    for block in blocks:
        cpu = kernel_text.whole(block.get("processor"))
        name = arm_parts.model(block.get("CPU implementer"), block.get("CPU part"))
        if cpu is not None and name:
            found[cpu] = name
    if not found:
        # Kernels before 3.8 tell the part once for all, in a block of its own.
        name = next(
            (n for b in blocks if (n := arm_parts.model(b.get("CPU implementer"), b.get("CPU part")))), None
        )
        return dict.fromkeys(cpus, name) if name else {}
    for cpu in cpus:
        if cpu not in found:
            path = f"{topology.CPU_FOLDER}/cpu{cpu}/regs/identification/midr_el1"
            numbers = arm_parts.of_midr(host.read(path))
            if numbers and (name := arm_parts.model(*numbers)):
                found[cpu] = name
    return found


def groups(cores: tuple[Core, ...], *, x86: bool) -> list[list[Core]]:
    """Cores of one model and about one speed, the fastest group first."""
    by_model: dict[str | None, list[Core]] = {}
    for core in cores:
        by_model.setdefault(core.model, []).append(core)
    found: list[list[Core]] = []
    for members in by_model.values():
        if any(core.speed is None for core in members):
            found.append(members)
            continue
        current: list[Core] = []
        for core in sorted(members, key=lambda c: -(c.speed or 0)):
            if current and (core.speed or 0) < (_GAP_X86 if x86 else _GAP) * (current[-1].speed or 0):
                found.append(current)
                current = []
            current.append(core)
        found.append(current)
    return sorted(found, key=_slowness)


def names(found: list[list[Core]]) -> list[str]:
    """`prime`, `performance`, `efficiency` for groups that come fastest first; `all` for a single one."""
    if len(found) < 2:
        return [ALL] * len(found)
    fastest = max((core.speed or 0 for core in found[0]), default=0)
    small = [
        place > 0 and (group[0].model in arm_parts.LITTLE or (group[0].speed or fastest) < _EFFICIENCY * fastest)
        for place, group in enumerate(found)
    ]
    if not any(small) and len(found) == 2 and found[0][0].model == found[1][0].model is None:
        small[1] = True  # two kinds of x86 core of one make: the compact ones
    others = any(not is_small for is_small in small[1:])
    return [
        "efficiency" if is_small else "prime" if place == 0 and others else "performance"
        for place, is_small in enumerate(small)
    ]


def _slowness(group: list[Core]) -> tuple[int, bool, int]:
    return (-max(core.speed or 0 for core in group), group[0].model in arm_parts.LITTLE, min(c.cpu for c in group))
