"""`edgeopt watch`: how a model or bundle fares, live."""

import sys
from typing import TYPE_CHECKING

from edgeopt import units
from edgeopt.cli.console import JsonFlag, execute
from edgeopt.cli.from_request import asks
from edgeopt.measuring.request import WatchRequest

if TYPE_CHECKING:
    from rich.console import Console

    from edgeopt.bench.watch import WatchReport
    from edgeopt.events import Emit


@asks(WatchRequest)
def watch(request: WatchRequest, json: JsonFlag = False) -> None:
    """Run a model or bundle over and over and show latency, memory and load as they are.

    \b
    Percentiles are those of the last ten seconds. What only this device can tell (clock,
    temperature) is shown where it tells it.

    \b
    Examples:
      edgeopt watch model.edgeopt
      edgeopt watch model.onnx --data data.npz --rate 30 --seconds 60
      edgeopt watch model.onnx@openvino-cpu,threads=1
      edgeopt watch model.edgeopt --json | jq 'select(.name == "latency_p99_ms").value'
    """

    def work(emit: "Emit") -> "WatchReport":
        from edgeopt.measuring.watch import watch as watch_subject

        return watch_subject(request, emit)

    if json:
        execute("watch", work, show, json)
        return
    from edgeopt.cli.watch_display import LiveTable, PlainLines

    display = LiveTable() if sys.stdout.isatty() else PlainLines()

    def shown(emit: "Emit") -> "WatchReport":
        with display:
            return work(lambda event: display.tell(event, emit))

    execute("watch", shown, show)


def show(report: "WatchReport", console: "Console") -> None:
    """All of it in a line or two."""
    console.print(
        f"{report.subject}: {report.runs:,} runs in {report.seconds:.1f} s "
        f"({report.throughput_per_s:,.1f} a second)",
        markup=False,
    )
    if report.p50_ms is not None:
        console.print(
            f"latency p50 {report.p50_ms:.3f} ms, p90 {report.p90_ms:.3f} ms, p99 {report.p99_ms:.3f} ms; "
            f"loaded in {report.load_ms:.0f} ms",
            markup=False,
        )
    if report.peak_memory_bytes is not None:
        console.print(f"peak memory {units.size(report.peak_memory_bytes)}, runtime included", markup=False)
    if report.missed_runs:
        console.print(f"{report.missed_runs:,} runs were left out: they came due while another ran", markup=False)
