"""What `edgeopt replay` is asked, and `edgeopt profile`, a command each."""

from pathlib import Path
from typing import Annotated

import msgspec

from edgeopt.options import argument, option

Given = Annotated[Path, argument("Bundle, or exported profile.", metavar="PROFILE|BUNDLE")]


class ReplayRequest(msgspec.Struct, frozen=True):
    profile: Annotated[Path, argument("Exported profile, deployment.toml, or bundle.", metavar="PROFILE|BUNDLE")]
    model: Annotated[Path, argument("Source model of the bundle.")]
    out: Annotated[Path, option("Bundle to write.", "-o", "--out", metavar="BUNDLE")]
    data: Annotated[
        Path | None,
        option("Samples for --measure, and for the golden samples if an exported profile is replayed."),
    ] = None
    measure: Annotated[bool, option("Prove speed and accuracy again on this device.")] = False
    single_file: Annotated[bool, option("Write the bundle as one file instead of a folder.")] = False


class ExportRequest(msgspec.Struct, frozen=True):
    bundle: Given
    out: Annotated[Path, option("File to write.", "-o", "--out", metavar="TOML")]


class ImportRequest(msgspec.Struct, frozen=True):
    profile: Given
    model: Annotated[Path | None, argument("Source model, to check that it is the right one.")] = None


class DiffRequest(msgspec.Struct, frozen=True):
    first: Annotated[Path, argument("Bundle or profile.", metavar="A")]
    second: Annotated[Path, argument("Bundle or profile to compare with it.", metavar="B")]
