"""Results of the jobs as the engine's records; slow to import because of numpy, so not before the first window."""

import math
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np

from edgeopt.cli import bench_rows, bench_workloads, compare
from edgeopt.commands.compare.records import ModelComparison
from edgeopt.decoding import thread_safe
from edgeopt.graph.analysis import Analysis
from edgeopt.measure.report import ContestReport, SideReport
from edgeopt.measure.stats import Interval, with_open_ends
from edgeopt.measure.workloads.records import GenerateReport, GenerateSide

_BINS = 60
_SMALLEST_MS = 1e-6
# Widens a narrow range, so that nearly equal runs form a peak in the middle and not one bar over the chart.
_NARROWEST = 2.0


class Distributions(NamedTuple):
    """The latencies of both sides in bins of equal factors from `low_ms` to `high_ms`."""

    low_ms: float
    high_ms: float
    first: tuple[int, ...]
    second: tuple[int, ...]


class Verdict(NamedTuple):
    sentence: str
    notes: tuple[str, ...]
    interval: Interval | None
    """Confidence interval of the speed-up of B over A; None if it is unknown."""


def read_comparison(data: dict[str, Any]) -> ModelComparison:
    """Raises `msgspec.ValidationError` for what is none; likewise the next ones."""
    return msgspec.convert(data, thread_safe(ModelComparison))


def read_analysis(data: dict[str, Any]) -> Analysis:
    return msgspec.convert(data, thread_safe(Analysis))


def read_measurement(data: dict[str, Any]) -> ContestReport | GenerateReport:
    """Reads a report of single runs, or of the answers of two language models."""
    kind: type[ContestReport | GenerateReport]
    kind = GenerateReport if data.get("duty") == "generate" else ContestReport
    return msgspec.convert(with_open_ends(data), thread_safe(kind))


def verdict_of(report: ContestReport | GenerateReport) -> Verdict:
    """Returns the verdict in the words of the command line."""
    if isinstance(report, GenerateReport):
        return _verdict_on_answers(report)
    sentence, *more = bench_rows.verdict_lines(report) or ["Nothing was compared."]
    notes = (*more, *bench_rows.circumstance_lines(report)[:2], *report.warnings)
    speedup = report.comparisons[0].speedup if report.comparisons else None
    return Verdict(sentence, notes, speedup and speedup.stated)


def _verdict_on_answers(report: GenerateReport) -> Verdict:
    sentence, *more = bench_workloads.answer_verdicts(report) or ["Nothing was compared."]
    notes = (*more, bench_workloads.answers_line(report), report.measured_while, *report.warnings)
    speedup = report.comparisons[0].speedup if report.comparisons else None
    return Verdict(sentence, tuple(filter(None, notes)), speedup and speedup.stated)


def accuracy_line(found: ModelComparison) -> str:
    return compare.verdict(found)


Side = TypeVar("Side", SideReport, GenerateSide)


def in_order(sides: tuple[Side, ...]) -> tuple[Side, Side]:
    """Returns sides A and B of a report, in which `edgeopt bench B --against A` puts B first."""
    second, first = sides[:2]
    return first, second


def distributions(first: SideReport | GenerateSide, second: SideReport | GenerateSide) -> Distributions | None:
    """Returns the histograms of both sides on common bins; None if a side has no runs.

    They are of the latencies of runs, or of the mean times of a token of each answer.
    """
    runs = [np.maximum(_times_ms(side), _SMALLEST_MS) for side in (first, second)]
    if not all(len(each) for each in runs):
        return None
    low = float(min(each.min() for each in runs))
    high = float(max(each.max() for each in runs))
    if high < low * _NARROWEST:
        middle = math.sqrt(low * high)
        low, high = middle / math.sqrt(_NARROWEST), middle * math.sqrt(_NARROWEST)
    counts = []
    for each in runs:
        places = np.log(each / low) * (_BINS / math.log(high / low))
        counts.append(np.bincount(np.clip(places.astype(np.int64), 0, _BINS - 1), minlength=_BINS))
    return Distributions(low, high, tuple(counts[0].tolist()), tuple(counts[1].tolist()))


def _times_ms(side: SideReport | GenerateSide) -> list[float]:
    if isinstance(side, GenerateSide):
        return list(side.tokens_ms)
    return [value for piece in side.slices for value in piece.latencies_ms]
