"""What `edgeopt replay` is asked, and `edgeopt profile`, a command each."""

from pathlib import Path
from typing import Annotated

import msgspec

from edgeopt.options import argument, option

Given = Annotated[Path, argument("A bundle, or an exported profile.", metavar="PROFILE|BUNDLE")]


class ReplayRequest(msgspec.Struct, frozen=True):
    profile: Annotated[
        Path, argument("An exported profile, a deployment.toml, or a bundle.", metavar="PROFILE|BUNDLE")
    ]
    model: Annotated[Path, argument("The source model that it was made from.")]
    out: Annotated[Path, option("Where the bundle goes.", "-o", "--out", metavar="BUNDLE")]
    data: Annotated[Path | None, option("Samples for the golden ones of a lone profile, and for --measure.")] = (
        None
    )
    measure: Annotated[bool, option("Prove it anew on this device: speed and accuracy.")] = False
    single_file: Annotated[bool, option("Write the bundle as one file.")] = False


class ExportRequest(msgspec.Struct, frozen=True):
    bundle: Given
    out: Annotated[Path, option("The file.", "-o", "--out", metavar="TOML")]


class ImportRequest(msgspec.Struct, frozen=True):
    profile: Given
    model: Annotated[Path | None, argument("The source model, to see whether it is the right one.")] = None


class DiffRequest(msgspec.Struct, frozen=True):
    first: Annotated[Path, argument("A bundle or a profile.", metavar="A")]
    second: Annotated[Path, argument("Another one.", metavar="B")]
