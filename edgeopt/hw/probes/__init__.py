"""The probes: one file a capability, each `probe(host) -> Facts | Unavailable`; absence is a value."""

from collections.abc import Callable

from edgeopt.hw.device import Unavailable
from edgeopt.hw.facts import Facts
from edgeopt.hw.host import Host
from edgeopt.hw.probes import cpu, gpu, host, limits, memory, npu, runtimes

Probe = Callable[[Host], Facts | Unavailable]

PROBES: tuple[tuple[str, Probe], ...] = (
    ("host", host.probe),
    ("cpu", cpu.probe),
    ("limits", limits.probe),
    ("memory", memory.probe),
    ("gpu", gpu.probe),
    ("npu", npu.probe),
    ("runtimes", runtimes.probe),
)
