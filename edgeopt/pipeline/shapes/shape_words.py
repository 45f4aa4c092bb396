"""Results of a search with `--shape` in words: the speed of each size, and the cost of a program for each."""

from collections.abc import Iterator

import msgspec

from edgeopt import units
from edgeopt.backends.buckets import OPTIONS
from edgeopt.pipeline.outcome import CandidateReport, Outcome


def shape_lines(outcome: Outcome) -> list[str]:
    """Returns the lines about sizes; empty for a search without `--shape`."""
    return [line for line in (*_by_size(outcome), cost_line(outcome)) if line]


def _by_size(outcome: Outcome) -> Iterator[str]:
    times = outcome.proof.by_size
    if times:
        times_by_size = "; ".join(f"{t.name} {units.time_instead(t.latency_ms, t.baseline_ms)}" for t in times)
        yield f"By size: {times_by_size}."


def cost_line(outcome: Outcome) -> str:
    """Describes the cost of buckets for the winner, or the first other candidate that raced with and without."""
    for report in sorted(outcome.candidates, key=lambda one: one.candidate != outcome.winner):
        options = {name: value for name, value in report.candidate.options.items() if name not in OPTIONS}
        plain = msgspec.structs.replace(report.candidate, options=options)
        twin = next((one for one in outcome.candidates if one.candidate == plain), None)
        if report.candidate.sizes and twin is not None and (line := _cost(report, twin)):
            return line
    return ""


def _cost(report: CandidateReport, twin: CandidateReport) -> str:
    costs = []
    if report.load_ms is not None and twin.load_ms is not None:
        costs.append(f"loads in {report.load_ms:.0f} ms instead of {twin.load_ms:.0f} ms")
    peak, before = (one.memory.peak_bytes if one.memory else None for one in (report, twin))
    if peak is not None and before is not None:
        costs.append(f"has peak memory {units.size(peak)} instead of {units.size(before)}")
    each = f"With a program for each size ({', '.join(report.candidate.sizes)})"
    return f"{each}, {twin.candidate.name} {' and '.join(costs)}." if costs else ""
