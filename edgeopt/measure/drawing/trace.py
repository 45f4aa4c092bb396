"""A contest as a timeline in Chrome's trace event format (JSON), which Perfetto and chrome://tracing open.

Slices of one row must not overlap, or Perfetto moves them elsewhere: runs at the same time get rows of their own.
"""

import gzip
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from edgeopt.measure.files import writing
from edgeopt.measure.report import ContestReport, RoundState, SideReport, Slice

MOST_RUNS = 200_000
_DEVICE = 1
"""The device's process number in the file; the sides come after it."""
_SLICES_ROW = 1
_RUNS_ROW = 2
_MIB = 2**20
# Trials tell the begins of their runs in whole microseconds.
_ROUNDING_NS = 1000

Event = dict[str, object]


class _Span(NamedTuple):
    begin_ns: int
    end_ns: int
    name: str
    arguments: dict[str, object]


def write_trace(report: ContestReport, path: Path) -> None:
    """Writes the whole file or nothing; compressed where the name ends with `.gz`."""
    with (
        writing(path) as plain,
        gzip.open(plain, "wb", compresslevel=5) if path.suffix == ".gz" else nullcontext(plain) as file,
    ):
        file.write(b'{"displayTimeUnit":"ms","otherData":')
        every = _every(report)
        file.write(msgspec.json.encode(_about(report, every)))
        file.write(b',"traceEvents":[\n')
        for place, event in enumerate(_events(report, every)):
            file.write((b",\n" if place else b"") + msgspec.json.encode(event))
        file.write(b"\n]}\n")


def _every(report: ContestReport) -> int:
    """One run in this many is drawn."""
    runs = sum(len(one.starts_ms) for side in report.sides for one in side.slices)
    return max(1, -(-runs // MOST_RUNS))


def _about(report: ContestReport, every: int) -> dict[str, str]:
    about = {
        "title": "edgeopt bench: " + " against ".join(side.name for side in report.sides),
        "measured at": report.measured_at,
        "state of the device": report.measured_while,
        "duty": report.duty,
        "data": report.data,
        **{f"version of {name}": version for name, version in report.versions.items()},
        **{
            f"{each.first} against {each.second}": f"{each.verdict}, {each.speedup}" for each in report.comparisons
        },
    }
    if every > 1:
        about["thinned"] = f"1 of {every} runs is drawn, at most {MOST_RUNS} per file"
    slices = [one for side in report.sides for one in side.slices]
    kept, ran = sum(len(one.latencies_ms) for one in slices), sum(map(_count, slices))
    if kept < ran:
        about["thinned before"] = f"the report keeps {kept} of {ran} runs, evenly chosen within each slice"
    return {key: text for key, text in about.items() if text}


def _count(one: Slice) -> int:
    return one.runs or len(one.latencies_ms)


def _events(report: ContestReport, every: int) -> Iterator[Event]:
    """The names of all rows, then everything that happened, in its order."""
    begins = [state.begin_s for state in report.states]
    begins += [one.begin_s for side in report.sides for one in side.slices]
    zero_s = min(begins, default=0.0)
    named: list[Event] = []
    found: list[Event] = []
    named += _process(_DEVICE, "device")
    found += _rows(named, _DEVICE, "rounds", _SLICES_ROW, (_round(state, zero_s) for state in report.states))
    for state in report.states:
        found += _of_device(state, zero_s)
    for pid, side in enumerate(report.sides, _DEVICE + 1):
        named += _process(pid, _title(side))
        found += _rows(named, pid, "slices", _SLICES_ROW, (_slice(one, zero_s) for one in side.slices))
        found += _rows(named, pid, "runs", _RUNS_ROW, _runs(side.slices, zero_s, every))
        found += [
            _counter(pid, one.begin_s + one.seconds, zero_s, "memory", "MiB", one.memory_bytes / _MIB)
            for one in side.slices
            if one.memory_bytes is not None
        ]
    yield from named
    yield from sorted(found, key=lambda event: event["ts"])  # type: ignore[arg-type, return-value]


def _rows(named: list[Event], pid: int, name: str, first_row: int, spans: Iterable[_Span]) -> Iterator[Event]:
    """Each span in the first row that is free when it begins; the names of the rows are added to `named`."""
    ends: list[int] = []
    for span in sorted(spans, key=lambda each: each.begin_ns):
        row = next((k for k, end in enumerate(ends) if end <= span.begin_ns + _ROUNDING_NS), len(ends))
        if row == len(ends):
            ends.append(0)
            title = name if row == 0 else f"{name} ({row + 1} concurrent)"
            named += [
                _about_row(pid, first_row + row, "thread_name", "name", title),
                _about_row(pid, first_row + row, "thread_sort_index", "sort_index", first_row + row),
            ]
        begin_ns = max(span.begin_ns, ends[row])
        ends[row] = max(begin_ns, span.end_ns)
        yield {
            "ph": "X",
            "pid": pid,
            "tid": first_row + row,
            "ts": begin_ns / 1e3,
            "dur": (ends[row] - begin_ns) / 1e3,
            "name": span.name,
            "cat": name,
            "args": span.arguments,
        }


def _round(state: RoundState, zero_s: float) -> _Span:
    arguments = {
        key: value
        for key in ("clock_hz", "temperature_c", "others_percent", "steal_percent", "held_up_ms")
        if (value := getattr(state, key)) is not None
    }
    if state.bad:
        arguments["bad"] = " ".join(state.bad)
    name = f"round {state.round}{' (repeated)' if state.repeated else ''}"
    return _Span(*_range_ns(state.begin_s - zero_s, state.seconds), name, arguments)


def _of_device(state: RoundState, zero_s: float) -> Iterator[Event]:
    end_s = state.begin_s + state.seconds
    for name, unit, value in (
        ("clock", "GHz", None if state.clock_hz is None else state.clock_hz / 1e9),
        ("temperature", "°C", state.temperature_c),
        ("load of others", "%", state.others_percent),
        ("steal", "%", state.steal_percent),
    ):
        if value is not None:
            yield _counter(_DEVICE, end_s, zero_s, name, unit, value)
    for words in state.bad:
        yield {
            "ph": "i",
            "s": "p",
            "pid": _DEVICE,
            "tid": _SLICES_ROW,
            "ts": round((end_s - zero_s) * 1e9) / 1e3,
            "name": words,
            "cat": "bad rounds",
            "args": {"round": state.round},
        }


def _slice(one: Slice, zero_s: float) -> _Span:
    arguments: dict[str, object] = {"runs": _count(one)}
    if len(one.latencies_ms) < _count(one):
        arguments["drawn"] = f"at most {len(one.latencies_ms)} of them"
    if one.latencies_ms:
        arguments["p50_ms"] = round(float(np.median(one.latencies_ms)), 6)
    if one.energy_j is not None:
        arguments["energy_j"] = one.energy_j
    return _Span(
        *_range_ns(one.begin_s - zero_s, one.seconds), f"round {one.round}", arguments | dict(one.counters)
    )


def _runs(slices: Iterable[Slice], zero_s: float, every: int) -> Iterator[_Span]:
    number = 0
    for one in slices:
        for start_ms, latency_ms in zip(one.starts_ms, one.latencies_ms, strict=False):
            if number % every == 0:
                begin_s = one.begin_s - zero_s + start_ms / 1e3
                yield _Span(*_range_ns(begin_s, latency_ms / 1e3), "run", {})
            number += 1


def _range_ns(begin_s: float, seconds: float) -> tuple[int, int]:
    """In whole nanoseconds: rounding both ends keeps neighbours apart."""
    return round(begin_s * 1e9), round((begin_s + max(0.0, seconds)) * 1e9)


def _counter(pid: int, at_s: float, zero_s: float, name: str, unit: str, value: float) -> Event:
    at_us = round((at_s - zero_s) * 1e9) / 1e3
    return {"ph": "C", "pid": pid, "ts": at_us, "name": name, "cat": name, "args": {unit: round(value, 3)}}


def _process(pid: int, name: str) -> list[Event]:
    return [
        _about_row(pid, 0, "process_name", "name", name),
        _about_row(pid, 0, "process_sort_index", "sort_index", pid),
    ]


def _about_row(pid: int, tid: int, kind: str, key: str, value: str | int) -> Event:
    return {"ph": "M", "pid": pid, "tid": tid, "ts": 0, "name": kind, "args": {key: value}}


def _title(side: SideReport) -> str:
    return f"{side.name} ({side.backend})" if side.backend and side.backend not in side.name else side.name
