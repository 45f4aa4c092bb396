"""Whether one target fits a device; where not, the reason says precisely what it lacks."""

import msgspec

from edgeopt.hw.device import Accelerator, Device, Runtime
from edgeopt.profiles.schema import RUNTIME_NEEDS, AcceleratorNeed, Match, TargetProfile


class Fits(msgspec.Struct, frozen=True):
    reason: str


class DoesNotFit(msgspec.Struct, frozen=True):
    reason: str
    other_system: bool = False
    """The target is for another operating system or architecture."""


def fit(device: Device, profile: TargetProfile) -> Fits | DoesNotFit:
    """The first thing that is missing, or what makes it fit."""
    wanted = profile.match
    elsewhere = _other_system(device, wanted)
    if elsewhere:
        return DoesNotFit(elsewhere, other_system=True)
    lacking = _cpu_lacks(device, wanted)
    if lacking:
        return DoesNotFit(lacking)
    accelerator = _accelerator(device, wanted.accelerator) if wanted.accelerator else None
    if isinstance(accelerator, str):
        return DoesNotFit(accelerator)
    for need in wanted.runtimes:
        missing = _runtime_lacks(device, need)
        if missing:
            return DoesNotFit(missing)
    # Last, as it often is what follows from a runtime that is not there.
    if accelerator and accelerator.note:
        return DoesNotFit(f"{accelerator.name}: {accelerator.note.rstrip('.')}")
    if accelerator:
        runtimes = " and ".join(RUNTIME_NEEDS[need].said for need in wanted.runtimes)
        return Fits(accelerator.name + (f" with {runtimes}" if runtimes else ""))
    if wanted == Match((), (), wanted.rank):
        return Fits("fits every device")
    simd = f"{device.host.architecture} with {', '.join(wanted.simd) or 'any instruction set'}"
    return Fits(", ".join([simd, *(RUNTIME_NEEDS[need].said for need in wanted.runtimes)]))


def _other_system(device: Device, wanted: Match) -> str | None:
    if wanted.os and device.host.os.lower() not in {name.lower() for name in wanted.os}:
        return f"it is for {' or '.join(map(_system, wanted.os))}, and this device runs {_system(device.host.os)}"
    if wanted.architectures and device.host.architecture not in wanted.architectures:
        return f"it is for {' or '.join(wanted.architectures)}, and this device is {device.host.architecture}"
    return None


def _cpu_lacks(device: Device, wanted: Match) -> str | None:
    missing = [name for name in wanted.simd if name not in device.cpu.simd]
    return f"the CPU lacks {', '.join(missing)}" if missing else None


def _accelerator(device: Device, need: AcceleratorNeed) -> Accelerator | str:
    """The one that will do, if possible without anything in its way; or why none does."""
    kind, said = need.kind, need.kind.upper()
    found = [one for one in device.accelerators if one.kind == kind]
    if not found:
        known = device.unavailable.get(kind)
        return f"this device has no {said}{f': {known}' if known else ''}"
    made = [one for one in found if not need.vendors or _made_by(one, need.vendors)]
    if not made:
        return f"it has no {said} by {' or '.join(need.vendors)}, only {', '.join(one.name for one in found)}"
    driven = [one for one in made if not need.api or need.api in one.apis]
    if not driven:
        return f"{made[0].name} cannot be driven by {need.api} here"
    return next((one for one in driven if not one.note), driven[0])


def _made_by(accelerator: Accelerator, vendors: tuple[str, ...]) -> bool:
    text = (accelerator.vendor or accelerator.name).lower()
    return any(vendor.lower() in text for vendor in vendors)


def _runtime_lacks(device: Device, need: str) -> str | None:
    said, hint = RUNTIME_NEEDS[need]
    family, _, part = need.partition(":")
    if need.endswith("ExecutionProvider"):
        family, part = "onnxruntime", need
    # A distribution may come in flavours: onnxruntime-gpu, tensorrt-cu12.
    installed = [r for r in device.runtimes if r.name == family or r.name.startswith(f"{family}-")]
    if installed and (not part or any(part in _offers(runtime) for runtime in installed)):
        return None
    unasked = next((device.unavailable.get(f"{runtime.name}.providers") for runtime in installed), None)
    if unasked:
        return f"whether {said} is there is not known: {unasked}"
    return f"{said} is not {'there' if installed and family == 'openvino' else 'installed'}: {hint}"


def _offers(runtime: Runtime) -> set[str]:
    """`CUDAExecutionProvider`; `CPU`, and `GPU` for `GPU.0` as well."""
    # OpenVINO's devices stand among the providers as `CPU: full name`.
    names = (*runtime.devices, *(provider.partition(":")[0] for provider in runtime.providers))
    return {part for name in names for part in (name, name.partition(".")[0])}


def _system(name: str) -> str:
    return "macOS" if name == "Darwin" else name
