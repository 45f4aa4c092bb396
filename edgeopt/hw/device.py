"""The record of a device: what the probe found, with the source of each fact."""

from dataclasses import dataclass, field
from typing import Annotated, Literal

import msgspec

from edgeopt.hw.kernel_text import cpu_list
from edgeopt.notebook import NotebookRecord

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
    """The widest vectors: 512 with AVX-512, the length of SVE or RVV if it is reported."""


class Cluster(msgspec.Struct, frozen=True):
    """Cores of one kind: P- and E-cores, big and LITTLE; a CPU with equal cores has one cluster."""

    name: str
    """`performance`, `efficiency`, `prime`, or `all` where there is one kind."""
    cpus: str
    """The CPUs as the kernel lists them: `0-3,8`."""
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
    """Size of one instance."""
    instances: int
    shared_by: int
    """Logical cores that share one."""


class NumaNode(msgspec.Struct, frozen=True):
    number: int
    cpus: str
    memory_bytes: int | None = None
    distances: tuple[int, ...] = ()


class Clock(msgspec.Struct, frozen=True):
    """The range of the clock; its present value is in `State`."""

    min_hz: int | None = None
    max_hz: int | None = None
    base_hz: int | None = None
    governor: str | None = None
    driver: str | None = None
    turbo: bool | None = None


class DeviceLimits(msgspec.Struct, frozen=True):
    """Limits that the operating system or a container sets for this process."""

    affinity_cores: int
    cgroup_cores: float | None
    cgroup_memory_bytes: int | None
    usable_cores: int
    """Number of threads that can really run at once; at least 1."""
    affinity: str | None = None
    """The logical cores that this process may run on: `0-1`."""
    cgroup_version: int | None = None


class SystemMemory(msgspec.Struct, frozen=True):
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
    """Capabilities by device, if the runtime reports them: `{"CPU": ("FP32", "INT8", "BF16")}`."""


class Accelerator(msgspec.Struct, frozen=True):
    kind: Literal["gpu", "npu"]
    name: str
    memory_total_bytes: int | None = None
    driver: str | None = None
    vendor: str | None = None
    index: int = 0
    memory_free_bytes: int | None = None
    memory_shared: bool | None = None
    """Whether the accelerator uses the host's memory and has none of its own."""
    compute_capability: str | None = None
    cuda_version: str | None = None
    """The newest CUDA that the driver can run."""
    clock_max_hz: int | None = None
    power_limit_w: float | None = None
    numa_node: int | None = None
    links: tuple[str, ...] = ()
    """`NVLink to GPU 1`, `P2P to GPU 1`."""
    apis: tuple[str, ...] = ()
    """APIs that can drive it: `cuda`, `tensorrt`, `openvino`, `directml`, `coreml`, `qnn`, `hailo`, ..."""
    runtime: str | None = None
    """The runtime that would drive it, by the name of its distribution."""
    runtime_installed: bool | None = None
    note: str = ""
    """Reason that the accelerator cannot be used, as a sentence; empty if it can."""
    temperature_c: float | None = None
    utilization_percent: float | None = None
    clock_hz: int | None = None
    power_w: float | None = None


class State(msgspec.Struct, frozen=True):
    """State of the device, which changes from minute to minute, and whether it is worth measuring now."""

    worth_measuring: bool
    reasons: tuple[str, ...] = ()
    """Reasons that the device is not worth measuring, or remarks; each is a sentence."""
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


class Identity(msgspec.Struct, frozen=True):
    """Identity of this machine among similar ones; in the record only on request (`--identify`)."""

    host_name: str | None = None
    machine_id: str | None = None


Rate = Annotated[float, msgspec.Meta(gt=0)]


class ComputePeak(msgspec.Struct, frozen=True):
    """The fastest that an installed runtime computed layers in one precision on this number of cores."""

    runtime: str
    precision: Literal["fp32", "fp16", "bf16", "int8"]
    threads: int
    operations_per_s: Rate
    """A multiplication and an addition are two."""
    layer: str
    """Layer that reached it: `MatMul 384x512`."""
    operators: dict[str, Rate] = {}
    """The same by operator: `{"MatMul": 1.1e11, "Conv 3x3": 1.2e11}`."""


class MemoryPeak(msgspec.Struct, frozen=True):
    """Combined speed of a number of cores when they read and copy memory at one level."""

    level: str
    """`L1`, `L2`, `L3`, or `memory`."""
    threads: int
    working_set_bytes: int
    """Memory of each thread while it copies."""
    read_bytes_per_s: Rate | None = None
    copy_bytes_per_s: Rate | None = None
    """Bytes read and bytes written together."""


class RunOverhead(msgspec.Struct, frozen=True):
    """Cost of one run of a model that computes next to nothing."""

    runtime: str
    overhead_us: Rate


class Peaks(msgspec.Struct, frozen=True):
    """The best that this device was seen to do (`edgeopt probe --deep`): what a model could reach."""

    measured_at: str
    """Time of the measurement in UTC: `2026-05-04T10:00:00+00:00`."""
    took_s: float
    compute: tuple[ComputePeak, ...] = ()
    memory: tuple[MemoryPeak, ...] = ()
    overheads: tuple[RunOverhead, ...] = ()
    disturbed_by: tuple[str, ...] = ()
    """Reasons that the device was not worth measuring at that time."""


class Device(NotebookRecord, msgspec.Struct, frozen=True):
    host: HostFacts
    cpu: Cpu
    limits: DeviceLimits
    memory: SystemMemory
    accelerators: tuple[Accelerator, ...] = ()
    runtimes: tuple[Runtime, ...] = ()
    clusters: tuple[Cluster, ...] = ()
    caches: tuple[Cache, ...] = ()
    numa: tuple[NumaNode, ...] = ()
    clock: Clock | None = None
    state: State | None = None
    identity: Identity | None = None
    peaks: Peaks | None = None
    unavailable: dict[str, str] = {}
    """Absent facts and parts, each with its reason: `{"gpu": "no NVIDIA driver: ..."}`."""
    sources: dict[str, str] = {}
    """Source of each fact: `{"cpu.model": "/proc/cpuinfo: model name"}`."""
    schema: int = SCHEMA


class Unavailable(msgspec.Struct, frozen=True):
    """Absence as a value: never an exception, never an invented zero."""

    reason: str
    extra: str | None = None
    """The edgeopt extra that would bring it, where one does."""


TOOLS = frozenset({"onnx", "onnxscript"})
"""Packages that make models and do not run them."""


_DECIDING_PARTS = ("host", "cpu")
_KIND_DIGITS = 12


def differing_parts(proved: dict[str, str], here: dict[str, str]) -> list[str]:
    """The parts of two fingerprints that differ and without which a bundle's proof does not hold."""
    return [part for part in _DECIDING_PARTS if proved.get(part, here[part]) != here[part]]


def fingerprint(device: Device) -> dict[str, str]:
    """A digest for each named part, so that "stale" can say what changed.

    Only what decides how a model runs goes in, value by value (docs/device.md has the list and its reasons): so it
    stays the same across runs and reboots, and a field that a newer edgeopt adds to the record does not change it.
    """
    host, cpu, limits = device.host, device.cpu, device.limits
    parts: dict[str, object] = {
        "host": (host.os, host.architecture, host.board, host.virtual_machine),
        "cpu": (
            (cpu.vendor, cpu.model, cpu.simd, cpu.sockets, cpu.physical_cores, cpu.logical_cores),
            [(cluster.cpus, cluster.cores, cluster.threads, cluster.model) for cluster in device.clusters],
            [(cache.level, cache.kind, cache.size_bytes, cache.instances) for cache in device.caches],
        ),
        "limits": (
            (limits.usable_cores, limits.affinity_cores, limits.cgroup_cores, limits.cgroup_memory_bytes),
            [_allowed(limits, cluster) for cluster in device.clusters],
        ),
        "memory": (_installed_bytes(device.memory.total_bytes), len(device.numa)),
        "accelerators": [
            (each.kind, each.name, each.vendor, each.compute_capability, _own_bytes(each))
            for each in device.accelerators
        ],
        "drivers": [(each.name, each.driver, each.cuda_version) for each in device.accelerators],
        "runtimes": [
            (runtime.name, runtime.version, runtime.providers, sorted(runtime.devices.items()))
            for runtime in device.runtimes
            if runtime.name not in TOOLS
        ],
    }
    import hashlib  # loads a library of ciphers, which most processes do without

    return {
        name: hashlib.sha256(msgspec.json.encode(part, order="sorted")).hexdigest() for name, part in parts.items()
    }


def kind_of(device: Device) -> str:
    """Returns a short name that devices share for which one proof holds: a digest of the whole fingerprint."""
    import hashlib  # as in `fingerprint`

    return hashlib.sha256(msgspec.json.encode(fingerprint(device), order="sorted")).hexdigest()[:_KIND_DIGITS]


def device_for_evidence(device: Device) -> Device:
    """Returns the device as evidence keeps it: without sources, reasons for absent facts, and identity."""
    return msgspec.structs.replace(device, sources={}, unavailable={}, identity=None)


def _allowed(limits: DeviceLimits, cluster: Cluster) -> int:
    """Returns the number of allowed cores; which of equal cores an orchestrator pins is arbitrary."""
    return len(set(cpu_list(limits.affinity)) & set(cpu_list(cluster.cpus)))


def _installed_bytes(total_bytes: int) -> int:
    """Rounded up: what the kernel keeps for itself differs a little from boot to boot."""
    step = 2**30 if total_bytes >= 2**32 else 2**28
    return -(-total_bytes // step) * step


def _own_bytes(accelerator: Accelerator) -> int | None:
    return None if accelerator.memory_shared else accelerator.memory_total_bytes


@dataclass(frozen=True, slots=True)
class Facts:
    """Answer of a probe, with the source of each fact."""

    section: msgspec.Struct | tuple[msgspec.Struct, ...]
    """Value of the probe's field of `Device`."""
    sources: dict[str, str] = field(default_factory=dict)
    unavailable: dict[str, str] = field(default_factory=dict)
    """Absent facts of the section, each with its reason."""
