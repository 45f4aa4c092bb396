"""`edgeopt watch`: how a model or bundle fares, live."""

import sys
from typing import TYPE_CHECKING

from edgeopt import units
from edgeopt.cli.console import JsonFlag, execute
from edgeopt.cli.from_request import asks
from edgeopt.commands.bench.request import WatchRequest
from edgeopt.commands.documents.blocks import Block, lines

if TYPE_CHECKING:
    from edgeopt.events import Emit
    from edgeopt.measure.watch import WatchReport


@asks(WatchRequest)
def watch(request: WatchRequest, json: JsonFlag = False) -> None:
    """Run a model or bundle repeatedly and show latency, memory and load live.

    \b
    Ctrl-C or SIGTERM ends with the result of all runs and exit code 0. Percentiles cover the last ten
    seconds. Clock and temperature are shown if the device reports them.

    \b
    Examples:
      edgeopt watch model.edgeopt
      edgeopt watch model.onnx --data data.npz --rate 30 --seconds 60
      edgeopt watch model.onnx@openvino-cpu,threads=1
      edgeopt watch model.edgeopt --json | jq 'select(.name == "latency_p99_ms").value'
    """

    def work(emit: "Emit") -> "WatchReport":
        from edgeopt.commands.bench.bench import watch as watch_subject

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


def show(report: "WatchReport") -> tuple[Block, ...]:
    """All of it in a line or two."""
    rate = f"{report.throughput_per_s:,.1f} a second"
    said = [f"{report.subject}: {report.runs:,} runs in {report.seconds:.1f} s ({rate})"]
    if report.p50_ms is not None:
        latency = f"latency p50 {report.p50_ms:.3f} ms, p90 {report.p90_ms:.3f} ms, p99 {report.p99_ms:.3f} ms"
        said.append(f"{latency}; loaded in {report.load_ms:.0f} ms")
    if report.peak_memory_bytes is not None:
        said.append(f"peak memory {units.size(report.peak_memory_bytes)}, runtime included")
    if report.missed_runs:
        said.append(f"{report.missed_runs:,} runs were left out: they came due while another ran")
    return lines(said)
