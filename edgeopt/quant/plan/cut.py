"""The cheapest way to divide layers into two sides, when layers apart from their neighbours cost something."""

from collections.abc import Sequence
from itertools import pairwise

# A flow below this share of all that could flow is rounding.
_TINY = 1e-12


def best_side(values: Sequence[float], borders: Sequence[tuple[int, int, float]]) -> frozenset[int]:
    """The set with the highest sum of values less the borders between it and the rest (a minimum cut).

    Of several equally good sets, the smallest: what gains nothing stays as it is.
    """
    if not borders:
        return frozenset(k for k, value in enumerate(values) if value > 0)
    # What loses more than all borders together stays out in any case; how much more makes no difference.
    most = 2 * sum(cost for *_, cost in borders) + max(0.0, *values)
    source, sink = len(values), len(values) + 1
    room: list[dict[int, float]] = [{} for _ in range(len(values) + 2)]
    for k, value in enumerate(values):
        a, b = (source, k) if value > 0 else (k, sink)
        room[a][b] = min(abs(value), most)
        room[b].setdefault(a, 0.0)
    for a, b, cost in borders:
        room[a][b] = room[a].get(b, 0.0) + cost
        room[b][a] = room[b].get(a, 0.0) + cost
    least = _TINY * most
    while True:
        steps = _steps(room, source, least)
        if sink not in steps:
            return frozenset(k for k in steps if k < source)
        _fill(room, steps, source, sink, least)


def _steps(room: Sequence[dict[int, float]], source: int, least: float) -> dict[int, int]:
    """Where the flow can still go, with the number of steps to there (Dinic's levels)."""
    steps = {source: 0}
    edge = [source]
    while edge:
        further = []
        for place in edge:
            for after, left in room[place].items():
                if left > least and after not in steps:
                    steps[after] = steps[place] + 1
                    further.append(after)
        edge = further
    return steps


def _fill(room: Sequence[dict[int, float]], steps: dict[int, int], source: int, sink: int, least: float) -> None:
    """Lets flow all that can along shortest ways."""
    ways = {place: [after for after in room[place] if steps.get(after) == steps[place] + 1] for place in steps}
    path = [source]
    while path:
        place = path[-1]
        if place == sink:
            flow = min(room[a][b] for a, b in pairwise(path))
            for a, b in pairwise(path):
                room[a][b] -= flow
                room[b][a] += flow
            full = next(k for k, (a, b) in enumerate(pairwise(path)) if room[a][b] <= least)
            del path[full + 1 :]
            continue
        while ways[place] and room[place][ways[place][-1]] <= least:
            ways[place].pop()
        if ways[place]:
            path.append(ways[place][-1])
        else:
            path.pop()
            if path:
                ways[path[-1]].pop()
