"""Models of other frameworks as sides, in sentences."""

from edgeopt import units
from edgeopt.graph.accuracy import EQUAL_DB, decibels
from edgeopt.measure.report import Agreement, OriginalRun, OriginalSpeed
from edgeopt.views.words import milliseconds


def how_it_ran(run: OriginalRun) -> str:
    """`torch 2.13.0, eager, 2 threads`."""
    parts = (run.framework, run.mode, units.count(run.threads, "thread"))
    return ", ".join(part for part in parts if part)


def original_lines(run: OriginalRun) -> list[str]:
    """Returns how the original ran, and how well the other sides agree with it."""
    return [f"{run.side} ran in {how_it_ran(run)}.", *(_agreement(run.side, each) for each in run.agreements)]


def original_speed(found: OriginalSpeed) -> str:
    """The bundle against the framework that the model comes from."""
    run, ratio = found.run, found.speedup
    how = f"{run.side} in {how_it_ran(run)}"
    taken = f" ({milliseconds(found.original_ms)} a run)" if found.original_ms is not None else ""
    agreed = "".join(f" {_agreement(run.side, each)}" for each in run.agreements)
    if ratio is None or found.verdict not in {"faster", "slower"}:
        so_far = f"; {ratio} so far" if ratio is not None and ratio.usable else ""
        return f"Against {how}{taken}: {found.verdict}{so_far}.{agreed}"
    return f"Against {how}{taken}: {ratio}, {found.verdict}.{agreed}"


def _agreement(original: str, other: Agreement) -> str:
    if other.snr_db is None:
        return f"The outputs of {other.side} cannot be compared with those of {original}: {other.problem}."
    of = f"on {units.count(other.samples, 'sample')}"
    if other.snr_db >= EQUAL_DB:
        return f"The outputs of {other.side} and {original} are equal {of}."
    return f"The outputs of {other.side} agree with those of {original} to {decibels(other.snr_db)} {of}."
