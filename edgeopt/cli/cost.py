"""`edgeopt cost`: what the work costs on a device, and whether the faster way is worth it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgeopt.cli.bench import without_info
from edgeopt.cli.console import JsonFlag, execute
from edgeopt.errors import UsageError

if TYPE_CHECKING:
    from edgeopt.costing.records import CostReport
    from edgeopt.documents.blocks import Block
    from edgeopt.events import Emit


def cost(
    subjects: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME=]BUNDLE|BENCH.json...",
            help="What was measured, a device each.",
            show_default=False,
        ),
    ] = None,
    price_per_hour: Annotated[
        list[str] | None,
        typer.Option(metavar="[NAME=]X", help="What a device costs in an hour; one for all, or one each."),
    ] = None,
    currency: Annotated[str, typer.Option(help="The currency of all prices (ISO 4217).")] = "USD",
    load: Annotated[
        str | None, typer.Option(metavar="N/s", help="How much work there is: 5000/s, 300k/min, 20M/day.")
    ] = None,
    devices: Annotated[
        int | None,
        typer.Option(metavar="N", help="Instead of --load: how many do it now, with the baseline."),
    ] = None,
    utilization: Annotated[
        float, typer.Option(metavar="PERCENT", help="How busy a device may be; the rest is reserve for peaks.")
    ] = 70.0,
    hours_per_day: Annotated[float, typer.Option(metavar="H", help="Hours of use a day, and paid.")] = 24.0,
    batch: Annotated[int, typer.Option(metavar="N", help="Inferences in one run of the model.")] = 1,
    engineering_hours: Annotated[
        float | None, typer.Option(metavar="H", help="Hours of work that the change takes; with --rate.")
    ] = None,
    rate: Annotated[float | None, typer.Option(metavar="X", help="What an hour of that work costs.")] = None,
    pay_back_months: Annotated[
        float, typer.Option(metavar="M", help="Work that pays for itself within so many months is worth it.")
    ] = 12.0,
    against: Annotated[
        str | None,
        typer.Option(metavar="OTHER", help="The baseline: a side of the saved run, or what to --measure against."),
    ] = None,
    measure: Annotated[bool, typer.Option("--measure", help="Measure now, on this device, like bench.")] = False,
    data: Annotated[Path | None, typer.Option(help="With --measure: samples.")] = None,
    concurrency: Annotated[
        str | None, typer.Option(metavar="1,2,4", help="With --measure: count runs of so many threads at once.")
    ] = None,
    processes: Annotated[
        str | None, typer.Option(metavar="1,2", help="With --measure: count runs of so many sessions at once.")
    ] = None,
    time_limit: Annotated[
        float | None, typer.Option(help="With --measure: so many seconds at most.", min=1)
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Say what the work costs on a device, what the faster way saves, and whether it is worth doing.

    All from measurements: the proof in a bundle, or what edgeopt bench saved. The speed-up's
    interval goes through all figures, and where it holds 1x no saving is claimed.

    \b
    Throughput that is worked out from a latency is that of one request at a time; runs that were
    counted are used where the measurement has them. A device is planned to be busy at most 70 %
    of the time (--utilization), and every cost is at that.

    \b
    Recommendations against the baseline: do it, when the saving pays back the work within
    --pay-back-months even at the lower end of the speed-up; consider, when only at its middle;
    not worth it otherwise.

    \b
    Examples:
      edgeopt cost model.edgeopt --price-per-hour 0.34
      edgeopt cost model.edgeopt --price-per-hour 0.34 --currency EUR --load 5000/s
      edgeopt cost model.edgeopt --price-per-hour 0.34 --devices 40 --engineering-hours 60 --rate 90
      edgeopt cost pi5=pi5.json orin=orin.json --price-per-hour pi5=0.02 --price-per-hour orin=0.11
      edgeopt cost model.edgeopt --measure --against model.onnx --concurrency 1,2 --price-per-hour 2
      edgeopt bench out.edgeopt --against model.onnx --save run.json; edgeopt cost run.json ...
    """

    def work(emit: "Emit") -> "CostReport":
        from edgeopt.costing.cost import Fresh, Request
        from edgeopt.costing.cost import cost as work_out
        from edgeopt.costing.records import Terms
        from edgeopt.costing.terms import read_load

        _check_measuring(measure, data=data, concurrency=concurrency, processes=processes, time_limit=time_limit)
        terms = Terms(
            currency=currency,
            utilization_percent=utilization,
            hours_per_day=hours_per_day,
            batch=batch,
            load_per_s=None if load is None else read_load(load),
            devices=devices,
            engineering_hours=engineering_hours,
            hourly_rate=rate,
            pay_back_months=pay_back_months,
        )
        fresh = Fresh(data, concurrency, processes, time_limit) if measure else None
        request = Request(tuple(subjects or ()), tuple(price_per_hour or ()), terms, against, fresh)
        return work_out(request, emit if json else without_info(emit))

    execute("cost", work, show, json)


def _check_measuring(measure: bool, **options: object) -> None:
    for name, value in options.items():
        if value is not None and not measure:
            option = f"--{name.replace('_', '-')}"
            raise UsageError(f"{option} is for measuring now.", f"Add --measure, or leave {option} out.")


def show(report: "CostReport") -> "list[Block]":
    """The devices side by side, what to do about each, and what the figures rest on."""
    from edgeopt.cli.cost_rows import circumstance_lines, devices_table
    from edgeopt.documents.blocks import lines, section

    advice = [f"{cost.name}: {cost.advice}. {cost.reason}" for cost in report.costs]
    notes = lines((f"note: {note}" for note in report.notes), "warning")
    return [
        devices_table(report),
        section("", *lines([*advice, report.cheapest], "strong")),
        section("", *lines(circumstance_lines(report)), *notes),
    ]
