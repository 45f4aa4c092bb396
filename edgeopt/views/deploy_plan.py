"""Description of the changes of a deployment: for the terminal and for the app's confirmation."""

from edgeopt.errors import printable
from edgeopt.fleet.records import DeployPlan, Serving
from edgeopt.units import size
from edgeopt.views.words import decibels, milliseconds, ratio, span

_ACTIONS = {
    "start": "It will be the first model that the agent serves.",
    "replace": "It replaces the release that serves now, which stays on the device for a rollback.",
    "rename": "It replaces a model of another name: clients of the old name get 404.",
    "add": "It is served beside the other models.",
    "none": "This release serves already: nothing would change.",
}


def consequence(plan: DeployPlan) -> str:
    return _ACTIONS[plan.action]


def plan_rows(plan: DeployPlan) -> tuple[tuple[str, str], ...]:
    """Returns titles and values: the release now, the release then, and the proof of the latter."""
    rows = [
        ("Serving", _release(plan.replaces)),
        ("New", f"{printable(plan.name)} (release {plan.release}): {printable(plan.summary)}"),
    ]
    if plan.speedup is not None:
        rows.append(("Speed", f"{ratio(plan.speedup)} {span(plan.speedup_low, plan.speedup_high)}"))
    if plan.latency_ms is not None and plan.baseline_ms is not None:
        rows.append(("Latency", f"{milliseconds(plan.latency_ms)}; source model {milliseconds(plan.baseline_ms)}"))
    if plan.accuracy_db is not None:
        floor = f"; floor {plan.floor_db:g} dB" if plan.floor_db else ""
        rows.append(("Accuracy", f"{decibels(plan.accuracy_db)}{floor}"))
    return (*rows, ("Size", size(plan.size_bytes)))


def _release(serving: Serving | None) -> str:
    if serving is None:
        return "no release"
    summary = f": {printable(serving.summary)}" if serving.summary else ""
    return f"{printable(serving.name)} (release {serving.release}){summary}"
