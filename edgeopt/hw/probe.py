"""Runs the probes and puts what they found into one device record."""

from edgeopt.hw.device import Accelerator, Cpu, Device, HostFacts, Limits, Memory, Runtime, Unavailable
from edgeopt.hw.host import Host, LocalHost
from edgeopt.hw.probes import PROBES


def probe(host: Host | None = None) -> Device:
    """The device; never an exception: what cannot be found out stands in `unavailable` with the reason."""
    machine = LocalHost() if host is None else host
    accelerators: tuple[Accelerator, ...] = ()
    runtimes: tuple[Runtime, ...] = ()
    sources: dict[str, str] = {}
    unavailable: dict[str, str] = {}
    host_facts = HostFacts(os="unknown", kernel="unknown", architecture="unknown", python="unknown")
    cpu = Cpu(None, None, simd_level="baseline", simd=(), physical_cores=None, logical_cores=1)
    limits = Limits(affinity_cores=1, cgroup_cores=None, cgroup_memory_bytes=None, usable_cores=1)
    memory = Memory(total_bytes=0, available_bytes=0, usable_bytes=0)
    for name, run in PROBES:
        answer = run(machine)
        if isinstance(answer, Unavailable):
            unavailable[name] = answer.reason
            continue
        sources |= answer.sources
        unavailable |= answer.unavailable
        match answer.section:
            case HostFacts() as host_facts:
                pass
            case Cpu() as cpu:
                pass
            case Limits() as limits:
                pass
            case Memory() as memory:
                pass
            case entries:
                accelerators += tuple(entry for entry in entries if isinstance(entry, Accelerator))
                runtimes += tuple(entry for entry in entries if isinstance(entry, Runtime))
    return Device(
        host=host_facts,
        cpu=cpu,
        limits=limits,
        memory=memory,
        accelerators=accelerators,
        runtimes=runtimes,
        unavailable=unavailable,
        sources=sources,
    )
