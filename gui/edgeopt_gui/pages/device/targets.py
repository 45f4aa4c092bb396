"""The chosen target in a sentence, the others as rows with the reason why not."""

from edgeopt.profiles.targets import TargetVerdict
from edgeopt_gui.widgets.records import Column, Look


def chosen_sentences(verdicts: tuple[TargetVerdict, ...]) -> tuple[str, str]:
    """Returns the name and title of the chosen target, and the reason for the choice."""
    chosen = next((verdict for verdict in verdicts if verdict.chosen), None)
    if chosen is None:
        return "None", "No target of this version fits the device."
    return f"{chosen.name} · {chosen.title}", f"Most specific target that fits: {chosen.reason}."


def others(verdicts: tuple[TargetVerdict, ...]) -> tuple[TargetVerdict, ...]:
    """Returns the targets that were not chosen, except those for other systems."""
    return tuple(verdict for verdict in verdicts if not verdict.chosen and not verdict.other_system)


def of_other_systems(verdicts: tuple[TargetVerdict, ...]) -> tuple[TargetVerdict, ...]:
    return tuple(verdict for verdict in verdicts if verdict.other_system)


def look(verdict: TargetVerdict) -> Look:
    return "plain" if verdict.fits else "quiet"


COLUMNS: tuple[Column[TargetVerdict], ...] = (
    Column("Target", lambda v: v.name, tip=lambda v: v.title),
    Column("Purpose", lambda v: v.title),
    Column("Fits", lambda v: not v.fits, text=lambda v: "yes" if v.fits else "no"),
    Column("Reason it was not chosen", lambda v: v.reason, tip=lambda v: v.reason, stretch=True),
)
