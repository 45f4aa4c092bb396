"""`edgeopt.bench` from Python."""

from collections.abc import Iterable
from pathlib import Path
from typing import Literal, Unpack, cast, overload

from edgeopt.backends.options import as_texts
from edgeopt.commands.bench.bench import Report
from edgeopt.commands.bench.bench import bench as measure
from edgeopt.commands.bench.request import BenchKeywords, CommonBenchKeywords, Request
from edgeopt.commands.bench.sweep import SweepReport
from edgeopt.data.samples import as_file
from edgeopt.events import Emit, ignore
from edgeopt.keywords import read, takes
from edgeopt.measure.report import ContestReport
from edgeopt.measure.workloads.records import (
    ColdReport,
    ConcurrencyReport,
    GenerateReport,
    PacedReport,
    SustainedReport,
)
from edgeopt.workspace import WORK, workspace

Subject = str | Path | None


@overload
def bench(
    subject: Subject = None,
    *,
    duty: Literal["steady"] = "steady",
    emit: Emit = ignore,
    **keywords: Unpack[CommonBenchKeywords],
) -> ContestReport: ...


@overload
def bench(
    subject: Subject = None,
    *,
    duty: Literal["generate"],
    prompt_tokens: int | None = None,
    new_tokens: int | None = None,
    emit: Emit = ignore,
    **keywords: Unpack[CommonBenchKeywords],
) -> GenerateReport: ...


@overload
def bench(
    subject: Subject = None, *, duty: Literal["cold"], emit: Emit = ignore, **keywords: Unpack[CommonBenchKeywords]
) -> ColdReport: ...


@overload
def bench(
    subject: Subject = None,
    *,
    duty: Literal["paced"],
    rate_per_s: float,
    emit: Emit = ignore,
    **keywords: Unpack[CommonBenchKeywords],
) -> PacedReport: ...


@overload
def bench(
    subject: Subject = None,
    *,
    duty: Literal["sustained"],
    minutes: float | None = None,
    emit: Emit = ignore,
    **keywords: Unpack[CommonBenchKeywords],
) -> SustainedReport: ...


@overload
def bench(
    subject: Subject = None,
    *,
    concurrency: Iterable[int] = (),
    processes: Iterable[int] = (),
    emit: Emit = ignore,
    **keywords: Unpack[CommonBenchKeywords],
) -> ConcurrencyReport: ...


@overload
def bench(
    subject: Subject = None,
    *,
    sweep: str,
    runs: int | None = None,
    emit: Emit = ignore,
    **keywords: Unpack[CommonBenchKeywords],
) -> SweepReport: ...


@takes(Request, BenchKeywords)
def bench(subject: Subject = None, *, emit: Emit = ignore, **keywords: object) -> Report:
    """Measures a model, bundle, program or served model, alone or interleaved with others.

    `against` names the other sides: a file, an address, a backend, or options, as on the command line.
    The report says how many times faster the first side is than each other one, with an interval and a verdict.
    `data` is a file, a folder, arrays by input name with samples along the first axis, or any iterable of feeds;
    without it a bundle's golden inputs, or generated ones. With `duty="generate"`, `data` is a text file or an
    `.npz` of token ids; without `duty`, single runs of language models are measured, not their answers.
    `duty`, `concurrency`, `processes` and `sweep` measure other workloads, and each has its own kind of report:
    see docs/measuring.md.
    `max_slowdown` (0.02 or "2%") and `min_speedup` (1.1 or "1.1x") are limits; `report.judgement.passed` says
    whether the intervals keep to them.
    """
    values = cast("BenchKeywords", {"duty": "steady", **keywords})  # so that the call alone decides on the report
    with workspace(WORK) as folder:
        data, options = as_file(values.get("data"), folder), as_texts(values.get("options") or {})
        return measure(read(Request, {**values, "subject": subject, "data": data, "options": options}), emit)
