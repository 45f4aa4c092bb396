"""`edgeopt cost`: what the work costs on a device, and whether the faster way is worth it."""

from edgeopt.cli.bench import without_info
from edgeopt.cli.console import JsonFlag, asks, execute
from edgeopt.commands.cost.figures import CostReport, PriceTerms, RunCost, Span, count, number, span, times
from edgeopt.commands.cost.request import CostRequest
from edgeopt.views.blocks import Block, Table, columns, lines, rows, section

_BASELINE = "  with the baseline"


@asks(CostRequest)
def cost(request: CostRequest, json: JsonFlag = False) -> None:
    """Calculate the cost of a workload, the savings of a faster deployment, and its payback.

    Uses measurements only: the proof in a bundle, or a report saved by `edgeopt bench`. All figures
    carry the interval of the speed-up; if it includes 1x, no saving is claimed.

    \b
    Throughput is taken from counted runs if the measurement has them, otherwise from the latency of
    one request at a time. Costs assume the planned utilization (--utilization).

    \b
    Recommendations, compared with the baseline: "do it" if the saving pays back the work within
    --pay-back-months even at the lower end of the speed-up; "consider" if only at its middle;
    otherwise "not worth it".

    \b
    Examples:
      edgeopt cost model.edgeopt --price-per-hour 0.34
      edgeopt cost model.edgeopt --price-per-hour 0.34 --currency EUR --load 5000/s
      edgeopt cost model.edgeopt --price-per-hour 0.34 --devices 40 --engineering-hours 60 --rate 90
      edgeopt cost pi5=pi5.json orin=orin.json --price-per-hour pi5=0.02 --price-per-hour orin=0.11
      edgeopt cost model.edgeopt --measure --against model.onnx --concurrency 1,2 --price-per-hour 2
    """

    from edgeopt.commands.cost.cost import cost as work_out

    execute("cost", lambda emit: work_out(request, emit if json else without_info(emit)), show, json)


def show(report: CostReport) -> list[Block]:
    """The devices side by side, what to do about each, and what the figures rest on."""
    advice = [f"{cost.name}: {cost.advice}. {cost.reason}" for cost in report.costs]
    notes = lines((f"note: {note}" for note in report.notes), "warning")
    return [
        devices_table(report),
        section("", *lines([*advice, report.cheapest], "strong")),
        section("", *lines(circumstance_lines(report)), *notes),
    ]


def devices_table(report: CostReport) -> Table:
    """Figures down, devices across; rows in which no device has a figure are left out."""
    money = report.terms.currency
    figures: list[tuple[str, list[str]]] = [
        ("measured", [each.measured.side for each in report.costs]),
        ("baseline", [each.measured.baseline for each in report.costs]),
        ("throughput of", [each.measured.how for each in report.costs]),
        (f"{money} /h a device", [f"{each.price_per_hour:,g}" for each in report.costs]),
        ("inferences /s", [number(each.inferences_per_s) for each in report.costs]),
        (_BASELINE, [_span(each.baseline_inferences_per_s) for each in report.costs]),
        ("speed-up", [times(each.measured.speedup) if each.measured.speedup else "" for each in report.costs]),
        (f"{money} /million inferences", [number(each.million_inferences) for each in report.costs]),
        (_BASELINE, [_span(each.baseline_million_inferences) for each in report.costs]),
        (f"{money} /1,000 fps-hours", [number(each.thousand_fps_hours) for each in report.costs]),
        (_BASELINE, [_span(each.baseline_thousand_fps_hours) for each in report.costs]),
        ("saving %", [_span(each.saving_percent) for each in report.costs]),
        ("devices needed", [_count(each.devices) for each in report.costs]),
        (_BASELINE, [_count(each.baseline_devices) for each in report.costs]),
        (f"{money} /month", [_span(each.monthly_cost) for each in report.costs]),
        (_BASELINE, [_span(each.baseline_monthly_cost) for each in report.costs]),
        (f"{money} /month saved", [_span(each.monthly_saving) for each in report.costs]),
        ("months until it pays", [_span(each.break_even_months) for each in report.costs]),
        ("inferences until it pays", [_span(each.break_even_inferences) for each in report.costs]),
        ("recommendation", [each.advice for each in report.costs]),
    ]
    found = ((title, *cells) for title, cells in figures if any(cells))
    return Table(columns("=", *(f">{each.name}" for each in report.costs)), rows(*found))


def _span(found: Span | None) -> str:
    return span(found) if found else ""


def _count(found: Span | None) -> str:
    return count(found) if found else ""


def circumstance_lines(report: CostReport) -> list[str]:
    """Returns the lines on the basis of the figures."""
    terms = report.terms
    texts = [_planned(terms)]
    if any(each.measured.speedup for each in report.costs):
        texts.append(
            "Brackets: the figure at both ends of the speed-up's interval. The baseline is calculated "
            "from the throughput and the speed-up, because only interleaved runs can be compared."
        )
    return texts + [_origin(each) for each in report.costs]


def _planned(terms: PriceTerms) -> str:
    parts = [f"devices busy at most {terms.utilization_percent:g} % of the time (--utilization)"]
    parts.append(f"paid {terms.hours_per_day:g} h a day (--hours-per-day), 30.4 days a month")
    if terms.load_per_s is not None:
        parts.append(f"a load of {number(terms.load_per_s)} inferences /s")
    if terms.devices is not None:
        parts.append(f"the load that {terms.devices} devices carry now")
    if terms.batch > 1:
        parts.append(f"{terms.batch} inferences a run")
    if terms.engineering_cost is not None:
        parts.append(f"{terms.currency} {number(terms.engineering_cost)} of work")
    return f"Planned with {', '.join(parts)}."


def _origin(cost: RunCost) -> str:
    measured = cost.measured
    if measured.evidence == "measured now":
        return f"{cost.name}: measured now on this device, {measured.source}."
    what = "the proof in" if measured.evidence == "bundle" else "the saved run"
    when = f", of {measured.measured_at[:10]}" if measured.measured_at else ""
    return f"{cost.name}: {what} {measured.source}{when}."
