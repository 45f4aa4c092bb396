"""`edgeopt.bench` from Python."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal, TypedDict, Unpack, overload

from edgeopt.backends.base import Options
from edgeopt.bench.duties.records import ColdReport, ConcurrencyReport, PacedReport, SustainedReport
from edgeopt.bench.report import ContestReport
from edgeopt.data.given import Data, as_file
from edgeopt.events import Emit, ignore
from edgeopt.measuring.bench import Report
from edgeopt.measuring.bench import bench as measure
from edgeopt.measuring.naming import as_texts
from edgeopt.measuring.request import Duty, Request
from edgeopt.measuring.sides import Settings
from edgeopt.measuring.sweep_report import SweepReport
from edgeopt.workspace import WORK, workspace

Against = str | Path | Sequence[str | Path]
"""What a side is, as on the command line: a file, `FILE@BACKEND,option=value`, an address, a backend, options."""


class Wishes(TypedDict, total=False):
    """What every kind of measurement takes."""

    against: Against
    baseline_command: str | None
    url: str | None
    backend: str | None
    options: Options | None
    data: Data | None
    threads: int | str | None
    strict: bool
    counters: bool
    custom_ops: Iterable[str | Path]
    load_timeout_s: float | None
    rounds: int | None
    time_limit_s: float | None
    trace: str | Path | None
    save: str | Path | None
    max_slowdown: float | str | None
    min_speedup: float | str | None
    emit: Emit


@overload
def bench(
    subject: str | Path | None = None, *, duty: Literal["steady"] = "steady", **wishes: Unpack[Wishes]
) -> ContestReport: ...


@overload
def bench(subject: str | Path | None = None, *, duty: Literal["cold"], **wishes: Unpack[Wishes]) -> ColdReport: ...


@overload
def bench(
    subject: str | Path | None = None, *, duty: Literal["paced"], rate_per_s: float, **wishes: Unpack[Wishes]
) -> PacedReport: ...


@overload
def bench(
    subject: str | Path | None = None,
    *,
    duty: Literal["sustained"],
    minutes: float | None = None,
    **wishes: Unpack[Wishes],
) -> SustainedReport: ...


@overload
def bench(
    subject: str | Path | None = None,
    *,
    concurrency: Iterable[int] = (),
    processes: Iterable[int] = (),
    **wishes: Unpack[Wishes],
) -> ConcurrencyReport: ...


@overload
def bench(
    subject: str | Path | None = None, *, sweep: str, runs: int | None = None, **wishes: Unpack[Wishes]
) -> SweepReport: ...


def bench(  # noqa: PLR0913 - all but the first are optional and given by name
    subject: str | Path | None = None,
    *,
    against: Against = (),
    baseline_command: str | None = None,
    url: str | None = None,
    backend: str | None = None,
    options: Options | None = None,
    data: Data | None = None,
    threads: int | str | None = None,
    strict: bool = False,
    counters: bool = False,
    custom_ops: Iterable[str | Path] = (),
    load_timeout_s: float | None = None,
    rounds: int | None = None,
    time_limit_s: float | None = None,
    duty: Duty = "steady",
    rate_per_s: float | None = None,
    minutes: float | None = None,
    concurrency: Iterable[int] = (),
    processes: Iterable[int] = (),
    sweep: str | None = None,
    runs: int | None = None,
    trace: str | Path | None = None,
    save: str | Path | None = None,
    max_slowdown: float | str | None = None,
    min_speedup: float | str | None = None,
    emit: Emit = ignore,
) -> Report:
    """Measures a model, bundle, program or served model, alone or in turns with others.

    `against` names what runs in turns with it: a file, an address, a backend, or options, as on the command line.
    The report says how many times faster the first side is than each other one, with an interval and a verdict.
    `data` is a file, a folder, arrays by input name with samples along the first axis, or any iterable of feeds;
    without it a bundle's golden inputs, or generated ones. `duty`, `concurrency`, `processes` and `sweep` measure
    something else than runs in turns, and each gives a report of its own kind: see docs/measuring.md.
    `max_slowdown` (0.02 or "2%") and `min_speedup` (1.1 or "1.1x") are limits; `report.judgement.passed` says
    whether the intervals keep to them.
    """
    with workspace(WORK) as folder:
        settings = Settings(
            data=as_file(data, folder),
            custom_ops=tuple(str(library) for library in custom_ops),
            strict=strict,
            counters=counters,
            threads=None if threads is None else str(threads),
            load_timeout_s=load_timeout_s,
        )
        request = Request(
            subject=None if subject is None else str(subject),
            against=(str(against),) if isinstance(against, str | Path) else tuple(str(each) for each in against),
            baseline_command=baseline_command,
            url=url,
            backend=backend,
            options=as_texts(options or {}),
            settings=settings,
            rounds=rounds,
            time_limit_s=time_limit_s,
            duty=duty,
            rate_per_s=rate_per_s,
            minutes=minutes,
            concurrency=_listed(concurrency),
            processes=_listed(processes),
            sweep=sweep,
            runs=runs,
            trace=None if trace is None else Path(trace),
            save=None if save is None else Path(save),
            max_slowdown=None if max_slowdown is None else str(max_slowdown),
            min_speedup=None if min_speedup is None else str(min_speedup),
        )
        return measure(request, emit)


def _listed(counts: Iterable[int]) -> str | None:
    return ",".join(map(str, counts)) or None
