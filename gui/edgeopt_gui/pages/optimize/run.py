"""One search of this session: what was asked, what it told, how it ended."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from edgeopt_gui.jobs.command import Command
from edgeopt_gui.jobs.ending import Ending
from edgeopt_gui.jobs.job import Job
from edgeopt_gui.pages.optimize.board import Board

if TYPE_CHECKING:
    from edgeopt_gui.pages.optimize.result import Result


@dataclass(slots=True)
class Run:
    model: Path
    place: Path
    """Where its bundle comes first."""
    shown: Command
    """The command line that does the same, with a plain name for the bundle."""
    job: Job
    board: Board = field(default_factory=Board)
    result: "Result | None" = None
    failure: Ending | None = None
    saved: Path | None = None
    note: str = ""
    """What came of saving it."""
    before: "Run | None" = None
    """The last one of this model that has a result: a search that is cancelled does not take it away."""

    @property
    def running(self) -> bool:
        return self.result is None and self.failure is None

    @property
    def cancelled(self) -> bool:
        return self.failure is not None and self.failure.how == "cancelled"

    @property
    def bundle(self) -> Path | None:
        """Where the bundle lies now: where the user saved it, or where the search wrote it."""
        return None if self.result is None else self.saved or self.place
