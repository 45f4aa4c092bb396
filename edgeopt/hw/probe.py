"""Runs the probes and puts what they found into one device record."""

from edgeopt.hw.agreement import agree
from edgeopt.hw.device import (
    Accelerator,
    Cache,
    Clock,
    Cluster,
    Cpu,
    Device,
    HostFacts,
    Limits,
    Memory,
    NumaNode,
    Runtime,
    State,
    Unavailable,
)
from edgeopt.hw.host import Host, LocalHost
from edgeopt.hw.peaks_kept import load, with_peaks
from edgeopt.hw.probes import PROBES
from edgeopt.hw.recording import RecordingHost


def probe(host: Host | None = None) -> Device:
    """The device; never raises: unknown facts are in `unavailable` with the reason."""
    # Each thing is asked once, so that all probes see one and the same machine.
    machine = host if isinstance(host, RecordingHost) else RecordingHost(LocalHost() if host is None else host)
    rows: list[object] = []
    clock: Clock | None = None
    state: State | None = None
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
            case Clock() as clock:
                pass
            case State() as state:
                pass
            case entries:
                rows.extend(entries)
    device = Device(
        host=host_facts,
        cpu=cpu,
        limits=limits,
        memory=memory,
        accelerators=tuple(row for row in rows if isinstance(row, Accelerator)),
        runtimes=tuple(row for row in rows if isinstance(row, Runtime)),
        clusters=tuple(row for row in rows if isinstance(row, Cluster)),
        caches=tuple(row for row in rows if isinstance(row, Cache)),
        numa=tuple(row for row in rows if isinstance(row, NumaNode)),
        clock=clock,
        state=state,
        unavailable=unavailable,
        sources=sources,
    )
    agreed = agree(device)
    return with_peaks(agreed, load(machine.cache_folder, agreed))
