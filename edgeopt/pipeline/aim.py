"""What a search is to reach, of all that the user asks of it."""

from dataclasses import dataclass

from edgeopt.pipeline.objectives import OBJECTIVES, Objective, ResourceLimits
from edgeopt.pipeline.request import OptimizeRequest


@dataclass(frozen=True, slots=True)
class SearchGoal:
    objective: Objective
    limits: ResourceLimits
    target_speedup: float | None = None
    """Ends as soon as a candidate is reliably this many times faster than the baseline."""


def aim_of(settings: OptimizeRequest) -> SearchGoal:
    """Of settings whose objective is known to be one."""
    objective = next(each for each in OBJECTIVES if each.name == settings.objective)
    return SearchGoal(objective, settings.limits, settings.target_speedup)
