"""The ending of a job, in the user's words."""

from dataclasses import dataclass
from typing import Any, Literal

from edgeopt import events
from edgeopt.errors import ConstraintError, OptionReference, VerificationError, signal_name

How = Literal["done", "failed", "cancelled", "crashed"]
_ANSWERED = frozenset({0, VerificationError.exit_code, ConstraintError.exit_code})
"""Exit codes that a result can have: the other two say that a check failed or a condition is not met."""


@dataclass(frozen=True, slots=True)
class Ending:
    how: How
    data: dict[str, Any]
    """The result's data; empty unless `how` is "done"."""
    what: str = ""
    """A sentence that says what happened; "" after success."""
    next_step: str = ""
    details: str = ""
    """Text for a bug report: the command line, the exit code, the last lines on stderr."""
    named: tuple[OptionReference, ...] = ()
    """The options that these sentences name."""
    code: str = ""
    """Machine-readable code of the error; "" if there is none."""

    @property
    def good(self) -> bool:
        return self.how == "done"


def ending_of(
    last: events.Result | events.Error | None, *, cancelled: bool, exit_code: int, crashed: bool, details: str
) -> Ending:
    """`exit_code` is a signal's number where the process `crashed`, as Qt tells it."""
    if isinstance(last, events.Result) and exit_code in _ANSWERED and not crashed:
        return Ending("done", last.data, details=details)
    if cancelled:
        return Ending("cancelled", {}, "Cancelled; nothing was changed.", details=details)
    if crashed:
        return Ending(
            "crashed",
            {},
            f"The job was killed from outside or crashed ({signal_name(exit_code)}).",
            "Start it again; if it happens twice, the device may be short of memory.",
            details,
        )
    if isinstance(last, events.Error):
        return Ending("failed", {}, last.message, last.hint, details, last.named, last.code)
    return Ending(
        "crashed",
        {},
        f"The job ended with exit code {exit_code} without a reason.",
        "Start it again, and look at the details if it happens twice.",
        details,
    )
