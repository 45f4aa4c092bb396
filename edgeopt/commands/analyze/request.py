"""Request of `edgeopt analyze`."""

from pathlib import Path
from typing import Annotated

import msgspec

from edgeopt.bundle.request import PicturesFile
from edgeopt.errors import UsageError
from edgeopt.options import argument, option


class AnalyzeRequest(msgspec.Struct, frozen=True):
    subject: Annotated[Path, argument("Model or bundle to analyze.", metavar="MODEL|BUNDLE")]
    data: Annotated[Path | None, option("Samples; all figures are calculated for their shapes.", metavar="D")] = (
        None
    )
    pre: PicturesFile = None
    shape: Annotated[tuple[str, ...], option("Shape of an input; repeatable.", metavar="NAME=1x3x224x224")] = ()
    backends: Annotated[
        tuple[str, ...],
        option(
            "Show which nodes this backend would run; repeatable (default: all available).",
            "--backend",
            metavar="NAME",
        ),
    ] = ()
    threads: Annotated[
        int | None, option("Number of cores that a run may use.", metavar="N", minimum=1, maximum=1024)
    ] = None
    profile_ops: Annotated[bool, option("Measure the time of each node on each backend.")] = False
    no_run: Annotated[bool, option("Never run the model, even if shapes stay unknown.")] = False
    quick: Annotated[
        bool, option("Only read the model: try no passes, ask and run no runtime, except for --profile-ops.")
    ] = False


def check(request: AnalyzeRequest) -> None:
    """Raises UsageError for what cannot be asked together."""
    if request.profile_ops and request.no_run:
        raise UsageError("--profile-ops runs the model, and --no-run forbids it.", "Give one of them.")
    if request.quick and request.backends and not request.profile_ops:
        raise UsageError("--quick asks no runtime; --backend does.", "Leave one of them out.")
