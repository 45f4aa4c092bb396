"""Facts about a Mac's CPU from `sysctl`: Apple's own chips and Intel's."""

from edgeopt.hw import kernel_text
from edgeopt.hw.device import Cache, Cluster
from edgeopt.hw.host import Host

COMMAND = ("sysctl", "hw", "machdep.cpu")
Values = dict[str, str]
_MAX_CORES = 4096
# hw.cpufamily, `CPUFAMILY_ARM_*` of mach/machine.h; sysctl prints it as a signed number.
_APPLE_CORES = {0x1B588BB3: "Firestorm + Icestorm", 0xDA33D83D: "Avalanche + Blizzard"}


def read(host: Host) -> Values:
    """Every value by its name; empty on whatever is no Mac."""
    if host.call("platform", "system") != "Darwin":
        return {}
    pairs = (line.partition(":") for line in (host.run(COMMAND) or "").splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs if value.strip()}


def flags(values: Values) -> frozenset[str]:
    """`FEAT_DotProd`, `AdvSIMD`, ... of Apple's chips; `avx2`, ... of Intel's."""
    prefix = "hw.optional.arm."
    apple = {
        name.removeprefix(prefix) for name, value in values.items() if name.startswith(prefix) and value == "1"
    }
    if values.get("hw.optional.AdvSIMD") == "1" or values.get("hw.optional.neon") == "1":
        apple.add("AdvSIMD")
    keys = ("machdep.cpu.features", "machdep.cpu.leaf7_features")
    return frozenset(apple) | frozenset(word.lower() for key in keys for word in values.get(key, "").split())


def count(values: Values, name: str) -> int | None:
    number = kernel_text.whole(values.get(name))
    return number if number is not None and 0 < number <= _MAX_CORES else None


def apple_cores(values: Values) -> str | None:
    """The micro-architectures of Apple's chips that have known names."""
    family = kernel_text.whole(values.get("hw.cpufamily"))
    return None if family is None else _APPLE_CORES.get(family & 0xFFFFFFFF)


def levels(values: Values) -> tuple[str, ...]:
    """The prefixes of the kinds of core, the fastest first: `hw.perflevel0`, ..."""
    kinds = count(values, "hw.nperflevels") or 0
    found = tuple(f"hw.perflevel{place}" for place in range(min(kinds, 4)))
    return found if all(count(values, f"{prefix}.logicalcpu") for prefix in found) else ()


def clusters(values: Values) -> tuple[Cluster, ...]:
    prefixes = levels(values)
    if not prefixes:
        threads = count(values, "hw.logicalcpu")
        if threads is None:
            return ()
        return (Cluster("all", kernel_text.as_list(range(threads)), _cores(values, "hw", threads), threads),)
    found = []
    # macOS numbers the slow cores first.
    start = sum(count(values, f"{prefix}.logicalcpu") or 0 for prefix in prefixes)
    for place, prefix in enumerate(prefixes):
        threads = count(values, f"{prefix}.logicalcpu") or 1
        start -= threads
        name = "all" if len(prefixes) == 1 else "efficiency" if place == len(prefixes) - 1 else "performance"
        cpus = kernel_text.as_list(range(start, start + threads))
        found.append(Cluster(name, cpus, _cores(values, prefix, threads), threads))
    return tuple(found)


def caches(values: Values) -> tuple[Cache, ...]:
    found = []
    for prefix in levels(values) or ("hw",):
        threads = count(values, f"{prefix}.logicalcpu")
        if threads is None:
            continue
        cores = _cores(values, prefix, threads)
        a_core = threads // cores
        # Intel's Macs before macOS 12 have no perflevels; there a core has its L2 for itself and a socket its L3.
        second = count(values, f"{prefix}.cpusperl2") or (a_core if prefix == "hw" else None)
        socket = threads // (count(values, "hw.packages") or 1)
        third = count(values, f"{prefix}.cpusperl3") or (socket if prefix == "hw" else None)
        for kind, level, name, shared_by in (
            ("data", 1, "l1dcachesize", a_core),
            ("instruction", 1, "l1icachesize", a_core),
            ("unified", 2, "l2cachesize", second),
            ("unified", 3, "l3cachesize", third),
        ):
            size = kernel_text.whole(values.get(f"{prefix}.{name}"))
            if size is None or not 0 < size < 1 << 40 or not shared_by:
                continue
            instances = max(1, -(-threads // shared_by))
            found.append(_cache(level, kind, size, instances, min(shared_by, threads)))
    return tuple(sorted(found, key=lambda cache: (cache.level, cache.kind, -cache.size_bytes)))


def _cache(level: int, kind: str, size: int, instances: int, shared_by: int) -> Cache:
    if kind == "data":
        return Cache(level, "data", size, instances, shared_by)
    return Cache(level, "instruction" if kind == "instruction" else "unified", size, instances, shared_by)


def _cores(values: Values, prefix: str, threads: int) -> int:
    return min(count(values, f"{prefix}.physicalcpu") or threads, threads)
