"""Runs the probes and puts what they found into one device record."""

import re
from typing import Any

import msgspec

from edgeopt.hw.device import (
    Accelerator,
    Cpu,
    Device,
    DeviceLimits,
    HostFacts,
    Identity,
    Runtime,
    SystemMemory,
    Unavailable,
)
from edgeopt.hw.host import Host, LocalHost
from edgeopt.hw.probe_cache import load_peaks, with_peaks
from edgeopt.hw.probes import ACCELERATORS, PROBES
from edgeopt.hw.provider_wheels import PROVIDER_WHEELS
from edgeopt.hw.recording import RecordingHost


def probe(host: Host | None = None) -> Device:
    """The device; never raises: unknown facts are in `unavailable` with the reason."""
    # Each thing is asked once, so that all probes see one and the same machine.
    machine = host if isinstance(host, RecordingHost) else RecordingHost(LocalHost() if host is None else host)
    sources: dict[str, str] = {}
    unavailable: dict[str, str] = {}
    # Facts without which there is no record, where their probes find nothing.
    parts: dict[str, Any] = {
        "host": HostFacts(os="unknown", kernel="unknown", architecture="unknown", python="unknown"),
        "cpu": Cpu(None, None, simd_level="baseline", simd=(), physical_cores=None, logical_cores=1),
        "limits": DeviceLimits(affinity_cores=1, cgroup_cores=None, cgroup_memory_bytes=None, usable_cores=1),
        "memory": SystemMemory(total_bytes=0, available_bytes=0, usable_bytes=0),
        "accelerators": (),
    }
    for name, run in PROBES:
        answer = run(machine)
        if isinstance(answer, Unavailable):
            unavailable[name] = answer.reason
            continue
        sources |= answer.sources
        unavailable |= answer.unavailable
        if name in ACCELERATORS:
            parts["accelerators"] += answer.section
        else:
            parts[name] = answer.section
    device = Device(**parts, unavailable=unavailable, sources=sources)
    agreed = agree(device)
    return with_peaks(agreed, load_peaks(machine.cache_folder, agreed))


_UNNAMED = re.compile(r"Intel GPU 0x[0-9a-f]+|Intel GPU|Intel NPU")
_KINDS = (
    ("gpu", "GPU", "Intel's compute runtime (its OpenCL driver, intel-opencl-icd)"),
    ("npu", "NPU", "Intel's user-space driver for the NPU (linux-npu-driver)"),
)

# What a distribution of ONNX Runtime must bring to drive an accelerator.
_PROVIDERS = {
    "onnxruntime-gpu": "CUDAExecutionProvider",
    "onnxruntime-directml": "DmlExecutionProvider",
    "onnxruntime-migraphx": "MIGraphXExecutionProvider",
    "onnxruntime-rocm": "ROCMExecutionProvider",
    "onnxruntime-openvino": "OpenVINOExecutionProvider",
    **{wheel.distribution: wheel.provider for wheel in PROVIDER_WHEELS},
}


def agree(device: Device) -> Device:
    """The device with names that only OpenVINO knows, with NPUs that only it sees, and with what does not fit."""
    found = list(device.accelerators)
    sources, unavailable = dict(device.sources), dict(device.unavailable)
    for runtime in device.runtimes:
        if runtime.name == "openvino" and runtime.devices:
            source = sources.get("runtimes.openvino.devices", "OpenVINO's devices")
            found = _with_openvino(found, runtime, sources, unavailable, source)
    checked = tuple(_with_provider(each, device.runtimes) for each in found)
    return msgspec.structs.replace(device, accelerators=checked, sources=sources, unavailable=unavailable)


def _with_openvino(
    found: list[Accelerator], openvino: Runtime, sources: dict[str, str], unavailable: dict[str, str], source: str
) -> list[Accelerator]:
    result = list(found)
    for kind, prefix, driver in _KINDS:
        names = [
            full for name, full in openvino.devices.items() if name == prefix or name.startswith(f"{prefix}.")
        ]
        mine = [i for i, each in enumerate(found) if each.kind == kind and each.vendor == "Intel"]
        if not names:
            note = f"OpenVINO {openvino.version} does not see it: install {driver}."
            for i in mine:
                # What the user may not open, OpenVINO cannot see either: that one reason is enough.
                result[i] = result[i] if result[i].note else _noted(result[i], note)
        elif len(mine) == len(names) == 1 and _UNNAMED.fullmatch(found[mine[0]].name):
            named = msgspec.structs.replace(result[mine[0]], name=names[0])
            result[mine[0]] = named
            sources[f"accelerators.{kind}.{named.index}.name"] = source
        elif not mine:
            first = sum(each.kind == kind for each in found)
            for index, full in enumerate(names, first):
                result.append(_seen(kind, full, index))
                facts = ("name", "vendor", "apis", "runtime", "runtime_installed")
                sources |= {f"accelerators.{kind}.{index}.{fact}": source for fact in facts}
            sources.setdefault(f"accelerators.{kind}", source)
            unavailable.pop(kind, None)
    return result


def _seen(kind: str, name: str, index: int) -> Accelerator:
    return Accelerator(
        "npu" if kind == "npu" else "gpu",
        name,
        vendor="Intel",
        index=index,
        apis=("openvino",),
        runtime="openvino",
        runtime_installed=True,
    )


def _with_provider(accelerator: Accelerator, runtimes: tuple[Runtime, ...]) -> Accelerator:
    """Distributions of ONNX Runtime overwrite each other's files: the one installed last is the one that runs."""
    provider = _PROVIDERS.get(accelerator.runtime or "")
    if accelerator.runtime == "onnxruntime" and "coreml" in accelerator.apis:
        provider = "CoreMLExecutionProvider"
    for runtime in runtimes:
        if (
            provider
            and runtime.name == accelerator.runtime
            and runtime.providers
            and provider not in runtime.providers
        ):
            again = f"pip install --force-reinstall {runtime.name}"
            return _noted(
                accelerator, f"{runtime.name} is installed, but has no {provider}: {again} brings it back."
            )
    return accelerator


def _noted(accelerator: Accelerator, note: str) -> Accelerator:
    return msgspec.structs.replace(accelerator, note=f"{accelerator.note} {note}".strip())


_FILES = ("/etc/machine-id", "/var/lib/dbus/machine-id")
_APPLE = ("ioreg", "-rd1", "-c", "IOPlatformExpertDevice")
_WINDOWS = ("reg", "query", r"HKLM\SOFTWARE\Microsoft\Cryptography", "/v", "MachineGuid")
_ID = re.compile(r"[0-9a-fA-F]{32}|[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")


def identity(host: Host) -> tuple[Identity, dict[str, str], dict[str, str]]:
    """Returns the identity, the sources of its known facts, and the reasons for the others."""
    name = host.call("platform", "node")
    known_name = name if isinstance(name, str) and name else None
    number, source = _machine_id(host)
    facts = {"host_name": (known_name, "platform.node()"), "machine_id": (number, source)}
    return (
        Identity(known_name, number),
        {f"identity.{fact}": origin for fact, (value, origin) in facts.items() if value},
        {
            f"identity.{fact}": "the operating system does not report it"
            for fact, (value, _) in facts.items()
            if not value
        },
    )


def _machine_id(host: Host) -> tuple[str | None, str]:
    answers = [(host.read(path), path) for path in _FILES]
    system = host.call("platform", "system")
    if system in {"Darwin", "Windows"}:
        command = _APPLE if system == "Darwin" else _WINDOWS
        answers.append((host.run(command), " ".join(command)))
    for text, source in answers:
        if found := _ID.search(text or ""):
            return found[0], source
    return None, ""
