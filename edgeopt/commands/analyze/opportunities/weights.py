"""Weights that slow a device down or take room for nothing."""

from collections.abc import Iterable

from edgeopt.commands.analyze.opportunities.view import View
from edgeopt.graph.analysis import Opportunity

_LEAST_TWIN_BYTES = 1024


def find(view: View) -> Iterable[Opportunity]:
    summary = view.analysis.weights_summary
    if summary.denormal:
        count = len(summary.denormal)
        yield Opportunity(
            "weights",
            "Flush denormal numbers to zero",
            f"{count} weight{('s' if count != 1 else '')} hold denormal numbers, which some processors "
            "compute a hundred times slower.",
            summary.denormal,
            None,
            "no estimate: it depends on the processor and on how many of them are used",
            view.optimize,
            exact=False,
        )
    if summary.twins_bytes >= _LEAST_TWIN_BYTES:
        yield Opportunity(
            "weights",
            "Store equal weights once",
            f"{summary.twins_bytes:,} bytes of weights are duplicates.",
            tuple(name for group in summary.twins for name in group),
            None,
            "no gain in speed: a smaller file, and less memory",
            view.simplify,
        )
    if summary.unused:
        yield Opportunity(
            "weights",
            "Drop unused weights",
            f"{len(summary.unused)} weight{'s are' if len(summary.unused) != 1 else ' is'} never read.",
            summary.unused,
            None,
            "no gain in speed: a smaller file",
            view.simplify,
        )
