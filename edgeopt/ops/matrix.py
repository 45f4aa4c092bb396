"""The report as a matrix: rows are operators, columns are backends and precisions, a cell is a few words."""

from collections.abc import Iterator, Sequence

import msgspec

from edgeopt.ops.case import PRECISIONS, Precision
from edgeopt.ops.result import STATUSES, CaseRow, Figures, Report, Status

MARKS: dict[Status, str] = {"conforms": "✓", "deviates": "≠", "not supported": "○", "failed": "✗"}
LEGEND = (
    "✓ conforms: time of the largest shape, share of the roofline · ≠ deviates · ○ not supported · ✗ failed "
    "(so many of the shapes) · empty: no such case"
)


class Column(msgspec.Struct, frozen=True):
    backend: str
    precision: Precision


class Cell(msgspec.Struct, frozen=True):
    status: Status | None
    """The worst of all shapes; None where there is no case."""
    text: str = ""
    is_quickest: bool = False
    """Of the backends in this precision."""


class Row(msgspec.Struct, frozen=True):
    family: str
    title: str
    cells: tuple[Cell, ...]


class Flaw(msgspec.Struct, frozen=True):
    """Cases that do not conform, of one operator in one precision: they differ in size alone."""

    backend: str
    case: str
    """`Pad wrap fp32 (small, medium, large)`."""
    status: Status
    message: str
    """Of the largest."""
    count: int


def columns(report: Report) -> list[Column]:
    """By precision first, so that backends stand side by side."""
    used = {case.precision for case in report.cases}
    names = [row.name for row in report.backends if row.version is not None]
    return [Column(name, precision) for precision in PRECISIONS if precision in used for name in names]


def rows(report: Report, wanted: Sequence[Column]) -> Iterator[Row]:
    """A row for each operator and variant that has a cell in one of the columns."""
    groups: dict[tuple[str, str], list[CaseRow]] = {}
    for case in report.cases:
        groups.setdefault((case.family, case.title), []).append(case)
    for (family, title), cases in groups.items():
        cells = [_cell(cases, column) for column in wanted]
        if any(cell.status for cell in cells):
            yield Row(family, title, tuple(_with_quickest(cases, wanted, cells)))


def flaws(report: Report) -> list[Flaw]:
    """Every case that does not conform, backend by backend."""
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
    """A sentence for each backend, then what it took."""
    total = len(report.cases)
    for row in report.backends:
        if row.version is None:
            yield f"{row.name}: not available: {row.reason}."
            continue
        counts = report.counts[row.name]
        others = ", ".join(f"{counts[status]} {_plural(status)}" for status in STATUSES[1:] if counts[status])
        share = counts["conforms"] / total if total else 0.0
        rest = f"; {others}" if others else ""
        yield f"{row.name} {row.version}: {counts['conforms']} of {total} cases conform ({_percent(share)}){rest}."
    kept = "all known from an earlier time; --again measures anew"
    told = f"{report.measured} results measured in {report.took_s:.0f} s" if report.measured else kept
    yield f"With {report.threads} {'thread' if report.threads == 1 else 'threads'}; {told}."
    if report.doubtful:
        yield (
            f"{report.doubtful} of the results kept were measured when this device was not in a state worth "
            "measuring; their times may be too long: --again measures anew."
        )


def roofline_note(report: Report) -> str:
    """Why shares are missing, where they are; empty where none is."""
    timed = [f for case in report.cases for f in case.results.values() if f.measured.time_us]
    reasons = dict.fromkeys(f.roofline_reason for f in timed if f.roofline_reason)
    if not reasons:
        return ""
    amount = "No" if all(f.roofline_reason for f in timed) else "Some cells have no"
    return f"{amount} share of the roofline: {'; '.join(reasons)}."


def _plural(status: Status) -> str:
    return {"deviates": "deviate"}.get(status, status)


def _percent(share: float) -> str:
    """Never rounded up to all."""
    return "100 %" if share == 1 else f"{min(share, 0.999):.1%}".replace("%", " %")


def _cell(cases: Sequence[CaseRow], column: Column) -> Cell:
    found = _figures(cases, column)
    if not found:
        return Cell(None)
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
    return Cell(worst, " ".join(parts))


def _whole_percent(share: float) -> str:
    if share < 0.01:
        return "<1%"
    return f"{share:.0%}" if share < 10 else ">999%"


def _with_quickest(cases: Sequence[CaseRow], wanted: Sequence[Column], cells: list[Cell]) -> Iterator[Cell]:
    times = {column: _time_us(cases, column) for column in wanted}
    for column, cell in zip(wanted, cells, strict=True):
        rivals = [t for other, t in times.items() if other.precision == column.precision and t is not None]
        own = times[column]
        is_quickest = len(rivals) > 1 and own is not None and own == min(rivals)
        yield msgspec.structs.replace(cell, is_quickest=is_quickest)


def _time_us(cases: Sequence[CaseRow], column: Column) -> float | None:
    found = _figures(cases, column)
    return found[-1].measured.time_us if found else None


def _figures(cases: Sequence[CaseRow], column: Column) -> list[Figures]:
    """From small to large."""
    own = (case.results.get(column.backend) for case in cases if case.precision == column.precision)
    return [figures for figures in own if figures is not None]


def duration(time_us: float) -> str:
    """Three digits: `12.3 µs`, `1.23 ms`, `0.41 s`."""
    if time_us < 999.5:
        return f"{time_us:.3g} µs" if time_us < 99.95 else f"{time_us:.0f} µs"
    milliseconds = time_us / 1e3
    if milliseconds < 999.5:
        return f"{milliseconds:.2f} ms" if milliseconds < 9.995 else f"{milliseconds:.3g} ms"
    return f"{milliseconds / 1e3:.2f} s"
