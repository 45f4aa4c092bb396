"""What `edgeopt targets` is asked, a command each."""

from pathlib import Path
from typing import Annotated

import msgspec

from edgeopt.options import argument, option

Stored = Annotated[
    Path | None, option("For the device of a record that `edgeopt probe --json` printed.", metavar="FILE.json")
]
Root = Annotated[Path | None, option("For the machine of a recording, or of an unpacked tree.", metavar="DIR")]


class ListRequest(msgspec.Struct, frozen=True):
    """Where no command of it is named."""

    device: Stored = None
    root: Root = None


class ShowRequest(msgspec.Struct, frozen=True):
    name: Annotated[str, argument("A profile: its name, or a file.")]
    device: Stored = None
    root: Root = None


class ValidateRequest(msgspec.Struct, frozen=True):
    file: Annotated[Path, argument("A profile (TOML).")]
    device: Stored = None
    root: Root = None


class NewRequest(msgspec.Struct, frozen=True):
    name: Annotated[str, argument("What it is to be called.")]
    from_: Annotated[
        str | None,
        option(
            "What it extends: a profile by name or file, or auto; else the target that fits this device.",
            metavar="BASE",
        ),
    ] = None
    out: Annotated[Path | None, option("Where to write it; by default NAME.toml, here.", "-o", "--out")] = None
