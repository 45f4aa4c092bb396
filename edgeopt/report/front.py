"""Who is on the front: nobody else is at once faster and more accurate."""

from collections.abc import Sequence

import msgspec

from edgeopt.report.facts import Point

EXACT_DB = 80.0
"""All that is as exact as this only rounds, and is alike."""
IN_THE_RACE = ("winner", "lost")
"""Those below the floor and those that failed may not be delivered."""


def with_front(points: Sequence[Point]) -> tuple[Point, ...]:
    """The points, with those on the front marked."""
    front = set(_front(points))
    return tuple(msgspec.structs.replace(each, on_front=place in front) for place, each in enumerate(points))


def _front(points: Sequence[Point]) -> list[int]:
    known = [
        (each.time_ms, -min(each.snr_db, EXACT_DB), place)
        for place, each in enumerate(points)
        if each.status in IN_THE_RACE and each.time_ms is not None and each.snr_db is not None
    ]
    front: list[int] = []
    best = float("inf")
    for _, loss, place in sorted(known):
        if loss < best:
            front.append(place)
            best = loss
    return front
