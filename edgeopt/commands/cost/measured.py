"""From bundles and reports to what one device does: throughput, and the speed-up against a baseline."""

import math
from pathlib import Path
from typing import NamedTuple

import msgspec

from edgeopt.bundle.deployment import Evidence as Proof
from edgeopt.bundle.read import read_bundle
from edgeopt.commands.bench.bench import Report
from edgeopt.commands.bench.saved import read_result
from edgeopt.commands.cost.figures import Evidence, Measured, Span
from edgeopt.errors import BundleError, InputError
from edgeopt.measure.duties.records import ConcurrencyReport, ConcurrencySide, SustainedReport, SustainedSide
from edgeopt.measure.messages import Calls
from edgeopt.measure.report import Comparison, ContestReport, SideReport

_ALONE = "one request at a time"
_AGAIN = "Measure both together: edgeopt bench MODEL --against OTHER --save FILE"
_KINDS: dict[str, type[ContestReport] | type[ConcurrencyReport] | type[SustainedReport]] = {
    "steady": ContestReport,
    "concurrent": ConcurrencyReport,
    "sustained": SustainedReport,
}


def of_bundle(path: Path) -> Measured:
    """What was proved of a bundle; BundleError where nothing was."""
    deployment = read_bundle(path).deployment
    proof = deployment.evidence
    if proof is None:
        raise BundleError(
            f"The bundle '{path.name}' holds no evidence of its speed.",
            "Measure it now with --measure, or make it again with edgeopt optimize.",
        )
    figures = (proof.baseline_ms, proof.latency_ms, proof.speedup, *_throughputs(proof))
    if not all(value > 0 and math.isfinite(1e3 / value) for value in figures):
        raise BundleError(
            f"The evidence of the bundle '{path.name}' is invalid: a time or speed-up is not above 0.",
            "Measure it now with --measure, or make it again with edgeopt optimize.",
        )
    load = proof.load
    return Measured(
        source=str(path),
        evidence="bundle",
        side=f"{path.name} on {deployment.run.backend}",
        runs_per_s=1e3 / proof.latency_ms if load is None else load.samples_per_s,
        how=_ALONE if load is None else str(Calls(load.callers, load.batch)),
        counted=load is not None,
        baseline=proof.baseline,
        baseline_runs_per_s=1e3 / proof.baseline_ms if load is None else load.baseline_samples_per_s,
        speedup=Span(proof.speedup, proof.speedup_low, proof.speedup_high),
        verdict=proof.verdict,
        device=dict(deployment.device),
        measured_at=deployment.created,
    )


def _throughputs(proof: Proof) -> tuple[float, ...]:
    return () if proof.load is None else (proof.load.samples_per_s, proof.load.baseline_samples_per_s)


def of_saved_run(path: Path, against: str | None) -> Measured:
    """What `edgeopt bench --save` or `--json` wrote; InputError where that tells no throughput."""
    found = read_result(path)
    kind = _KINDS.get(str(found.get("duty", "")))
    if kind is None or "sides" not in found:
        raise InputError(
            f"'{path}' has no throughput: cold starts, paced runs, sweeps and suites do not measure it.",
            "Save an interleaved run, with --concurrency, or with --duty sustained.",
        )
    try:
        report = msgspec.convert(found, kind)
    except msgspec.ValidationError as error:
        raise InputError(f"'{path}' is not a saved run: {error}.", _AGAIN) from error
    return of_report(report, str(path), "saved run", against)


def of_report(report: Report, source: str, evidence: Evidence, against: str | None) -> Measured:
    """The first side of a report against its baseline: the side that is named, else the first that it ran with."""
    if not isinstance(report, ContestReport | ConcurrencyReport | SustainedReport):
        raise InputError(f"'{source}' has no throughput.", _AGAIN)
    subject, baseline = _sides([side.name for side in report.sides], source, against)
    sides = {side.name: _throughput(side) for side in report.sides}
    own, other = sides[subject], sides[baseline] if baseline else None
    if own.per_s is None or own.failure:
        why = (own.failure or "it did not run").rstrip(".")
        raise InputError(f"In '{source}', {subject} did not finish: {why}.", "Measure again.")
    if not (math.isfinite(own.per_s) and own.per_s > 0):
        raise InputError(f"'{source}' has no throughput: no run was completed.", "Measure again.")
    if not isinstance(report, SustainedReport):
        speedup, verdict, notes = _compared(report.comparisons, subject, baseline)
    else:
        said = f"Sides of a sustained run are not interleaved, so the saving over {baseline} is unknown."
        speedup, verdict, notes = None, "", (said,) if baseline else ()
    if isinstance(report, ConcurrencyReport) and other is not None and other.per_s is not None:
        notes = (f"The baseline has the highest throughput with {other.how}.", *notes)
    return Measured(
        source=source,
        evidence=evidence,
        side=subject,
        runs_per_s=own.per_s,
        how=own.how,
        counted=True,
        baseline=baseline,
        baseline_runs_per_s=other.per_s if other else None,
        speedup=speedup,
        verdict=verdict,
        device=report.device if isinstance(report, ContestReport) else {},
        measured_at=report.measured_at if isinstance(report, ContestReport) else "",
        notes=(*notes, *report.warnings),
    )


class _Throughput(NamedTuple):
    per_s: float | None
    how: str = _ALONE
    failure: str | None = None
    """Why the side cannot be used."""


def _throughput(side: SideReport | ConcurrencySide | SustainedSide) -> _Throughput:
    """What a side does most: alone, on several threads, or in several processes."""
    if isinstance(side, SideReport):
        return _Throughput(side.figures.throughput_per_s if side.figures else None, failure=side.failure)
    if isinstance(side, SustainedSide):
        how = f"{_ALONE}, sustained for {side.seconds / 60:.3g} min"
        return _Throughput(side.throughput_per_s, how, side.failure if side.throughput_per_s is None else None)
    ran = [level for level in side.levels if level.throughput_per_s is not None]
    if not ran:
        return _Throughput(None, failure=next((level.failure for level in side.levels if level.failure), None))
    best = max(ran, key=lambda level: level.throughput_per_s or 0.0)
    how = _ALONE if best.count == 1 else f"{best.count} concurrent {best.kind}"
    return _Throughput(best.throughput_per_s, how)


def _sides(names: list[str], source: str, against: str | None) -> tuple[str, str]:
    """The first side, and the baseline: empty if there is none."""
    if not names:
        raise InputError(f"'{source}' holds no side that ran.", "Measure again.")
    if against is None:
        return names[0], names[1] if len(names) > 1 else ""
    if against not in names[1:]:
        others = ", ".join(f"'{name}'" for name in names[1:]) or "none"
        raise InputError(
            f"{names[0]} was not measured against '{against}' in '{source}'; its other sides: {others}.",
            "Name one of them with --against, or measure again.",
        )
    return names[0], against


def _compared(
    comparisons: tuple[Comparison, ...], subject: str, baseline: str
) -> tuple[Span | None, str, tuple[str, ...]]:
    """The speed-up with its sentence, or the reason why there is none."""
    if not baseline:
        return None, "", ()
    found = next((each for each in comparisons if (each.first, each.second) == (subject, baseline)), None)
    if found is None:
        return None, "", (f"There is no speed-up over {baseline}: the two never ran in the same round.",)
    ratio = found.speedup
    return Span(ratio.median, ratio.low, ratio.high), found.verdict, ()
