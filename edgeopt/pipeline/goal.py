"""Goal of a search: its objective, its resource limits and its target speed-up."""

from dataclasses import dataclass

from edgeopt.pipeline.objectives import OBJECTIVES, Objective, ResourceLimits
from edgeopt.pipeline.request import OptimizeRequest


@dataclass(frozen=True, slots=True)
class SearchGoal:
    objective: Objective
    limits: ResourceLimits
    target_speedup: float | None = None
    """Speed-up over the baseline at which the search ends, once a candidate reaches it reliably."""


def goal_of(settings: OptimizeRequest) -> SearchGoal:
    """Returns the goal of settings whose objective is one of OBJECTIVES."""
    objective = next(each for each in OBJECTIVES if each.name == settings.objective)
    return SearchGoal(objective, settings.limits, settings.target_speedup)
