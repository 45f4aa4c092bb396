"""Files that the page Live writes: each is written completely or not at all."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from edgeopt.measure.files import writing
from edgeopt_gui.pages.live.history import Snapshot, utc

_ROWS_AT_ONCE = 2000


def write_csv(snapshot: Snapshot, path: Path) -> int:
    """Writes a row for each moment, with a column for each metric and one for events; returns the number of rows.

    A metric that was not measured at that moment has an empty cell.
    """

    names = sorted(snapshot.columns)
    count = 0
    with writing(path) as stream:
        stream.write((",".join(["time_utc", "time_s", *names, "event"]) + "\n").encode())
        for rows in _rows(snapshot, names):
            stream.write("".join(rows).encode())
            count += len(rows)
    return count


def _rows(snapshot: Snapshot, names: list[str]) -> Iterator[list[str]]:
    """Yields the rows in blocks."""
    events: dict[float, str] = {}
    for marker in snapshot.markers:
        events[marker.time_s] = "; ".join(filter(None, (events.get(marker.time_s), marker.label)))
    times = [snapshot.columns[name][0] for name in names]
    moments = np.unique(np.concatenate([*times, np.array(sorted(events), dtype=float)]))
    places = [np.searchsorted(moments, column) for column in times]
    for begin in range(0, len(moments), _ROWS_AT_ONCE):
        part = moments[begin : begin + _ROWS_AT_ONCE]
        cells = [[""] * len(part) for _ in names]
        for column, name, where in zip(cells, names, places, strict=True):
            first, last = np.searchsorted(where, (begin, begin + len(part)))
            values = snapshot.columns[name][1][first:last].tolist()
            for row, value in zip(where[first:last] - begin, values, strict=True):
                column[row] = _number(value)
        yield [
            ",".join([utc(time_s), f"{time_s:.4f}", *row, _quoted(events.get(time_s, ""))]) + "\n"
            for time_s, *row in zip(part.tolist(), *cells, strict=True)
        ]


def replace_with(path: Path, content: bytes) -> None:
    """Puts the content in the place of a file, or leaves what was there."""
    with writing(path) as stream:
        stream.write(content)


def _number(value: float) -> str:
    """Bytes in full; of what was measured, the digits that mean something."""
    return f"{value:.0f}" if value.is_integer() else f"{value:.7g}"


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if text else ""
