"""The user's choices for a plan of precision, and the resulting command line."""

from dataclasses import asdict, dataclass, replace
from pathlib import Path

from edgeopt.commands.quantize import QuantizeOptions
from edgeopt.options import DAY_S, arguments, option_named
from edgeopt_gui.jobs.command import Command
from edgeopt_gui.pages.optimize.choices import (
    BUDGETS,
    AccuracyChoices,
    remember_accuracy,
    remembered_accuracy,
)
from edgeopt_gui.settings import Settings

PLAN = str(option_named(QuantizeOptions, "method").default)
MINIMUM_LIMIT_S = int(option_named(QuantizeOptions, "time_limit_s").minimum or 1)
MAXIMUM_LIMIT_S = int(option_named(QuantizeOptions, "time_limit_s").maximum or DAY_S)
FLOORS = tuple(
    replace(each, sentence="The same outputs except for rounding: few layers keep this in fewer bits.")
    if each.key == "exact"
    else each
    for each in BUDGETS
)
"""The accuracy floors as a plan uses them; unlike a search, it tries fewer bits for an exact result, too."""


@dataclass(frozen=True, slots=True)
class PrecisionChoices(AccuracyChoices):
    method: str = PLAN
    backend: str = ""
    """Name of the backend; "" for the fastest one."""
    time_limit_s: int | None = None

    def command(
        self,
        model: Path,
        data: Path | None,
        out: Path | None,
        *,
        shape: tuple[str, ...] = (),
        pre: Path | None = None,
    ) -> Command:
        """Returns the command that writes the result to `out`, or only reports the plan without one.

        `shape` fixes the shapes of inputs, `pre` prepares pictures in the data.
        """
        values = self.request() | {
            "model": model,
            "out": out,
            "data": data,
            "method": "" if self.method == PLAN else self.method,
            "shape": shape,
            "pre": pre,
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
    limit_s = int(settings.number("precision.time-limit-s", 0))
    return PrecisionChoices(
        **asdict(remembered_accuracy(settings, "precision")),
        method=settings.text("precision.method", usual.method),
        backend=settings.text("precision.backend"),
        time_limit_s=limit_s if MINIMUM_LIMIT_S <= limit_s <= MAXIMUM_LIMIT_S else None,
    )


def remember(settings: Settings, choices: PrecisionChoices) -> None:
    remember_accuracy(settings, "precision", choices)
    settings.keep("precision.method", choices.method)
    settings.keep("precision.backend", choices.backend)
    settings.keep("precision.time-limit-s", choices.time_limit_s or 0)
