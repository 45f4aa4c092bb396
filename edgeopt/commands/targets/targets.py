"""`edgeopt targets` and its commands: every target and whether it fits, one in full, and profiles of one's own."""

import os
from pathlib import Path

from edgeopt.commands.targets.records import Shown, TargetList, Use, Validated, Written
from edgeopt.commands.targets.request import ListRequest, NewRequest, ShowRequest, ValidateRequest
from edgeopt.errors import UsageError
from edgeopt.hw.device import Device
from edgeopt.hw.probe import probe
from edgeopt.measure.files import writing
from edgeopt.profiles import AUTO, resolve, shipped_profiles, shipped_uses
from edgeopt.profiles.explain import check_new, draft, explained
from edgeopt.profiles.targets import Fits, choose, find, fit, lacking_backend, planned_names

Where = ListRequest | ShowRequest | ValidateRequest


def list_targets(request: ListRequest) -> TargetList:
    choice = choose(_device(request), shipped_profiles())
    uses = tuple(Use(use.name, use.title) for use in shipped_uses())
    return TargetList(choice.target.name, choice.profile.name, choice.verdicts, uses)


def look_up(request: ShowRequest) -> Shown:
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


def begin(request: NewRequest) -> Written:
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
    return Written(str(path), name, extends)


def _device(request: Where) -> Device:
    if request.device is not None and request.root is not None:
        raise UsageError("--device and --root exclude each other.", "Give one of them.")
    if request.device is not None:
        from edgeopt.hw.recording import read_device

        return read_device(request.device)
    if request.root is not None:
        from edgeopt.hw.recording import open_recording

        return probe(open_recording(request.root))
    return probe()
