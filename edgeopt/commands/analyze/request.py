"""What `edgeopt analyze` is asked."""

from pathlib import Path
from typing import Annotated

import msgspec

from edgeopt.errors import UsageError
from edgeopt.options import argument, option


class AnalyzeRequest(msgspec.Struct, frozen=True):
    subject: Annotated[Path, argument("What to look at.", metavar="MODEL|BUNDLE")]
    data: Annotated[Path | None, option("Samples: the figures are for their shapes.", metavar="D")] = None
    shape: Annotated[
        tuple[str, ...], option("The shape of an input (repeatable).", metavar="NAME=1x3x224x224")
    ] = ()
    backends: Annotated[
        tuple[str, ...],
        option("Ask only this one what it would run (repeatable).", "--backend", metavar="NAME"),
    ] = ()
    threads: Annotated[int | None, option("The cores that a run may use.", metavar="N", least=1, most=1024)] = None
    profile_ops: Annotated[bool, option("Measure the time of every node, on each backend asked.")] = False
    no_run: Annotated[bool, option("Never run the model, even where shapes stay unknown.")] = False
    quick: Annotated[bool, option("Only read the model: try no pass, ask no runtime, run nothing.")] = False


def check(request: AnalyzeRequest) -> None:
    """Raises UsageError for what cannot be asked together."""
    if request.profile_ops and request.no_run:
        raise UsageError("--profile-ops runs the model, and --no-run forbids it.", "Give one of them.")
    if request.quick and (request.profile_ops or request.backends):
        raise UsageError("--quick asks no runtime; --backend and --profile-ops do.", "Leave one of them out.")
