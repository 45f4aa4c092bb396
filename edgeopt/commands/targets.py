"""`edgeopt targets` and its commands: every target and whether it fits, one in full, and profiles of one's own."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec

from edgeopt.errors import UsageError
from edgeopt.options import argument, option

if TYPE_CHECKING:
    from edgeopt.hw.device import Device
    from edgeopt.profiles import explain
    from edgeopt.profiles.targets import TargetVerdict

Stored = Annotated[
    Path | None, option("Record of another device, written by `edgeopt probe --json`.", metavar="FILE.json")
]
Root = Annotated[
    Path | None, option("Recording of another machine, or its unpacked tree of /proc and /sys.", metavar="DIR")
]


class ListRequest(msgspec.Struct, frozen=True):
    device: Stored = None
    root: Root = None


class ShowRequest(msgspec.Struct, frozen=True):
    name: Annotated[str, argument("Profile to show, by name or file.")]
    device: Stored = None
    root: Root = None


class ValidateRequest(msgspec.Struct, frozen=True):
    file: Annotated[Path, argument("Profile to check (TOML).")]
    device: Stored = None
    root: Root = None


class NewRequest(msgspec.Struct, frozen=True):
    name: Annotated[str, argument("Name of the new profile.")]
    from_: Annotated[
        str | None,
        option(
            "Profile to extend, by name or file, or auto (default: the best fit for this device).",
            metavar="BASE",
        ),
    ] = None
    out: Annotated[
        Path | None, option("File to write (default: NAME.toml in the current folder).", "-o", "--out")
    ] = None


class Use(msgspec.Struct, frozen=True):
    """Profile for a use, which extends whatever target fits."""

    name: str
    title: str


class TargetList(msgspec.Struct, frozen=True):
    chosen: str
    """The most exact target that fits the device."""
    used: str
    """Target that a search uses: the chosen one, or the best for which this version has a backend."""
    targets: tuple["TargetVerdict", ...]
    uses: tuple[Use, ...] = ()


class Shown(msgspec.Struct, frozen=True):
    name: str
    title: str
    path: str
    extends: tuple[str, ...]
    """Names of the profiles that this one extends, directly or through others."""
    automatic: bool
    """Whether one of the extended profiles was chosen as the target that fits the device."""
    fits: bool
    reason: str
    lacking_backend: str | None
    """Backend that the profile is for, if this version of edgeopt lacks it."""
    values: tuple["explain.ProfileRow", ...]


class Validated(msgspec.Struct, frozen=True):
    path: str
    name: str
    extends: tuple[str, ...]
    fits: bool
    reason: str
    lacking_backend: str | None
    left_out: tuple[str, ...]
    """Backends and variants that this version of edgeopt knows by name only."""


class WrittenProfile(msgspec.Struct, frozen=True):
    path: str
    name: str
    extends: str


Where = ListRequest | ShowRequest | ValidateRequest


def list_targets(request: ListRequest) -> TargetList:
    from edgeopt.profiles import shipped_profiles, shipped_uses
    from edgeopt.profiles.targets import choose

    choice = choose(_device(request), shipped_profiles())
    uses = tuple(Use(use.name, use.title) for use in shipped_uses())
    return TargetList(choice.target.name, choice.profile.name, choice.verdicts, uses)


def look_up(request: ShowRequest) -> Shown:
    from edgeopt.profiles.explain import explained
    from edgeopt.profiles.targets import Fits, find, fit, lacking_backend

    machine = _device(request)
    resolved = find(request.name, machine)
    profile, answer = resolved.profile, fit(machine, resolved.profile)
    return Shown(
        name=profile.name,
        title=profile.title,
        path=str(resolved.files[0]),
        extends=resolved.names[1:],
        automatic=resolved.automatic,
        fits=isinstance(answer, Fits),
        reason=answer.reason,
        lacking_backend=lacking_backend(profile),
        values=explained(resolved),
    )


def check(request: ValidateRequest) -> Validated:
    from edgeopt.profiles import resolve
    from edgeopt.profiles.targets import Fits, find, fit, lacking_backend, planned_names

    # Resolved first: a shipped profile of the same name must not replace a missing file.
    resolve(request.file)
    machine = _device(request)
    resolved = find(request.file, machine)
    answer = fit(machine, resolved.profile)
    return Validated(
        path=str(request.file),
        name=resolved.profile.name,
        extends=resolved.names[1:],
        fits=isinstance(answer, Fits),
        reason=answer.reason,
        lacking_backend=lacking_backend(resolved.profile),
        left_out=planned_names(resolved.profile),
    )


def begin(request: NewRequest) -> WrittenProfile:
    from edgeopt.hw.probe import probe
    from edgeopt.measure.files import writing
    from edgeopt.profiles import AUTO, shipped_profiles
    from edgeopt.profiles.explain import check_new, draft, explained
    from edgeopt.profiles.targets import choose, find

    name, base = request.name, request.from_
    machine = probe()
    chosen = choose(machine, shipped_profiles()).profile.name
    resolved = find(chosen if base in {None, AUTO} else str(base), machine)
    extends = AUTO if base == AUTO else resolved.names[0]
    path = request.out or Path(f"{name}.toml")
    check_new(name, resolved.files[0], path)
    title = f"{name}, after {extends}"
    text = draft(name, extends, explained(resolved), title)
    if os.path.lexists(path):
        raise UsageError(f"'{path}' already exists.", "Choose another name, or another file with -o.")
    with writing(path) as file:
        file.write(text.encode())
    return WrittenProfile(str(path), name, extends)


def _device(request: Where) -> "Device":
    from edgeopt.hw.probe import probe

    if request.device is not None and request.root is not None:
        raise UsageError("--device and --root exclude each other.", "Give one of them.")
    if request.device is not None:
        from edgeopt.hw.recording import read_device

        return read_device(request.device)
    if request.root is not None:
        from edgeopt.hw.recording import open_recording

        return probe(open_recording(request.root))
    return probe()
