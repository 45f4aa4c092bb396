"""Choice of the target for a device, with reasons, and of the profile that a search follows."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from edgeopt.errors import MissingError, ProfileError, UsageError
from edgeopt.hw.device import Accelerator, Device, Runtime
from edgeopt.nearest import nearest
from edgeopt.profiles import (
    PLANNED_BACKENDS,
    Resolved,
    TargetProfile,
    Value,
    resolve,
    shipped_path,
    shipped_profiles,
    shipped_uses,
)
from edgeopt.profiles.schema import RUNTIME_NEEDS, AcceleratorNeed, Match


class Fits(msgspec.Struct, frozen=True):
    reason: str


class DoesNotFit(msgspec.Struct, frozen=True):
    reason: str
    other_system: bool = False
    """The target is for another operating system or architecture."""


def fit(device: Device, profile: TargetProfile) -> Fits | DoesNotFit:
    """The first thing that is missing, or what makes it fit."""
    match = profile.match
    elsewhere = _other_system(device, match)
    if elsewhere:
        return DoesNotFit(elsewhere, other_system=True)
    lacking = _cpu_lacks(device, match)
    if lacking:
        return DoesNotFit(lacking)
    accelerator = _accelerator(device, match.accelerator) if match.accelerator else None
    if isinstance(accelerator, str):
        return DoesNotFit(accelerator)
    for need in match.runtimes:
        missing = _runtime_lacks(device, need)
        if missing:
            return DoesNotFit(missing)
    # Last, as it often is what follows from a runtime that is not there.
    if accelerator and accelerator.note:
        return DoesNotFit(f"{accelerator.name}: {accelerator.note.rstrip('.')}")
    if accelerator:
        runtimes = " and ".join(RUNTIME_NEEDS[need].name for need in match.runtimes)
        return Fits(accelerator.name + (f" with {runtimes}" if runtimes else ""))
    if match == Match((), (), match.rank):
        return Fits("fits every device")
    simd = f"{device.host.architecture} with {', '.join(match.simd) or 'any instruction set'}"
    return Fits(", ".join([simd, *(RUNTIME_NEEDS[need].name for need in match.runtimes)]))


def _other_system(device: Device, match: Match) -> str | None:
    if match.os and device.host.os.lower() not in {name.lower() for name in match.os}:
        return f"it is for {' or '.join(map(_system, match.os))}, and this device runs {_system(device.host.os)}"
    if match.architectures and device.host.architecture not in match.architectures:
        return f"it is for {' or '.join(match.architectures)}, and this device is {device.host.architecture}"
    return None


def _cpu_lacks(device: Device, match: Match) -> str | None:
    missing = [name for name in match.simd if name not in device.cpu.simd]
    return f"the CPU lacks {', '.join(missing)}" if missing else None


def _accelerator(device: Device, need: AcceleratorNeed) -> Accelerator | str:
    """The one that will do, if possible without anything in its way; or why none does."""
    kind, kind_name = need.kind, need.kind.upper()
    found = [one for one in device.accelerators if one.kind == kind]
    if not found:
        known = device.unavailable.get(kind)
        return f"this device has no {kind_name}{f': {known}' if known else ''}"
    made = [one for one in found if not need.vendors or _made_by(one, need.vendors)]
    if not made:
        return f"it has no {kind_name} by {' or '.join(need.vendors)}, only {', '.join(one.name for one in found)}"
    driven = [one for one in made if not need.api or need.api in one.apis]
    if not driven:
        return f"{made[0].name} cannot be driven by {need.api} here"
    return next((one for one in driven if not one.note), driven[0])


def _made_by(accelerator: Accelerator, vendors: tuple[str, ...]) -> bool:
    text = (accelerator.vendor or accelerator.name).lower()
    return any(vendor.lower() in text for vendor in vendors)


def _runtime_lacks(device: Device, need: str) -> str | None:
    name, hint = RUNTIME_NEEDS[need]
    family, _, part = need.partition(":")
    if need.endswith("ExecutionProvider"):
        family, part = "onnxruntime", need
    # A distribution may come in flavours: onnxruntime-gpu, tensorrt-cu12.
    installed = [r for r in device.runtimes if r.name == family or r.name.startswith(f"{family}-")]
    if installed and (not part or any(part in _offers(runtime) for runtime in installed)):
        return None
    unasked = next((device.unavailable.get(f"{runtime.name}.providers") for runtime in installed), None)
    if unasked:
        return f"whether {name} is there is not known: {unasked}"
    return f"{name} is not {'there' if installed and family == 'openvino' else 'installed'}: {hint}"


def _offers(runtime: Runtime) -> set[str]:
    """`CUDAExecutionProvider`; `CPU`, and `GPU` for `GPU.0` as well."""
    # OpenVINO's devices stand among the providers as `CPU: full name`.
    names = (*runtime.devices, *(provider.partition(":")[0] for provider in runtime.providers))
    return {part for name in names for part in (name, name.partition(".")[0])}


def _system(name: str) -> str:
    return "macOS" if name == "Darwin" else name


__all__ = [
    "DoesNotFit",
    "Fits",
    "TargetChoice",
    "TargetVerdict",
    "choose",
    "find",
    "fit",
    "lacking_backend",
    "planned_names",
    "profile_for",
    "runtime_space",
    "settled_options",
    "without_planned",
]


class TargetVerdict(msgspec.Struct, frozen=True):
    """Verdict on one target for the device."""

    name: str
    title: str
    fits: bool
    chosen: bool
    """Whether the target is the most exact one that fits the device."""
    reason: str
    usable: bool = True
    """Whether this version of edgeopt has the backend of the target."""
    used: bool = False
    """Whether a search follows the target: the chosen one, or the next if this version cannot use that."""
    other_system: bool = False
    """Whether the target is for another operating system or architecture."""


class TargetChoice(msgspec.Struct, frozen=True):
    target: TargetProfile
    """The most exact one that fits the device."""
    profile: TargetProfile
    """Profile that a search follows: `target`, or the best that this version of edgeopt has a backend for."""
    verdicts: tuple[TargetVerdict, ...]
    """Every target: the chosen one first, then the used one, then those that fit, then the others."""


def lacking_backend(profile: TargetProfile) -> str | None:
    """The backend that a profile is about, the first of its order, where this version does not have it."""
    first = profile.backends.order[0]
    return first if first in PLANNED_BACKENDS else None


def choose(device: Device, profiles: Sequence[TargetProfile]) -> TargetChoice:
    """The target of the highest rank that fits, and the one that can be used; MissingError where none does."""
    answers = [(profile, fit(device, profile)) for profile in profiles]
    fitting = [profile for profile, answer in answers if isinstance(answer, Fits)]
    usable = [profile for profile in fitting if lacking_backend(profile) is None]
    if not usable:
        reasons = "; ".join(f"{profile.name}: {answer.reason}" for profile, answer in answers)
        raise MissingError("No target profile fits this device.", reasons or "No profile was given.")
    target, used = (max(group, key=lambda profile: profile.match.rank) for group in (fitting, usable))
    verdicts = [_verdict(profile, answer, target, used) for profile, answer in answers]
    ranks = {profile.name: profile.match.rank for profile in profiles}
    verdicts.sort(key=lambda v: (not v.chosen, not v.used, not v.fits, -ranks[v.name], v.name))
    return TargetChoice(target, used, tuple(verdicts))


def find(named: str | Path, device: Device | None = None, target: str | None = None) -> Resolved:
    """The profile in this file, or the shipped one of this name.

    What extends `auto` is filled in with `target`, else with what is chosen for the device.
    """
    path = Path(named)
    file = path if path.is_file() else shipped_path(str(named)) or path
    if not file.is_file() and path.name == str(named) and not path.suffix:
        names = tuple(profile.name for profile in (*shipped_profiles(), *shipped_uses()))
        raise ProfileError(
            f"There is no profile '{named}', neither as a file nor shipped.", nearest(path.name, names)
        )
    resolved = resolve(file)
    if resolved.automatic and target is not None:
        return resolve(file, _target(target).name)
    if resolved.automatic and device is not None:
        return resolve(file, choose(device, shipped_profiles()).profile.name)
    return resolved


def profile_for(device: Device, target: str | None = None, named: str | Path | None = None) -> TargetProfile:
    """The profile that a search on this device follows: the one named, the target named, or the one that fits.

    MissingError where this version of edgeopt lacks the backend that the profile is about.
    """
    if named is not None:
        resolved = find(named, device, target)
        if target is not None and not resolved.automatic:
            raise UsageError(
                f"The profile '{named}' names its own target, so --target cannot be used with it.",
                'Leave --target out, or write extends = "auto" in the profile.',
            )
        profile = resolved.profile
    elif target is not None:
        profile = _target(target)
    else:
        profile = choose(device, shipped_profiles()).profile
    lacking = lacking_backend(profile)
    if lacking is not None:
        raise MissingError(
            f"{profile.name} needs the backend {lacking}, which is not supported yet.",
            f"Use the target {choose(device, shipped_profiles()).profile.name}, the default of a search here.",
        )
    return profile


def planned_names(profile: TargetProfile) -> tuple[str, ...]:
    """The backends in it that this version knows by name only."""
    return tuple(name for name in profile.backends.order if name in PLANNED_BACKENDS)


def without_planned(profile: TargetProfile) -> TargetProfile:
    """The profile without those."""
    order = tuple(name for name in profile.backends.order if name not in PLANNED_BACKENDS)
    return msgspec.structs.replace(profile, backends=msgspec.structs.replace(profile.backends, order=order))


def runtime_space(profile: TargetProfile, device: Device) -> dict[str, dict[str, tuple[Value, ...]]]:
    """Backend, option, values to try on this device: usable cores filled in, what its CPU lacks left out."""
    return {
        backend: {
            option: tuple(
                dict.fromkeys(
                    device.limits.usable_cores if option == "threads" and value == 0 else value
                    for value in values
                    if set(profile.needs.get(str(value), ())) <= set(device.cpu.simd)
                )
            )
            for option, values in options.items()
        }
        for backend, options in profile.runtime.items()
    }


def settled_options(profile: TargetProfile, device: Device) -> dict[str, dict[str, Value]]:
    """Backend, option, value, where the profile names a single one: nothing to try, so every candidate has it.

    Not so for all usable cores, which is what the runtimes take by themselves.
    """
    space = runtime_space(profile, device)
    return {
        backend: {
            option: space[backend][option][0]
            for option, values in options.items()
            if len(values) == 1 and space[backend][option] and not (option == "threads" and values[0] == 0)
        }
        for backend, options in profile.runtime.items()
    }


def _target(name: str) -> TargetProfile:
    shipped = shipped_profiles()
    for profile in shipped:
        if profile.name == name:
            return profile
    if any(use.name == name for use in shipped_uses()):
        raise UsageError(f"'{name}' is a profile for a use case, not a target.", f"Pass it as --profile {name}")
    raise UsageError(f"There is no target '{name}'.", nearest(name, tuple(profile.name for profile in shipped)))


def _verdict(
    profile: TargetProfile, answer: Fits | DoesNotFit, target: TargetProfile, used: TargetProfile
) -> TargetVerdict:
    fits, lacking = isinstance(answer, Fits), lacking_backend(profile)
    reason = answer.reason
    if fits and lacking:
        reason = f"{reason}; its backend is not supported yet ({lacking}), so {used.name} is used"
    elif fits and profile is used and used is not target:
        reason = f"{reason}; used instead of {target.name}"
    elif fits and profile is not target:
        reason = f"fits, but {used.name} is more specific"
    return TargetVerdict(
        profile.name,
        profile.title,
        fits,
        profile is target,
        reason,
        lacking is None,
        profile is used,
        isinstance(answer, DoesNotFit) and answer.other_system,
    )
