"""What is not as it was when a bundle was proved: the device, its drivers and runtimes, the source model."""

import shlex

import msgspec

from edgeopt.bundle.deployment import Deployment
from edgeopt.bundle.facts import machine_of
from edgeopt.hw.device import Device, fingerprint

SOURCE = "source model"
_RUNTIMES = "runtimes"
_UNSAID = "not said"


class Changed(msgspec.Struct, frozen=True):
    """One part, in words; the digests of the device's fingerprint decide, the words only tell."""

    part: str
    then: str
    now: str


def changes_since(deployment: Deployment, device: Device) -> tuple[Changed, ...]:
    """The parts of the device's fingerprint that are not what they were, in its order."""
    here, words = fingerprint(device), machine_of(device)
    return tuple(
        _runtimes(deployment, device)
        if part == _RUNTIMES
        else Changed(part, *_told(deployment.machine.get(part, ""), words.get(part, ""), bool(deployment.machine)))
        for part, digest in deployment.device.items()
        if here.get(part) != digest
    )


def how_to_refresh(changes: tuple[Changed, ...], bundle: str, model: str = "") -> str:
    """A sentence for people; empty where nothing changed. `model`: the source, where it is known."""
    if not changes:
        return ""
    bundle, model = shlex.quote(bundle), shlex.quote(model) if model else "MODEL"
    if any(each.part == SOURCE for each in changes):
        return f"Search again with the changed model: edgeopt optimize {model} -o {bundle}"
    return (
        f"Prove it again on this device: edgeopt replay {bundle} {model} -o NEW --measure, or search "
        f"again: edgeopt optimize {model} -o NEW"
    )


def _told(then: str, now: str, recorded: bool) -> tuple[str, str]:
    """`recorded`: whether the bundle has words at all; then none for a part means that there was nothing of it."""
    then, now = then or ("none" if recorded else _UNSAID), now or "none"
    return (then, now) if then != now else (then, f"{now}, but not in every detail")


def _runtimes(deployment: Deployment, device: Device) -> Changed:
    """Those that came, went or changed their version."""
    then, now = deployment.runtimes, {each.name: each.version for each in device.runtimes}
    names = [name for name in {**then, **now} if then.get(name) != now.get(name)]
    if not names:
        return Changed(_RUNTIMES, "the same versions", "with other providers or devices")
    return Changed(
        _RUNTIMES,
        ", ".join(f"{name} {then.get(name, 'absent')}" for name in names),
        ", ".join(f"{name} {now.get(name, 'absent')}" for name in names),
    )
