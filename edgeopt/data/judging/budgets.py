"""Accuracy budgets, by name or in decibels."""

from edgeopt.errors import UsageError

# Exact rewrites; no visible difference; one that most tasks accept; one that only a task's metric can judge.
BUDGETS_DB = {"exact": 80.0, "transparent": 30.0, "balanced": 20.0, "aggressive": 12.0}


TASK_BUDGET = "aggressive"
"""So low a ratio says nothing of a model's answers: only a metric of its task can."""


def floor_from(text: str, beside_metric: bool = False) -> float:
    """The accuracy floor in dB from `30dB`, `30` or a budget's name."""
    name = text.strip().lower()
    if name == TASK_BUDGET and not beside_metric:
        raise UsageError(
            f"The budget '{TASK_BUDGET}' ({BUDGETS_DB[TASK_BUDGET]:g} dB) is only allowed with a task metric.",
            f"Choose balanced ({BUDGETS_DB['balanced']:g} dB), or compare answers with "
            f"labels: --metric top1-labels --max-drop 1% --floor {TASK_BUDGET}",
        )
    if name in BUDGETS_DB:
        return BUDGETS_DB[name]
    number = text.strip().lower().removesuffix("db").strip()
    try:
        floor = float(number)
    except ValueError:
        floor = float("nan")
    if not 0 < floor <= 150:
        names = ", ".join(f"{n} ({v:g} dB)" for n, v in BUDGETS_DB.items())
        raise UsageError(
            f"'{text}' is not an accuracy floor.", f"Give a ratio up to 150dB, such as 30dB, or a name: {names}."
        )
    return floor
