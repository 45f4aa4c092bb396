"""What a probe hands back: one section of the device record, with the source of each fact."""

from dataclasses import dataclass, field

from edgeopt.hw.device import (
    Accelerator,
    Cache,
    Clock,
    Cluster,
    Cpu,
    HostFacts,
    Limits,
    Memory,
    NumaNode,
    Runtime,
    State,
)

Section = (
    HostFacts
    | Cpu
    | Limits
    | Memory
    | Clock
    | State
    | tuple[Accelerator, ...]
    | tuple[Runtime, ...]
    | tuple[Cluster, ...]
    | tuple[Cache, ...]
    | tuple[NumaNode, ...]
)


@dataclass(frozen=True, slots=True)
class Facts:
    section: Section
    sources: dict[str, str] = field(default_factory=dict)
    unavailable: dict[str, str] = field(default_factory=dict)
    """What the section would hold if it were here, each with its reason."""
