"""`edgeopt cost`: what the work costs on a device, and whether the faster way is worth it."""

from typing import TYPE_CHECKING

from edgeopt.cli.bench import without_info
from edgeopt.cli.console import JsonFlag, execute
from edgeopt.cli.from_request import asks
from edgeopt.commands.cost.request import Request

if TYPE_CHECKING:
    from edgeopt.commands.cost.figures import CostReport
    from edgeopt.commands.documents.blocks import Block
    from edgeopt.events import Emit


@asks(Request)
def cost(request: Request, json: JsonFlag = False) -> None:
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

    def work(emit: "Emit") -> "CostReport":
        from edgeopt.commands.cost.cost import cost as work_out

        return work_out(request, emit if json else without_info(emit))

    execute("cost", work, show, json)


def show(report: "CostReport") -> "list[Block]":
    """The devices side by side, what to do about each, and what the figures rest on."""
    from edgeopt.cli.cost_rows import circumstance_lines, devices_table
    from edgeopt.commands.documents.blocks import lines, section

    advice = [f"{cost.name}: {cost.advice}. {cost.reason}" for cost in report.costs]
    notes = lines((f"note: {note}" for note in report.notes), "warning")
    return [
        devices_table(report),
        section("", *lines([*advice, report.cheapest], "strong")),
        section("", *lines(circumstance_lines(report)), *notes),
    ]
