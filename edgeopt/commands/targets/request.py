"""What `edgeopt targets` is asked, a command each."""

from pathlib import Path
from typing import Annotated

import msgspec

from edgeopt.options import argument, option

Stored = Annotated[
    Path | None, option("Record of another device, written by `edgeopt probe --json`.", metavar="FILE.json")
]
Root = Annotated[
    Path | None, option("Recording of another machine, or its unpacked tree of /proc and /sys.", metavar="DIR")
]


class ListRequest(msgspec.Struct, frozen=True):
    """Where no command of it is named."""

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
