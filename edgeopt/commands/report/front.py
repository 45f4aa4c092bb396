"""Marks the points that are on the front; who is, `edgeopt.search.delivering.report` says."""

from collections.abc import Sequence

import msgspec

from edgeopt.commands.report.facts import Point
from edgeopt.search.delivering.report import Figures, front


def with_front(points: Sequence[Point]) -> tuple[Point, ...]:
    """The points, with those on the front marked."""
    known = [Figures(p.status, p.time_ms, p.snr_db, p.peak_bytes, p.size_bytes) for p in points]
    on_it = set(front(known))
    return tuple(msgspec.structs.replace(each, on_front=place in on_it) for place, each in enumerate(points))
