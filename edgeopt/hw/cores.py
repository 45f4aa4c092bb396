"""How many threads, and on which cores, a word such as `performance` stands for: backends take numbers only."""

from typing import Literal, NamedTuple, get_args

from edgeopt.errors import UsageError
from edgeopt.hw.device import Cluster, Device
from edgeopt.hw.kernel_text import cpu_list

CoreWord = Literal["usable", "physical", "performance"]
CORE_WORDS: tuple[CoreWord, ...] = get_args(CoreWord)


class Cores(NamedTuple):
    threads: int
    cores: tuple[int, ...]
    """The logical cores to keep to, both threads of each; empty: wherever the system puts them."""


def cores_for(word: str, device: Device) -> Cores:
    """`usable`: each thread that may really run at once; `physical`: one for each core of any kind; `performance`:
    one for each core of the faster kinds, and on these cores only.

    What a container or an affinity takes away is taken away here as well.
    """
    if word not in CORE_WORDS:
        raise UsageError(
            f"Unknown choice of cores '{word}'.",
            f"Give a number of threads, or one of: {', '.join(CORE_WORDS)}.",
        )
    usable = device.limits.usable_cores
    if word == "usable":
        return Cores(usable, ())
    allowed = set(cpu_list(device.limits.affinity))
    clusters = _fast(device.clusters) if word == "performance" else device.clusters
    kept = {cluster: _within(cluster, allowed) for cluster in clusters}
    # Two threads of one core that an affinity leaves count as two: the record does not say which are siblings.
    counted = sum(min(cluster.cores, len(cores)) for cluster, cores in kept.items())
    physical = counted or device.cpu.physical_cores or device.cpu.logical_cores
    threads = max(1, min(usable, physical))
    if len(clusters) == len(device.clusters):
        return Cores(threads, ())
    return Cores(threads, tuple(core for cores in kept.values() for core in cores))


def _within(cluster: Cluster, allowed: set[int]) -> tuple[int, ...]:
    return tuple(core for core in cpu_list(cluster.cpus) if not allowed or core in allowed)


def _fast(clusters: tuple[Cluster, ...]) -> tuple[Cluster, ...]:
    """All but those for efficiency: a `prime` core works with the performance cores."""
    return tuple(cluster for cluster in clusters if cluster.name != "efficiency") or clusters
