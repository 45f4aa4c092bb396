"""The plan for a device that is not here, as `edgeopt optimize --device` tells it: predicted, not measured."""

from typing import Any

import msgspec

from edgeopt.commands.predict.records import PredictedOutcome
from edgeopt.decoding import thread_safe


def read_plan(data: dict[str, Any]) -> PredictedOutcome:
    """Raises `msgspec.ValidationError` for what is no plan."""
    return msgspec.convert(data, thread_safe(PredictedOutcome))


def story(plan: PredictedOutcome) -> str:
    """Returns the basis, warnings, path and next steps of a plan, each on its own line."""
    return "\n".join([plan.basis, *plan.warnings, f"The bundle is {plan.bundle}.", *plan.finish])
