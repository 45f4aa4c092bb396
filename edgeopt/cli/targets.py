"""`edgeopt targets`: every target, and whether it fits; one in full; and profiles of one's own."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgeopt.cli import program
from edgeopt.cli.console import JsonFlag, execute
from edgeopt.cli.targets_show import (
    Shown,
    TargetList,
    Use,
    Validated,
    Written,
    show_list,
    show_target,
    show_validated,
    show_written,
)
from edgeopt.errors import UsageError

if TYPE_CHECKING:
    from edgeopt.hw.device import Device

DeviceOption = Annotated[
    Path | None,
    typer.Option(
        "--device", metavar="FILE.json", help="For the device of a record that `edgeopt probe --json` printed."
    ),
]
RootOption = Annotated[
    Path | None,
    typer.Option("--root", metavar="DIR", help="For the machine of a recording, or of an unpacked tree."),
]


def _targets(
    context: typer.Context, device: DeviceOption = None, root: RootOption = None, json: JsonFlag = False
) -> None:
    """Lists every target: the one chosen for this device, those that fit, and why the others do not.

    \b
    A target is a class of devices with one way to optimize for it: a TOML file in profiles/.
    The table also names the profiles for a use, which extend whatever target fits.

    \b
    Examples:
      edgeopt targets
      edgeopt targets --json | jq -r .data.chosen
      edgeopt targets --device device.json             plan for a device that is not here
      edgeopt targets show cpu-avx2                    each value, where it comes from, and why
      edgeopt targets new my-camera --from realtime    a profile of your own
      edgeopt targets validate my-camera.toml
    """
    if context.invoked_subcommand is None:
        execute("targets", work=lambda _: list_targets(device, root), show=show_list, json=json)
    elif device or root or json:
        name = context.invoked_subcommand
        raise typer.BadParameter(f"Options belong behind the command: edgeopt targets {name} ... --json")


def list_targets(device: Path | None = None, root: Path | None = None) -> TargetList:
    from edgeopt.profiles import shipped_profiles, shipped_uses
    from edgeopt.profiles.targets import choose

    choice = choose(_device(device, root), shipped_profiles())
    uses = tuple(Use(use.name, use.title) for use in shipped_uses())
    return TargetList(choice.target.name, choice.profile.name, choice.verdicts, uses)


def show(
    name: Annotated[str, typer.Argument(help="A profile: its name, or a file.", show_default=False)],
    device: DeviceOption = None,
    root: RootOption = None,
    json: JsonFlag = False,
) -> None:
    """Show one target or profile in full: each value, which file it comes from, and why it is so.

    \b
    Examples:
      edgeopt targets show cpu-avx512-vnni
      edgeopt targets show realtime                 with the target that fits this device filled in
      edgeopt targets show my-camera.toml --json
    """
    execute("targets-show", work=lambda _: look_up(name, device, root), show=show_target, json=json)


def look_up(name: str, device: Path | None = None, root: Path | None = None) -> Shown:
    from edgeopt.profiles.explain import explained
    from edgeopt.profiles.targets import Fits, find, fit, lacking_backend

    machine = _device(device, root)
    resolved = find(name, machine)
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


def validate(
    file: Annotated[Path, typer.Argument(help="A profile (TOML).", show_default=False)],
    device: DeviceOption = None,
    root: RootOption = None,
    json: JsonFlag = False,
) -> None:
    """Check a profile of your own: one sentence names what is wrong, and what would be right.

    \b
    Exit code 0: it is valid, and it is said whether it fits this device; 3: it is not.

    \b
    Examples:
      edgeopt targets validate my-camera.toml
      edgeopt targets validate my-camera.toml --device device.json --json
    """
    execute("targets-validate", work=lambda _: check(file, device, root), show=show_validated, json=json)


def check(file: Path, device: Path | None = None, root: Path | None = None) -> Validated:
    from edgeopt.profiles import resolve
    from edgeopt.profiles.targets import Fits, find, fit, lacking_backend, planned_names

    # First by itself: a shipped profile of the same name must not stand in for a file that is not there.
    resolve(file)
    machine = _device(device, root)
    resolved = find(file, machine)
    answer = fit(machine, resolved.profile)
    return Validated(
        path=str(file),
        name=resolved.profile.name,
        extends=resolved.names[1:],
        fits=isinstance(answer, Fits),
        reason=answer.reason,
        lacking_backend=lacking_backend(resolved.profile),
        left_out=planned_names(resolved.profile),
    )


def new(
    name: Annotated[str, typer.Argument(help="What it is to be called.", show_default=False)],
    base: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="BASE",
            help="What it extends: a profile by name or file, or auto; else the target that fits this device.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Where to write it; by default NAME.toml, here.")
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Write a profile of your own: all values of another one, commented out, each with its reason.

    \b
    Examples:
      edgeopt targets new my-camera
      edgeopt targets new my-camera --from realtime -o profiles/my-camera.toml
      edgeopt targets new my-fleet --from auto        whatever target fits, on each device
    """
    execute("targets-new", work=lambda _: begin(name, base, out), show=show_written, json=json)


def begin(name: str, base: str | None = None, out: Path | None = None) -> Written:
    from edgeopt.hw.probe import probe
    from edgeopt.profiles import AUTO, shipped_profiles
    from edgeopt.profiles.explain import check_new, draft, explained
    from edgeopt.profiles.targets import choose, find

    machine = probe()
    chosen = choose(machine, shipped_profiles()).profile.name
    resolved = find(chosen if base in {None, AUTO} else str(base), machine)
    extends = AUTO if base == AUTO else resolved.names[0]
    path = out or Path(f"{name}.toml")
    check_new(name, resolved.files[0], path)
    title = f"{name}, after {extends}"
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(draft(name, extends, explained(resolved), title))
    except FileExistsError as error:
        raise UsageError(f"'{path}' is there already.", "Take another name, or another file with -o.") from error
    return Written(str(path), name, extends)


def _device(stored: Path | None, root: Path | None) -> "Device":
    if stored is not None and root is not None:
        raise UsageError("--device and --root exclude each other.", "Give one of them.")
    from edgeopt.hw.probe import probe

    if stored is not None:
        from edgeopt.hw.stored import read_device

        return read_device(stored)
    if root is not None:
        from edgeopt.hw.recording import open_recording

        return probe(open_recording(root))
    return probe()


# In the order of work, which is the order in `--help`.
COMMANDS: tuple[Callable[..., None], ...] = (show, validate, new)

targets = program.application(_targets)
for command in COMMANDS:
    program.add(targets, command.__name__, command)
