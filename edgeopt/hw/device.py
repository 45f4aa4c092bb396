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
    distribution: str | None = None
    """`Debian GNU/Linux 12 (bookworm)`, `macOS 15.1`."""
    libc: str | None = None
    """`glibc 2.36`, `musl`; some runtimes have wheels for one of them only."""
    board: str | None = None
    """`Raspberry Pi 5 Model B Rev 1.0`: of the device tree or the firmware; never a serial number."""
    virtual_machine: str | None = None
    """The hypervisor (`kvm`), where this is a guest."""
    container: str | None = None
    """`docker`, `podman`, `lxc`, ... where this runs inside one."""


class Cpu(msgspec.Struct, frozen=True):
    vendor: str | None
    model: str | None
    simd_level: str
    """The name of the highest level that is complete: `avx512-vnni`, `arm-dotprod`, `baseline`, ..."""
    simd: tuple[str, ...]
    """Every instruction set found, by edgeopt's names (`avx2`, `avx512f`, `avx512-vnni`, `asimddp`, ...)."""
    physical_cores: int | None
    logical_cores: int
    microarchitecture: str | None = None
    """`Zen 4`, `Sapphire Rapids`, `Cortex-A76`; several joined by ` + ` where the cores are unlike."""
    sockets: int | None = None
    threads_per_core: int | None = None
    vector_bits: int | None = None
    """The widest vectors: 512 with AVX-512, the length of SVE or RVV where it is told."""


class Cluster(msgspec.Struct, frozen=True):
    """Cores of one kind: P- and E-cores, big and LITTLE; a CPU with equal cores has one cluster."""

    name: str
    """`performance`, `efficiency`, `prime`, or `all` where there is one kind."""
    cpus: str
    """As the kernel lists them: `0-3,8`."""
    cores: int
    threads: int
    model: str | None = None
    capacity: int | None = None
    """Relative speed as the kernel knows it, 1024 being the fastest."""
    clock_max_hz: int | None = None


class Cache(msgspec.Struct, frozen=True):
    level: int
    kind: Literal["data", "instruction", "unified"]
    size_bytes: int
    """Of one of them."""
    instances: int
    shared_by: int
    """Logical cores that share one."""


class NumaNode(msgspec.Struct, frozen=True):
    number: int
    cpus: str
    memory_bytes: int | None = None
    distances: tuple[int, ...] = ()


class Clock(msgspec.Struct, frozen=True):
    """What the clock may be set to; what it is just now stands in `State`."""

    min_hz: int | None = None
    max_hz: int | None = None
    base_hz: int | None = None
    governor: str | None = None
    driver: str | None = None
    turbo: bool | None = None


class Limits(msgspec.Struct, frozen=True):
    """What the operating system or a container allows this process."""

    affinity_cores: int
    cgroup_cores: float | None
    cgroup_memory_bytes: int | None
    usable_cores: int
    """How many threads may really run at once; at least 1."""
    affinity: str | None = None
    """The logical cores that this process may run on: `0-1`."""
    cgroup_version: int | None = None


class Memory(msgspec.Struct, frozen=True):
    total_bytes: int
    available_bytes: int
    usable_bytes: int
    """The smaller of what is available and what the container still allows."""
    swap_total_bytes: int | None = None
    swap_free_bytes: int | None = None
    huge_page_bytes: int | None = None
    huge_pages_total: int | None = None
    huge_pages_free: int | None = None
    transparent_huge_pages: str | None = None
    """`always`, `madvise` or `never`."""


class Runtime(msgspec.Struct, frozen=True):
    name: str
    version: str
    providers: tuple[str, ...] = ()
    devices: dict[str, str] = {}
    """The devices that it sees, with their full names: `{"CPU": "AMD EPYC ...", "NPU": "Intel AI Boost"}`."""
    capabilities: dict[str, tuple[str, ...]] = {}
    """By device, where the runtime tells: `{"CPU": ("FP32", "INT8", "BF16")}`."""


class Accelerator(msgspec.Struct, frozen=True):
    kind: Literal["gpu", "npu"]
    name: str
    memory_total_bytes: int | None = None
    driver: str | None = None
    vendor: str | None = None
    index: int = 0
    memory_free_bytes: int | None = None
    memory_shared: bool | None = None
    """It has no memory of its own and uses the host's."""
    compute_capability: str | None = None
    cuda_version: str | None = None
    """The newest CUDA that the driver can run."""
    clock_max_hz: int | None = None
    power_limit_w: float | None = None
    numa_node: int | None = None
    links: tuple[str, ...] = ()
    """`NVLink to GPU 1`, `P2P to GPU 1`."""
    apis: tuple[str, ...] = ()
    """What it can be driven by: `cuda`, `tensorrt`, `openvino`, `directml`, `coreml`, `qnn`, `hailo`, ..."""
    runtime: str | None = None
    """The runtime that would drive it, by the name of its distribution."""
    runtime_installed: bool | None = None
    note: str = ""
    """What stands in the way of using it, as a sentence; empty where nothing does."""
    temperature_c: float | None = None
    utilization_percent: float | None = None
    clock_hz: int | None = None
    power_w: float | None = None


class State(msgspec.Struct, frozen=True):
    """What changes from minute to minute: is this device in a state worth measuring?"""

    worth_measuring: bool
    reasons: tuple[str, ...] = ()
    """Why it is not, or what to know; each a sentence."""
    load_1m: float | None = None
    steal_percent: float | None = None
    """Time that the hypervisor took away, since the boot or the last sample."""
    clock_hz: int | None = None
    temperatures_c: dict[str, float] = {}
    throttled: tuple[str, ...] = ()
    power_source: str | None = None
    """`mains`, `battery`."""
    battery_percent: float | None = None
    power_w: float | None = None
    busy: tuple[str, ...] = ()
    """Other processes that take much of a core: `python3 97 %`."""


class Device(msgspec.Struct, frozen=True):
    host: HostFacts
    cpu: Cpu
    limits: Limits
    memory: Memory
    accelerators: tuple[Accelerator, ...] = ()
    runtimes: tuple[Runtime, ...] = ()
    clusters: tuple[Cluster, ...] = ()
    caches: tuple[Cache, ...] = ()
    numa: tuple[NumaNode, ...] = ()
    clock: Clock | None = None
    state: State | None = None
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
        "host": (device.host.os, device.host.architecture, device.host.board),
        "cpu": (device.cpu, device.clusters, device.caches),
        "limits": device.limits,
        "memory": device.memory.total_bytes,
        "accelerators": [_lasting(accelerator) for accelerator in device.accelerators],
        "drivers": [(accelerator.name, accelerator.driver) for accelerator in device.accelerators],
        "runtimes": [(runtime.name, runtime.version, runtime.providers) for runtime in device.runtimes],
    }
    return {
        name: hashlib.sha256(msgspec.json.encode(part, order="sorted")).hexdigest() for name, part in parts.items()
    }


def _lasting(accelerator: Accelerator) -> Accelerator:
    """Without its driver, which is a part of its own, and without what changes from minute to minute."""
    return msgspec.structs.replace(
        accelerator,
        driver=None,
        cuda_version=None,
        memory_free_bytes=None,
        temperature_c=None,
        utilization_percent=None,
        clock_hz=None,
        power_w=None,
        runtime_installed=None,
        note="",
    )
