"""Facts in the form that a deployment profile holds them."""

from edgeopt.backends.base import TensorInfo
from edgeopt.bundle.deployment import Tensor
from edgeopt.hw.device import Device


def tensor_of(info: TensorInfo) -> Tensor:
    """An input or an output; what is not known of its shape is a question mark."""
    return Tensor(info.name, info.dtype, ["?" if dim is None else dim for dim in info.shape])


def four_digits(value: float) -> float:
    """More would pretend a precision that no clock here has. `evidence.json` keeps all."""
    return float(f"{value:.4g}")


def machine_of(device: Device) -> dict[str, str]:
    """The parts of a device's fingerprint in words; without those that it has nothing of."""
    host, cpu, limits = device.host, device.cpu, device.limits
    cores = f"{cpu.physical_cores or '?'} cores, {cpu.logical_cores} threads"
    parts = {
        "host": ", ".join(filter(None, (host.board, f"{host.os} {host.architecture}", host.virtual_machine))),
        "cpu": f"{cpu.model or cpu.vendor or 'unknown'}, {cores}, {cpu.simd_level}",
        "limits": f"{limits.usable_cores} usable cores{_memory_limit(limits.cgroup_memory_bytes)}",
        "memory": _gib(device.memory.total_bytes),
        "accelerators": ", ".join(each.name for each in device.accelerators),
        "drivers": ", ".join(f"{each.name}: {each.driver}" for each in device.accelerators if each.driver),
    }
    return {name: words for name, words in parts.items() if words}


def _memory_limit(size_bytes: int | None) -> str:
    return f", at most {_gib(size_bytes)} of memory" if size_bytes is not None else ""


def _gib(size_bytes: int) -> str:
    return f"{size_bytes / 2**30:.3g} GiB"
