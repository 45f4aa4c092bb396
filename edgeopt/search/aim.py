"""What a search is to reach, of all that the user asks of it."""

from dataclasses import dataclass

from edgeopt.search.limits import Limits
from edgeopt.search.objectives import Objective, objective_named
from edgeopt.search.settings import Settings


@dataclass(frozen=True, slots=True)
class Aim:
    objective: Objective
    limits: Limits
    target_speedup: float | None = None
    """It ends as soon as a candidate is surely so many times as fast as the baseline."""


def aim_of(settings: Settings) -> Aim:
    return Aim(objective_named(settings.objective), settings.limits, settings.target_speedup)
