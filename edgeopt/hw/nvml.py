"""Facts about NVIDIA GPUs from NVML; called in a child process: NVML hangs if a GPU has fallen off the bus.

Neither UUIDs nor serial numbers are asked for.
"""

import importlib
from dataclasses import dataclass, field
from typing import Any

# Constants of nvml.h, which never change there; old bindings lack some of them.
_CLOCK_SM = 1
_TEMPERATURE_GPU = 0
_AFFINITY_SCOPE_NODE = 0
_MIG_ENABLED = 1
_COMPUTEMODE_PROHIBITED = 2
_P2P_READ, _P2P_WRITE, _P2P_OK = 0, 1, 0
_NVLINK_TO_SWITCH = 2
_NVLINK_MAX_LINKS = 18
_NUMA_WORDS = 16
"""64 nodes each."""

# The names of pynvml's exceptions, which it makes of NVML's error codes.
_SENTENCES = {
    "NVMLError_LibraryNotFound": "NVML's library (libnvidia-ml.so.1) is not here: start the container with "
    "--gpus all, or install the driver's compute libraries",
    "NVMLError_DriverNotLoaded": "the NVIDIA driver is installed but not loaded (modprobe nvidia; dmesg says why)",
    "NVMLError_NoPermission": "the NVIDIA driver gives this user no access (see ls -l /dev/nvidia*)",
    "NVMLError_LibRmVersionMismatch": "the loaded NVIDIA driver and its library are of different versions: "
    "restart the machine after the driver's update",
    "NVMLError_GpuIsLost": "the GPU has fallen off the bus: restart the machine, then look at its power and slot",
    "NVMLError_ResetRequired": "the GPU must be reset before it can be used (nvidia-smi --gpu-reset)",
    "NVMLError_NotSupported": "this GPU does not report it",
    "NVMLError_FunctionNotFound": "this driver is too old to report it",
}

Answer = dict[str, Any]


def query() -> Answer:
    """`{"driver", "cuda", "gpus": [...], "errors": {...}}`, or `{"error": reason}`; every part may be missing."""
    try:
        module = importlib.import_module("pynvml")
    except ImportError as error:
        return {"error": f"pynvml cannot be imported ({error})", "no_binding": True}
    nvml = _Asker(module)
    nvml("start", "nvmlInit")
    if nvml.errors:
        return {"error": nvml.errors["start"]}
    answer: Answer = {
        "driver": _text(nvml("driver", "nvmlSystemGetDriverVersion")),
        "cuda": nvml("cuda", "nvmlSystemGetCudaDriverVersion_v2"),
        "gpus": _gpus(nvml),
        "errors": nvml.errors,
    }
    _Asker(module)("end", "nvmlShutdown")
    return answer


def sentence(error: Exception) -> str:
    """Returns the reason that a call failed, for the user."""
    known = _SENTENCES.get(type(error).__name__)
    if known:
        return known
    if isinstance(error, AttributeError):
        return f"the installed nvidia-ml-py is too old ({error})"
    return f"NVML failed: {str(error) or type(error).__name__}"


def normal_slot(slot: str | None) -> str | None:
    """Returns a PCI slot as the kernel writes it: NVML has eight digits for the domain and capitals."""
    if not slot or slot.count(":") != 2:
        return None
    domain, _, rest = slot.lower().partition(":")
    return f"{domain[-4:].rjust(4, '0')}:{rest}"


@dataclass(frozen=True, slots=True)
class _Asker:
    """Calls pynvml, and keeps why what failed: one refusal must not hide the other facts."""

    module: Any
    errors: dict[str, str] = field(default_factory=dict)

    def __call__(self, name: str, function: str, *arguments: object) -> Any:  # noqa: ANN401 - pynvml has no types
        try:
            return getattr(self.module, function)(*arguments)
        except Exception as error:  # noqa: BLE001 - a foreign library: whatever it raises becomes the reason
            self.errors[name] = sentence(error)
            return None


def _gpus(nvml: _Asker) -> list[Answer]:
    count = nvml("count", "nvmlDeviceGetCount")
    numbers = range(count if isinstance(count, int) else 0)
    handles = [nvml(f"gpu {number}", "nvmlDeviceGetHandleByIndex", number) for number in numbers]
    slots = [_slot(_Asker(nvml.module)("pci", "nvmlDeviceGetPciInfo", handle)) for handle in handles]
    found: list[Answer] = []
    for number, handle in enumerate(handles):
        if handle is None:
            found.append(
                {"index": number, "error": nvml.errors.pop(f"gpu {number}", "NVML returned no handle for it")}
            )
            continue
        facts = _gpu(_Asker(nvml.module), handle)
        links = [*_nvlinks(_Asker(nvml.module), handle, slots), *_peers(_Asker(nvml.module), handles, number)]
        found.append(facts | {"index": number, "slot": slots[number], "links": links})
    return found


def _gpu(ask: _Asker, handle: object) -> Answer:
    memory = ask("memory", "nvmlDeviceGetMemoryInfo", handle)
    load = ask("utilization", "nvmlDeviceGetUtilizationRates", handle)
    capability = ask("compute_capability", "nvmlDeviceGetCudaComputeCapability", handle)
    mode = _Asker(ask.module)
    mig = mode("mig", "nvmlDeviceGetMigMode", handle)
    return {
        "name": _text(ask("name", "nvmlDeviceGetName", handle)),
        "compute_capability": ".".join(map(str, capability)) if capability else None,
        "memory_total_bytes": getattr(memory, "total", None),
        "memory_free_bytes": getattr(memory, "free", None),
        "clock_max_mhz": ask("clock_max", "nvmlDeviceGetMaxClockInfo", handle, _CLOCK_SM),
        "clock_mhz": ask("clock", "nvmlDeviceGetClockInfo", handle, _CLOCK_SM),
        # The enforced limit is the smallest of the user's, the board's and the cooling's.
        "power_limit_mw": ask("power_limit", "nvmlDeviceGetEnforcedPowerLimit", handle),
        "power_mw": ask("power", "nvmlDeviceGetPowerUsage", handle),
        "temperature_c": ask("temperature", "nvmlDeviceGetTemperature", handle, _TEMPERATURE_GPU),
        "utilization_percent": getattr(load, "gpu", None),
        "numa_node": _numa_node(ask, handle),
        "mig": bool(mig) and mig[0] == _MIG_ENABLED,
        "prohibited": mode("mode", "nvmlDeviceGetComputeMode", handle) == _COMPUTEMODE_PROHIBITED,
        "errors": ask.errors,
    }


def _numa_node(ask: _Asker, handle: object) -> int | None:
    """The nearest node, of the set of nodes that NVML gives as bits."""
    words = ask("numa_node", "nvmlDeviceGetMemoryAffinity", handle, _NUMA_WORDS, _AFFINITY_SCOPE_NODE)
    nodes = (64 * i + bit for i, word in enumerate(words or ()) for bit in range(64) if int(word) >> bit & 1)
    return next(nodes, None)


def _nvlinks(ask: _Asker, handle: object, slots: list[str | None]) -> list[str]:
    """`NVLink to GPU 1 (4 links)`; NVML refuses the question where there is no such link."""
    ends: list[str] = []
    for link in range(_NVLINK_MAX_LINKS):
        active = ask("state", "nvmlDeviceGetNvLinkState", handle, link)
        if "state" in ask.errors:
            break
        if not active:
            continue
        slot = _slot(ask("remote", "nvmlDeviceGetNvLinkRemotePciInfo", handle, link))
        kind = ask("kind", "nvmlDeviceGetNvLinkRemoteDeviceType", handle, link)
        if slot and slot in slots:
            ends.append(f"GPU {slots.index(slot)}")
        else:
            ends.append("an NVSwitch" if kind == _NVLINK_TO_SWITCH else "another device")
    counts = {end: ends.count(end) for end in sorted(set(ends))}
    return [f"NVLink to {end} ({count} link{'s' if count > 1 else ''})" for end, count in counts.items()]


def _peers(ask: _Asker, handles: list[object], number: int) -> list[str]:
    """The other GPUs whose memory this one can read and write."""
    return [
        f"P2P to GPU {other}"
        for other, handle in enumerate(handles)
        if other != number
        and handle is not None
        and all(
            ask("p2p", "nvmlDeviceGetP2PStatus", handles[number], handle, way) == _P2P_OK
            for way in (_P2P_READ, _P2P_WRITE)
        )
    ]


def _slot(info: object) -> str | None:
    return normal_slot(_text(getattr(info, "busId", None)))


def _text(value: object) -> str | None:
    """Older bindings give bytes."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value if isinstance(value, str) else None
