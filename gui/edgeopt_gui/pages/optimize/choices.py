"""What the user chooses for a search, and the command line that it comes to."""

from dataclasses import dataclass
from pathlib import Path

from edgeopt.judging.budgets import BUDGETS_DB
from edgeopt_gui.jobs.command import Command
from edgeopt_gui.settings import Settings

OWN = "own"
SHORTEST_LIMIT_S = 5
LONGEST_LIMIT_S = 86_400


@dataclass(frozen=True, slots=True)
class Budget:
    """One way to say how much the outputs may differ from the source model's."""

    key: str
    title: str
    sentence: str


BUDGETS = (
    Budget(
        "exact",
        f"Exact ({BUDGETS_DB['exact']:g} dB)",
        "The same outputs but for rounding: exact rewrites, no lower precision.",
    ),
    Budget(
        "transparent",
        f"Transparent ({BUDGETS_DB['transparent']:g} dB)",
        "Differences too small to notice; right for most models.",
    ),
    Budget(
        "balanced",
        f"Balanced ({BUDGETS_DB['balanced']:g} dB)",
        "Small differences for more speed; check your own metric after.",
    ),
    Budget(OWN, "Your own floor", "Outputs keep at least this signal-to-noise ratio."),
)


@dataclass(frozen=True, slots=True)
class Choices:
    budget: str = "transparent"
    own_db: float = 40.0
    target: str = ""
    """A target's name; "" leaves the choice to edgeopt."""
    time_limit_s: int | None = None
    """None leaves it to edgeopt, which goes by the model's size."""

    @property
    def floor(self) -> str:
        """The accuracy floor as `--floor` takes it."""
        return f"{self.own_db:g}dB" if self.budget == OWN else self.budget

    def command(self, model: Path, data: Path | None, out: Path) -> Command:
        arguments = ["optimize", str(model)]
        if data is not None:
            arguments += ["--data", str(data)]
        arguments += ["-o", str(out), "--floor", self.floor]
        if self.target:
            arguments += ["--target", self.target]
        if self.time_limit_s is not None:
            arguments += ["--time-limit", str(self.time_limit_s)]
        return Command(f"Optimizing {model.name}", tuple(arguments))


def remembered(settings: Settings) -> Choices:
    """The choices of the last time; what is not sensible any more becomes the default."""
    budget = settings.text("optimize.budget", "transparent")
    known = budget in {each.key for each in BUDGETS}
    own_db = settings.number("optimize.own-db", Choices().own_db)
    limit_s = int(settings.number("optimize.time-limit-s", 0))
    return Choices(
        budget=budget if known else "transparent",
        own_db=own_db if 0 < own_db <= 150 else Choices().own_db,
        target=settings.text("optimize.target"),
        time_limit_s=limit_s if SHORTEST_LIMIT_S <= limit_s <= LONGEST_LIMIT_S else None,
    )


def remember(settings: Settings, choices: Choices) -> None:
    settings.keep("optimize.budget", choices.budget)
    settings.keep("optimize.own-db", choices.own_db)
    settings.keep("optimize.target", choices.target)
    settings.keep("optimize.time-limit-s", choices.time_limit_s or 0)
