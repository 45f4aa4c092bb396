"""Records that notebooks show as tables: Jupyter calls `_repr_html_` of the last value of a cell."""

import importlib
from typing import Protocol, cast


class _View(Protocol):
    def __call__(self, record: object, /) -> object: ...


VIEWS: tuple[tuple[str, str], ...] = (
    ("Device", "edgeopt.views.device:show"),
    ("Analysis", "edgeopt.views.analysis:show"),
    ("Outcome", "edgeopt.views.outcome:show"),
    ("ContestReport", "edgeopt.cli.bench_show:shown"),
    ("ColdReport", "edgeopt.cli.bench_show:shown"),
    ("PacedReport", "edgeopt.cli.bench_show:shown"),
    ("GenerateReport", "edgeopt.cli.bench_show:shown"),
    ("SustainedReport", "edgeopt.cli.bench_show:shown"),
    ("ConcurrencyReport", "edgeopt.cli.bench_show:shown"),
    ("SweepReport", "edgeopt.cli.bench_show:shown"),
    ("Quantized", "edgeopt.cli.quantize:show_quantized"),
    ("ModelComparison", "edgeopt.cli.compare:shown"),
)
"""The function that makes the blocks of each type of record, which the terminal prints too.

By name, as in the table of tasks: the records are in rooms below the views.
"""


class NotebookRecord:
    """Base class of records that have a view."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        """The tables of the terminal as HTML, without scripts and in the colours of the notebook."""
        place = dict(VIEWS)[type(self).__name__]
        fragment = cast("_View", _named("edgeopt.views.html:fragment"))
        return str(fragment(cast("_View", _named(place))(self)))


def _named(place: str) -> object:
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)
