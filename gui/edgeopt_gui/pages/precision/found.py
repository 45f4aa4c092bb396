"""The result of `edgeopt quantize` as the page's records; slow to import because of numpy."""

from typing import Any

import msgspec

from edgeopt.cli.quantize import about, scheme_counts
from edgeopt.decoding import thread_safe
from edgeopt.measure.stats import with_open_ends
from edgeopt.quant.measured.records import METHODS, Quantized
from edgeopt.quant.records import FrontierPoint, PrecisionPlan
from edgeopt_gui.pages.optimize.in_the_app import without_flags
from edgeopt_gui.pages.precision.rows import LayerFacts, PlanPoint, PlanReport

__all__ = ["METHODS", "read_report", "report_of"]


def read_report(data: dict[str, Any]) -> PlanReport:
    """Raises `msgspec.ValidationError` if the data is not the result of `edgeopt quantize`."""
    return report_of(msgspec.convert(with_open_ends(data), thread_safe(Quantized)))


def report_of(found: Quantized) -> PlanReport:
    plan, speedup = found.plan, found.speedup and found.speedup.stated
    report = PlanReport(
        found.summary,
        # The core names the option of the command line, which the page has as a field.
        tuple(line.replace(" (--data)", "") for line in about(found)),
        (speedup.low, speedup.median, speedup.high) if speedup is not None else None,
        str(speedup or ""),
        notes=tuple(map(without_flags, (*found.warnings, *(each.sentence for each in found.findings)))),
        files=tuple(file.path for file in found.files),
    )
    return report if plan is None else _with_plan(report, plan)


def _with_plan(report: PlanReport, plan: PrecisionPlan) -> PlanReport:
    return report._replace(
        points=tuple(_point(point, plan) for point in plan.frontier),
        floor_db=plan.floor_db or None,
        layers=tuple(LayerFacts(v.layer, v.scheme, v.reason, v.snr_db, v.saves_ms) for v in plan.verdicts),
        errors_db={(each.layer, each.scheme): each.snr_db for each in plan.sensitivities},
        savings_ms={(each.layer, each.scheme): each.saves_ms for each in plan.gains},
    )


def _point(point: FrontierPoint, plan: PrecisionPlan) -> PlanPoint:
    return PlanPoint(
        point.choices,
        scheme_counts(point),
        point.expected_ms,
        point.expected_db,
        point.snr_db,
        point.low_db,
        point.speedup,
        point.choices == plan.chosen.choices,
    )
