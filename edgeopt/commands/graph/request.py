"""Request of `edgeopt graph`."""

from pathlib import Path
from typing import Annotated, Literal

import msgspec

from edgeopt.bundle.request import PicturesFile
from edgeopt.errors import UsageError
from edgeopt.options import argument, option

Format = Literal["html", "svg", "json"]
_ENDINGS: dict[str, Format] = {".html": "html", ".htm": "html", ".svg": "svg", ".json": "json"}


class GraphRequest(msgspec.Struct, frozen=True):
    subject: Annotated[Path, argument("Model or bundle to draw.", metavar="MODEL|BUNDLE")]
    out: Annotated[Path, option("File to write: .html, .svg or .json.", "-o", "--out", "--html", metavar="FILE")]
    against: Annotated[
        Path | None,
        option("Second model or bundle; colours show the differences.", metavar="OTHER"),
    ] = None
    passes: Annotated[bool, option("Also show the graph after each exact rewrite.")] = False
    profile_ops: Annotated[bool, option("Measure the time of each node and colour by it.")] = False
    backends: Annotated[
        tuple[str, ...],
        option("Backend to measure on; repeatable (default: all available).", "--backend", metavar="NAME"),
    ] = ()
    data: Annotated[Path | None, option("Samples to measure with.", metavar="D")] = None
    pre: PicturesFile = None
    shape: Annotated[tuple[str, ...], option("Shape of an input; repeatable.", metavar="NAME=1x3x224x224")] = ()


def format_of(request: GraphRequest) -> Format:
    """Returns the format by the ending of the file; raises UsageError for other endings or conflicting options."""
    found = _ENDINGS.get(request.out.suffix.lower())
    if found is None:
        raise UsageError(
            f"A graph is written as .html, .svg or .json, not as '{request.out.name}'.", "Change the ending."
        )
    if found == "svg" and (request.against is not None or request.passes):
        raise UsageError("An SVG shows one graph.", "Write .html to see several.")
    if request.passes and request.against is not None:
        raise UsageError("--passes and --against both add graphs.", "Give one of them.")
    if request.backends and not request.profile_ops:
        raise UsageError("--backend says where to measure.", "Add --profile-ops.")
    return found
