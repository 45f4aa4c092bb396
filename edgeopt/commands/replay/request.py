"""What `edgeopt profile` is asked, a command each."""

from pathlib import Path
from typing import Annotated

import msgspec

from edgeopt.options import argument, option

Given = Annotated[Path, argument("A bundle, or an exported profile.", metavar="PROFILE|BUNDLE")]


class ExportRequest(msgspec.Struct, frozen=True):
    bundle: Given
    out: Annotated[Path, option("The file.", "-o", "--out", metavar="TOML")]


class ImportRequest(msgspec.Struct, frozen=True):
    profile: Given
    model: Annotated[Path | None, argument("The source model, to see whether it is the right one.")] = None


class DiffRequest(msgspec.Struct, frozen=True):
    first: Annotated[Path, argument("A bundle or a profile.", metavar="A")]
    second: Annotated[Path, argument("Another one.", metavar="B")]
