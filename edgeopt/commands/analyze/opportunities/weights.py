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
            f"{count} weight{'s' if count != 1 else ''} hold numbers so small that some processors need a hundred "
            "times as long for them.",
            summary.denormal,
            None,
            "no estimate: it depends on the processor and on how many of them take part",
            view.optimize,
            exact=False,
        )
    if summary.twins_bytes >= _LEAST_TWIN_BYTES:
        yield Opportunity(
            "weights",
            "Keep equal weights once",
            f"{summary.twins_bytes:,} bytes of weights are there more than once.",
            tuple(name for group in summary.twins for name in group),
            None,
            "no gain in speed: a smaller file, and less memory",
            view.simplify,
        )
    if summary.unused:
        yield Opportunity(
            "weights",
            "Drop weights that nothing reads",
            f"{len(summary.unused)} weight{'s are' if len(summary.unused) != 1 else ' is'} never read.",
            summary.unused,
            None,
            "no gain in speed: a smaller file",
            view.simplify,
        )
