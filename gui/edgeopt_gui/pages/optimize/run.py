"""One search of this session: its request, events and ending."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from edgeopt_gui.jobs.command import Command
from edgeopt_gui.jobs.ending import Ending
from edgeopt_gui.jobs.job import Job
from edgeopt_gui.pages.optimize.board import Board
from edgeopt_gui.pages.optimize.choices import LONGEST_LIMIT_S, SHORTEST_LIMIT_S, Choices

if TYPE_CHECKING:
    from edgeopt.pipeline.outcome import Outcome


@dataclass(frozen=True, slots=True)
class Order:
    """One search as the user requested it."""

    model: Path
    data: Path | None
    today: Path | None
    choices: Choices
    shape: tuple[str, ...] = ()
    pre: Path | None = None
    """Path of the preprocessing that goes into the bundle."""

    def longer(self, took_s: float) -> "Order":
        """Returns the search with twice the time limit, or without a limit, twice the time that it took."""
        limit_s = 2 * (self.choices.time_limit_s or max(SHORTEST_LIMIT_S, round(took_s)))
        return replace(self, choices=replace(self.choices, time_limit_s=min(LONGEST_LIMIT_S, limit_s)))

    def command(self, out: Path, *, fresh: bool = False, pick: str = "") -> Command:
        return self.choices.command(
            self.model,
            self.data,
            out,
            today=self.today,
            shape=self.shape,
            pre=self.pre,
            fresh=fresh,
            pick=pick,
        )

    def shown(self, *, fresh: bool = False, pick: str = "") -> Command:
        """Returns the command to show the user, with a plain name for the bundle."""
        return self.command(Path(f"{self.model.stem}.edgeopt"), fresh=fresh, pick=pick)

    def worked(self, out: Path, *, fresh: bool = False, pick: str = "") -> Command:
        """Returns the command that the app runs: the bundle is a folder, and becomes one file when it is saved."""
        plain = replace(self, choices=replace(self.choices, single_file=False))
        return plain.command(out, fresh=fresh, pick=pick)


@dataclass(slots=True)
class Run:
    model: Path
    place: Path
    """Folder to which the search writes the bundle."""
    shown: Command
    """The equivalent command line, with a plain name for the bundle."""
    job: Job
    board: Board = field(default_factory=Board)
    result: "Outcome | None" = None
    failure: Ending | None = None
    order: Order | None = None
    """The request that started the run, kept to repeat it."""
    picked: str = ""
    """Name of the candidate to deliver instead of the winner; "" for a search."""
    saved: Path | None = None
    note: str = ""
    """Result of saving the bundle, as a sentence."""
    retry: str = ""
    """Key of the action that saves again after a failure; "" if there is none."""
    interrupted: bool = False
    """Whether a later search of the same model was cancelled."""
    before: "Run | None" = None
    """The last run of this model with a result, which is shown again if this run is cancelled."""

    @property
    def running(self) -> bool:
        return self.result is None and self.failure is None

    @property
    def objective(self) -> str:
        """Objective of the search of a decoder; "" for other models."""
        if not self.board.of_tokens:
            return ""
        chosen = self.result.objective if self.result else self.order.choices.objective if self.order else ""
        return chosen if chosen == "first-token" else "tokens-per-second"

    @property
    def cancelled(self) -> bool:
        return self.failure is not None and self.failure.how == "cancelled"

    @property
    def bundle(self) -> Path | None:
        """Path of the bundle: where the user saved it, or else where the search wrote it; None without one."""
        return None if self.result is None else self.saved or self.place

    @property
    def folder(self) -> Path | None:
        """The folder that the search wrote, or else the saved bundle; None without a result."""
        return None if self.result is None else self.place if self.place.is_dir() else self.saved
