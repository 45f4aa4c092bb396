"""The record of a device: what the probe found, with the source of each fact."""

import hashlib
from typing import Literal

import msgspec

SCHEMA = 1


class HostFacts(msgspec.Struct, frozen=True):
    os: str
    kernel: str
    architecture: str
    python: str


class Cpu(msgspec.Struct, frozen=True):
    vendor: str | None
    model: str | None
    simd_level: str
    """The name of the highest level that is complete: `avx512-vnni`, `arm-dotprod`, `baseline`, ..."""
    simd: tuple[str, ...]
    """Every instruction set found, by edgeopt's names (`avx2`, `avx512f`, `avx512-vnni`, `asimddp`, ...)."""
    physical_cores: int | None
    logical_cores: int


class Limits(msgspec.Struct, frozen=True):
    """What the operating system or a container allows this process."""

    affinity_cores: int
    cgroup_cores: float | None
    cgroup_memory_bytes: int | None
    usable_cores: int
    """How many threads may really run at once; at least 1."""


class Memory(msgspec.Struct, frozen=True):
    total_bytes: int
    available_bytes: int
    usable_bytes: int
    """The smaller of what is available and what the container still allows."""


class Runtime(msgspec.Struct, frozen=True):
    name: str
    version: str
    providers: tuple[str, ...] = ()


class Accelerator(msgspec.Struct, frozen=True):
    kind: Literal["gpu", "npu"]
    name: str
    memory_total_bytes: int | None = None
    driver: str | None = None


class Device(msgspec.Struct, frozen=True):
    host: HostFacts
    cpu: Cpu
    limits: Limits
    memory: Memory
    accelerators: tuple[Accelerator, ...] = ()
    runtimes: tuple[Runtime, ...] = ()
    unavailable: dict[str, str] = {}
    """What is not here, each with its reason: `{"gpu": "no NVIDIA driver: ..."}`."""
    sources: dict[str, str] = {}
    """Where each fact comes from: `{"cpu.model": "/proc/cpuinfo: model name"}`."""
    schema: int = SCHEMA


class Unavailable(msgspec.Struct, frozen=True):
    """Absence as a value: never an exception, never an invented zero."""

    reason: str
    extra: str | None = None
    """The edgeopt extra that would bring it, where one does."""


def fingerprint(device: Device) -> dict[str, str]:
    """A digest for each named part, so that "stale" can say what changed.

    Only what decides how a model runs goes in; what changes from minute to minute (free memory) does not.
    """
    parts: dict[str, object] = {
        "host": (device.host.os, device.host.architecture),
        "cpu": device.cpu,
        "limits": device.limits,
        "memory": device.memory.total_bytes,
        "accelerators": device.accelerators,
        "runtimes": device.runtimes,
    }
    return {
        name: hashlib.sha256(msgspec.json.encode(part, order="sorted")).hexdigest() for name, part in parts.items()
    }
