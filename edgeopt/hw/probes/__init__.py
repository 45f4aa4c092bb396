"""Probes, which read one part of the device record each: `probe(host) -> Facts | Unavailable`."""

from collections.abc import Callable

from edgeopt.hw.device import Facts, Unavailable
from edgeopt.hw.host import Host
from edgeopt.hw.probes import caches, clock, clusters, cpu, gpu, host, limits, memory, npu, numa, runtimes, state

Probe = Callable[[Host], Facts | Unavailable]

# Name of each probe: the field of `Device` that it fills. Those in ACCELERATORS share one field.
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
ACCELERATORS = ("gpu", "npu")
