"""The user's choices for a plan of precision, and the resulting command line."""

from dataclasses import dataclass, replace
from pathlib import Path

from edgeopt.commands.quantize import QuantizeOptions
from edgeopt.options import DAY_S, arguments, option_named
from edgeopt_gui.jobs.command import Command
from edgeopt_gui.pages.optimize.choices import BUDGETS, METRIC, OWN
from edgeopt_gui.settings import Settings

PLAN = str(option_named(QuantizeOptions, "method").default)
MINIMUM_LIMIT_S = int(option_named(QuantizeOptions, "time_limit_s").minimum or 1)
MAXIMUM_LIMIT_S = int(option_named(QuantizeOptions, "time_limit_s").maximum or DAY_S)
FLOORS = tuple((budget.key, budget.title) for budget in BUDGETS if budget.key != METRIC)
MINIMUM_DB, MAXIMUM_DB = 1.0, 150.0


@dataclass(frozen=True, slots=True)
class PrecisionChoices:
    method: str = PLAN
    budget: str = "transparent"
    own_db: float = 40.0
    backend: str = ""
    """Name of the backend; "" for the fastest one."""
    time_limit_s: int | None = None

    @property
    def floor(self) -> str:
        """The accuracy floor as `--floor` takes it."""
        return f"{self.own_db:g}dB" if self.budget == OWN else self.budget

    def command(self, model: Path, data: Path | None, out: Path | None) -> Command:
        """Returns the command that writes the result to `out`, or only reports the plan without one."""
        values: dict[str, object] = {
            "model": model,
            "out": out,
            "data": data,
            "method": "" if self.method == PLAN else self.method,
            "floor": self.floor,
            "backend": self.backend,
            "sensitivity": out is None,
            "time_limit_s": self.time_limit_s,
        }
        return Command(
            f"Planning the precision of {model.name}", ("quantize", *arguments(QuantizeOptions, values))
        )


def remembered(settings: Settings) -> PrecisionChoices:
    """Returns the choices of the last time; invalid ones are replaced by the defaults."""
    usual = PrecisionChoices()
    budget = settings.text("precision.budget", usual.budget)
    own_db = settings.number("precision.own-db", usual.own_db)
    limit_s = int(settings.number("precision.time-limit-s", 0))
    return replace(
        usual,
        budget=budget if budget in dict(FLOORS) else usual.budget,
        own_db=own_db if MINIMUM_DB <= own_db <= MAXIMUM_DB else usual.own_db,
        method=settings.text("precision.method", usual.method),
        backend=settings.text("precision.backend"),
        time_limit_s=limit_s if MINIMUM_LIMIT_S <= limit_s <= MAXIMUM_LIMIT_S else None,
    )


def remember(settings: Settings, choices: PrecisionChoices) -> None:
    settings.keep("precision.budget", choices.budget)
    settings.keep("precision.own-db", choices.own_db)
    settings.keep("precision.method", choices.method)
    settings.keep("precision.backend", choices.backend)
    settings.keep("precision.time-limit-s", choices.time_limit_s or 0)
