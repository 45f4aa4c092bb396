"""The report as a matrix: rows are operators, columns are backends and precisions, a cell is a few words."""

from collections.abc import Iterator, Sequence

import msgspec

from edgeopt import units
from edgeopt.commands.ops.case import PRECISIONS, STATUSES, CaseRow, OperatorFigures, Precision, Report, Status
from edgeopt.views.blocks import Column, Marked, Mood, Row, Table

MARKS: dict[Status, str] = {"conforms": "✓", "deviates": "≠", "not supported": "○", "failed": "✗"}
MOODS: dict[Status, Mood] = {"conforms": "good", "deviates": "warning", "not supported": "accent", "failed": "bad"}
LEGEND = (
    "✓ conforms: time of the largest shape, share of the roofline · ≠ deviates · ○ not supported "
    "· ✗ failed (number of shapes) · empty: no such case"
)


class Tried(msgspec.Struct, frozen=True):
    """Backend and precision of a column."""

    backend: str
    precision: Precision


class Flaw(msgspec.Struct, frozen=True):
    """Cases that do not conform, of one operator in one precision: they differ in size alone."""

    backend: str
    case: str
    """`Pad wrap fp32 (small, medium, large)`."""
    status: Status
    message: str
    """Message of the largest case."""
    count: int


def tried(report: Report) -> list[Tried]:
    """Returns the columns, by precision first so that backends are side by side."""
    used = {case.precision for case in report.cases}
    names = [row.name for row in report.backends if row.version is not None]
    return [Tried(name, precision) for precision in PRECISIONS if precision in used for name in names]


def matrix(report: Report, families: bool = False) -> Table:
    """Returns a table with a row for each operator and variant; `families` adds titles above those of a family."""
    columns = tried(report)
    groups: dict[tuple[str, str], list[CaseRow]] = {}
    for case in report.cases:
        groups.setdefault((case.family, case.title), []).append(case)
    rows: list[Row] = []
    before = ""
    for (family, title), cases in groups.items():
        if families and family != before:
            before = family
            rows.append(Row((family,), "faint"))
        rows.append(Row((title, *_cells(cases, columns))))
    titles = (Column(f"{each.backend} {each.precision}", "mark", each.precision) for each in columns)
    return Table((Column("operator", "mark"), *titles), tuple(rows))


def flaws(report: Report) -> list[Flaw]:
    """Returns every case that does not conform, backend by backend."""
    groups: dict[tuple[str, str, str, Status], list[CaseRow]] = {}
    for row in report.backends:
        for case in report.cases:
            figures = case.results.get(row.name)
            if figures is not None and figures.measured.status != "conforms":
                key = (row.name, case.title, case.precision, figures.measured.status)
                groups.setdefault(key, []).append(case)
    return [
        Flaw(
            backend=backend,
            case=f"{title} {precision} ({', '.join(case.size for case in cases)})",
            status=status,
            message=cases[-1].results[backend].measured.message,
            count=len(cases),
        )
        for (backend, title, precision, status), cases in groups.items()
    ]


def summary(report: Report) -> Iterator[str]:
    """Yields a sentence for each backend, then the time that the measurement took."""
    total = len(report.cases)
    for row in report.backends:
        if row.version is None:
            yield f"{row.name}: not available: {row.reason}."
            continue
        counts = report.counts[row.name]
        flawed = {"deviate" if status == "deviates" else status: counts[status] for status in STATUSES[1:]}
        others = ", ".join(f"{count} {status}" for status, count in flawed.items() if count)
        share = counts["conforms"] / total if total else 0.0
        rest = f"; {others}" if others else ""
        yield f"{row.name} {row.version}: {counts['conforms']} of {total} cases conform ({_percent(share)}){rest}."
    kept = "all from the cache; --again measures again"
    measured = f"{report.measured} results measured in {report.took_s:.0f} s" if report.measured else kept
    yield f"With {units.count(report.threads, 'thread')}; {measured}."
    if report.doubtful:
        yield (
            f"{report.doubtful} cached results were measured while the device was busy or throttled; "
            "their times may be too long. --again measures again."
        )


def roofline_note(report: Report) -> str:
    """Returns why roofline shares are missing, as a sentence; empty if none is."""
    timed = [f for case in report.cases for f in case.results.values() if f.measured.time_us]
    reasons = dict.fromkeys(f.roofline_reason for f in timed if f.roofline_reason)
    if not reasons:
        return ""
    amount = "No" if all(f.roofline_reason for f in timed) else "Some cells have no"
    return f"{amount} share of the roofline: {'; '.join(reasons)}."


def _percent(share: float) -> str:
    """Formats a share, never rounded up to 100 %."""
    return "100 %" if share == 1 else f"{min(share, 0.999):.1%}".replace("%", " %")


def _cells(cases: Sequence[CaseRow], columns: Sequence[Tried]) -> Iterator[Marked]:
    times = {column: _time_us(cases, column) for column in columns}
    for column in columns:
        rivals = [t for other, t in times.items() if other.precision == column.precision and t is not None]
        own = times[column]
        is_quickest = len(rivals) > 1 and own is not None and own == min(rivals)
        yield _cell(_figures(cases, column), is_quickest)


def _cell(found: Sequence[OperatorFigures], is_quickest: bool) -> Marked:
    """Returns the cell of all shapes, marked by the worst; empty if there is no case."""
    if not found:
        return Marked("")
    statuses = [figures.measured.status for figures in found]
    worst = max(statuses, key=STATUSES.index)
    bad = sum(status != "conforms" for status in statuses)
    parts = [MARKS[worst]]
    if bad:
        parts.append(f"{bad} of {len(found)}")
    last = found[-1]
    if last.measured.time_us is not None:
        parts.append(duration(last.measured.time_us))
        if last.roofline_share is not None and not bad:
            parts.append(_whole_percent(last.roofline_share))
    return Marked(" ".join(parts), MOODS[worst], is_quickest)


def _whole_percent(share: float) -> str:
    if share < 0.01:
        return "<1%"
    return f"{share:.0%}" if share < 10 else ">999%"


def _time_us(cases: Sequence[CaseRow], column: Tried) -> float | None:
    found = _figures(cases, column)
    return found[-1].measured.time_us if found else None


def _figures(cases: Sequence[CaseRow], column: Tried) -> list[OperatorFigures]:
    own = (case.results.get(column.backend) for case in cases if case.precision == column.precision)
    return [figures for figures in own if figures is not None]


def duration(time_us: float) -> str:
    """Formats a time with three digits: `12.3 µs`, `1.23 ms`, `0.41 s`."""
    if time_us < 999.5:
        return f"{time_us:.3g} µs" if time_us < 99.95 else f"{time_us:.0f} µs"
    milliseconds = time_us / 1e3
    if milliseconds < 999.5:
        return f"{milliseconds:.2f} ms" if milliseconds < 9.995 else f"{milliseconds:.3g} ms"
    return f"{milliseconds / 1e3:.2f} s"
