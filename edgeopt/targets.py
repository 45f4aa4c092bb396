"""Which target fits a device, and why the others do not."""

from collections.abc import Sequence

import msgspec

from edgeopt.errors import MissingError
from edgeopt.hw.device import Device
from edgeopt.profiles import TargetProfile, Value


class Fits(msgspec.Struct, frozen=True):
    reason: str


class DoesNotFit(msgspec.Struct, frozen=True):
    reason: str


class Verdict(msgspec.Struct, frozen=True):
    """What became of one target."""

    name: str
    title: str
    fits: bool
    chosen: bool
    reason: str


class Choice(msgspec.Struct, frozen=True):
    profile: TargetProfile
    verdicts: tuple[Verdict, ...]
    """Every target: the chosen one first, then those that fit, then the others."""


def fit(device: Device, profile: TargetProfile) -> Fits | DoesNotFit:
    wanted = profile.match
    if wanted.architectures and device.host.architecture not in wanted.architectures:
        return DoesNotFit(
            f"it is for {' or '.join(wanted.architectures)}, and this device is {device.host.architecture}"
        )
    missing = [name for name in wanted.simd if name not in device.cpu.simd]
    if missing:
        return DoesNotFit(f"the CPU lacks {', '.join(missing)}")
    if not wanted.architectures and not wanted.simd:
        return Fits("fits every device")
    return Fits(f"{device.host.architecture} with {', '.join(wanted.simd) or 'any instruction set'}")


def choose(device: Device, profiles: Sequence[TargetProfile]) -> Choice:
    """The target of the highest rank that fits; MissingError where none does."""
    answers = [(profile, fit(device, profile)) for profile in profiles]
    fitting = [profile for profile, answer in answers if isinstance(answer, Fits)]
    if not fitting:
        reasons = "; ".join(f"{profile.name}: {answer.reason}" for profile, answer in answers)
        raise MissingError("No target profile fits this device.", reasons or "No profile was given.")
    best = max(fitting, key=lambda profile: profile.match.rank)
    verdicts = [_verdict(profile, answer, best) for profile, answer in answers]
    ranks = {profile.name: profile.match.rank for profile in profiles}
    verdicts.sort(key=lambda v: (not v.chosen, not v.fits, -ranks[v.name], v.name))
    return Choice(best, tuple(verdicts))


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


def _verdict(profile: TargetProfile, answer: Fits | DoesNotFit, best: TargetProfile) -> Verdict:
    fits, chosen = isinstance(answer, Fits), profile is best
    reason = answer.reason if chosen or not fits else f"fits, but {best.name} is more exact"
    return Verdict(profile.name, profile.title, fits, chosen, reason)
