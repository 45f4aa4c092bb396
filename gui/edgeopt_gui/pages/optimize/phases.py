"""The phases of a search, in their order, as the page shows them."""

from dataclasses import dataclass

from edgeopt import events
from edgeopt.units import count
from edgeopt_gui.pages.optimize.words import short_name


@dataclass(frozen=True, slots=True)
class Phase:
    name: str
    """Name of the phase in `events.Progress.phase`."""
    short: str
    sentence: str
    plan: str
    """Description of the phase before a search starts."""


PHASES = (
    Phase(
        "reading the model",
        "Read",
        "Reading the model",
        "Reads the model and measures it unchanged: this is the baseline.",
    ),
    Phase(
        "making variants",
        "Vary",
        "Making variants of the model",
        "Makes variants: rewritten, fused and, with data, quantized to 8 bits.",
    ),
    Phase(
        "screening",
        "Screen",
        "Screening: does it run, is it inside the accuracy floor?",
        "Runs each variant once and rejects those that fail or fall below the accuracy floor.",
    ),
    Phase(
        "racing",
        "Race",
        "Racing against your model",
        "Measures the others interleaved with your model and drops the slow ones.",
    ),
    Phase(
        "tuning",
        "Tune",
        "Tuning the runtime options of the best",
        "Tries other thread counts and runtime options on the best.",
    ),
    Phase(
        "final",
        "Final",
        "Racing the best once more, for longer",
        "Measures the best once more, for longer.",
    ),
    Phase(
        "proving",
        "Prove",
        "Proving the winner from the written bundle",
        "Writes the winner as a bundle and measures the bundle on samples not used before.",
    ),
)


def place_of(name: str) -> int | None:
    """Returns the index of a phase; None if it is unknown to this version.

    The phases of a speech model begin with the part that is searched: `encoder: racing`.
    """
    return next((k for k, phase in enumerate(PHASES) if phase.name == name.rpartition(": ")[2]), None)


def progress_text(progress: events.Progress | None, screened: int = 0) -> str:
    """Returns the present phase in one line, without the remaining time, which the status bar shows.

    `screened` is the number of candidates that were screened so far.
    """
    if progress is None:
        return "Starting"
    place = place_of(progress.phase)
    known = PHASES[place].sentence if place is not None else ""
    parts = [known or ": ".join(part for part in (progress.phase.capitalize(), progress.message) if part)]
    if progress.total:
        parts.append(f"round {progress.done or 0} of {progress.total}")
    elif progress.message and progress.phase == "screening":
        # The candidate that is being screened counts too.
        parts[0] = f"Screening {count(screened + 1, 'candidate')}"
        parts.append(short_name(progress.message))
    return " · ".join([*filter(None, [progress.subject.capitalize()]), *parts])


def share_done(progress: events.Progress | None) -> float:
    """Returns the share of the present phase that is done, 0 to 1; 0 if it is unknown."""
    if progress is None or not progress.total:
        return 0.0
    return min(1.0, (progress.done or 0) / progress.total)
