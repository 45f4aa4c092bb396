"""What `edgeopt graph` is asked."""

from pathlib import Path
from typing import Annotated, Literal

import msgspec

from edgeopt.errors import UsageError
from edgeopt.options import argument, option

Format = Literal["html", "svg"]
_ENDINGS: dict[str, Format] = {".html": "html", ".htm": "html", ".svg": "svg"}


class GraphRequest(msgspec.Struct, frozen=True):
    subject: Annotated[Path, argument("The model or bundle to draw.", metavar="MODEL|BUNDLE")]
    out: Annotated[Path, option("The file to write: .html or .svg.", "-o", "--out", metavar="FILE")]
    against: Annotated[
        Path | None,
        option("Second model or bundle: colours show what changed.", metavar="OTHER"),
    ] = None
    profile_ops: Annotated[bool, option("Measure the time of every node and colour by it.")] = False
    backends: Annotated[
        tuple[str, ...], option("Measure on this backend only (repeatable).", "--backend", metavar="NAME")
    ] = ()
    data: Annotated[Path | None, option("Samples to measure with.", metavar="D")] = None
    shape: Annotated[
        tuple[str, ...], option("The shape of an input (repeatable).", metavar="NAME=1x3x224x224")
    ] = ()


def format_of(request: GraphRequest) -> Format:
    """By the ending of the file; UsageError where that is neither."""
    found = _ENDINGS.get(request.out.suffix.lower())
    if found is None:
        raise UsageError(
            f"A graph is written as .html or .svg, not as '{request.out.name}'.", "Change the ending."
        )
    if found == "svg" and request.against is not None:
        raise UsageError("An SVG shows one model.", "Write .html to see both.")
    if request.backends and not request.profile_ops:
        raise UsageError("--backend says where to measure.", "Add --profile-ops.")
    return found
