"""The probes: one file a capability, each `probe(host) -> Facts | Unavailable`; absence is a value."""

from collections.abc import Callable

from edgeopt.hw.device import Facts, Unavailable
from edgeopt.hw.host import Host
from edgeopt.hw.probes import caches, clock, clusters, cpu, gpu, host, limits, memory, npu, numa, runtimes, state

Probe = Callable[[Host], Facts | Unavailable]

PROBES: tuple[tuple[str, Probe], ...] = (
    ("host", host.probe),
    ("cpu", cpu.probe),
    ("clusters", clusters.probe),
    ("caches", caches.probe),
    ("numa", numa.probe),
    ("clock", clock.probe),
    ("limits", limits.probe),
    ("memory", memory.probe),
    ("state", state.probe),  # before the runtimes: asking them keeps cores busy
    ("gpu", gpu.probe),
    ("npu", npu.probe),
    ("runtimes", runtimes.probe),
)
