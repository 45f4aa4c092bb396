"""What an export format is, and what it hands back."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from edgeopt.bundle.golden import GoldenAnswer
from edgeopt.bundle.read import Bundle
from edgeopt.errors import ConstraintError


@dataclass(frozen=True, slots=True)
class Order:
    bundle: Bundle
    max_batch_size: int | None = None
    """What a server may put into one run; None: as many as the format thinks fit."""

    @property
    def name(self) -> str:
        return self.bundle.deployment.name

    @property
    def file_name(self) -> str:
        """The name as used in paths and files: a bundle may come from anybody."""
        return re.sub(r"[^A-Za-z0-9_.-]+", "_", self.name).strip("._-")[:64] or "model"

    @property
    def backend(self) -> str:
        return self.bundle.deployment.run.backend


@dataclass(slots=True)
class Made:
    """What became of a bundle in a format; the files lie in the folder that was given."""

    use: list[str] = field(default_factory=list)
    """Command lines, or lines of code, that use it."""
    notes: list[str] = field(default_factory=list)
    """Sentences: what the form does not carry, what to know of it."""
    answer: GoldenAnswer | None = None
    """What the exported form itself answered to the golden samples."""
    not_checked: str = ""
    """Why there is no answer, as a sentence."""


@dataclass(frozen=True, slots=True)
class Format:
    name: str
    title: str
    """One line, for lists."""
    write: Callable[[Order, Path], Made]
    """Writes into an empty folder; raises ConstraintError where the form cannot hold this bundle."""
    batches: bool = False
    """Whether `Order.max_batch_size` means something to it."""


def refuse(order: Order, form: str, reason: str, hint: str) -> ConstraintError:
    return ConstraintError(f"The bundle '{order.name}' cannot be exported as {form}: {reason}.", hint)
