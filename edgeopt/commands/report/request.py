"""Request of `edgeopt report`."""

from pathlib import Path
from typing import Annotated, Literal, get_args

import msgspec

from edgeopt.errors import UsageError
from edgeopt.options import argument, option

Format = Literal["html", "markdown", "json"]
FORMATS: tuple[Format, ...] = get_args(Format)
_ENDINGS: dict[str, Format] = {
    ".html": "html", ".htm": "html", ".md": "markdown", ".markdown": "markdown", ".json": "json"
}  # fmt: skip


class ReportRequest(msgspec.Struct, frozen=True):
    bundle: Annotated[Path, argument("Bundle to report on: a folder or a single file.")]
    out: Annotated[Path, option("File to write: .html, .md or .json.", "-o", "--out", "--html", metavar="FILE")]
    to: Annotated[
        str,
        option("Format of the report (default: by the ending of the file).", metavar="html|markdown|json"),
    ] = ""
    model: Annotated[
        Path | None, option("Source model, to compare its cost with that of the result.", metavar="SOURCE")
    ] = None
    nodes: Annotated[
        bool | None,
        option(
            "Measure the time of each node now (default: on a device like the one that proved the bundle).",
            "--nodes/--no-nodes",
        ),
    ] = None


def format_of(request: ReportRequest) -> Format:
    """Returns the format, by the file's ending if not given; raises UsageError for an unknown ending."""
    found = next((each for each in FORMATS if each == request.to), None)
    if request.to and found is None:
        raise UsageError(f"There is no report format '{request.to}'.", f"Give one of: {', '.join(FORMATS)}.")
    found = found or _ENDINGS.get(request.out.suffix.lower())
    if found is None:
        raise UsageError(
            f"The ending of '{request.out.name}' names no report format.",
            f"Name it .html, .md or .json, or add --to {'|'.join(FORMATS)}.",
        )
    return found
