"""Accuracy budgets, by name or in decibels."""

from edgeopt.errors import UsageError

# Exact rewrites; no visible difference; one that most tasks accept; one that only a task's metric can judge.
BUDGETS_DB = {"exact": 80.0, "transparent": 30.0, "balanced": 20.0, "aggressive": 12.0}


def floor_from(text: str) -> float:
    """The accuracy floor in dB from `30dB`, `30` or a budget's name."""
    named = BUDGETS_DB.get(text.strip().lower())
    if named is not None:
        return named
    number = text.strip().lower().removesuffix("db").strip()
    try:
        floor = float(number)
    except ValueError:
        floor = float("nan")
    if not 0 < floor <= 150:
        names = ", ".join(f"{n} ({v:g} dB)" for n, v in BUDGETS_DB.items())
        raise UsageError(
            f"'{text}' is no accuracy floor.", f"Give decibels, up to 150dB, as in 30dB, or a name: {names}."
        )
    return floor
