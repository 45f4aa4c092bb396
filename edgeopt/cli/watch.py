"""`edgeopt watch`: how a model or bundle fares, live."""

import sys
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from edgeopt.cli.console import JsonFlag, Outcome, Show, asks, execute
from edgeopt.commands.bench.request import WatchRequest
from edgeopt.errors import legible
from edgeopt.events import Emit, Event, Log, Metric, Progress
from edgeopt.views.blocks import Block, lines
from edgeopt.views.words import MEMORY, memory

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from edgeopt.measure.watch import WatchReport

# Drawn four times a second: drawing takes time from the model that is measured.
_DRAW_S = 0.25
_LINE_S = 1.0
_HISTORY = 600
_BARS = "▁▂▃▄▅▆▇█"
_MIB = 2.0**20
ROWS = (
    # (title, metric, what to multiply by, format)
    ("latency", "latency_ms", 1.0, "{:.3f} ms"),
    ("  p50", "latency_p50_ms", 1.0, "{:.3f} ms"),
    ("  p90", "latency_p90_ms", 1.0, "{:.3f} ms"),
    ("  p99", "latency_p99_ms", 1.0, "{:.3f} ms"),
    ("throughput", "throughput_per_s", 1.0, "{:,.1f} /s"),
    ("first token", "first_token_p50_ms", 1.0, "{:,.1f} ms"),
    ("tokens", "tokens_per_s", 1.0, "{:,.1f} /s"),
    ("requests sent", "sent_per_s", 1.0, "{:,.1f} /s"),
    ("requests failed", "failed_requests", 1.0, "{:,.0f}"),
    ("memory, process", "process_memory_bytes", 1 / _MIB, "{:,.0f} MiB"),
    ("memory, agent", "agent_memory_bytes", 1 / _MIB, "{:,.0f} MiB"),
    ("memory, device", "device_memory_bytes", 1 / _MIB, "{:,.0f} MiB"),
    ("memory, GPU", "gpu_memory_bytes", 1 / _MIB, "{:,.0f} MiB"),
    ("load, all cores", "load_percent", 1.0, "{:.0f} %"),
    ("clock", "clock_hz", 1e-6, "{:,.0f} MHz"),
    ("temperature", "temperature_c", 1.0, "{:.1f} °C"),
)


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

    from edgeopt.commands.bench.bench import watch as watch_subject

    live(lambda emit: watch_subject(request, emit), show, json)


def live(work: Callable[[Emit], Outcome], show: "Show[Outcome]", json: bool) -> None:
    """Does the work of a `watch`, and shows its figures as they come."""
    if json:
        execute("watch", work, show, json)
        return

    display = LiveTable() if sys.stdout.isatty() else PlainLines()

    def shown(emit: Emit) -> Outcome:
        with display:
            return work(lambda event: display.update(event, emit))

    execute("watch", shown, show)


def show(report: "WatchReport") -> tuple[Block, ...]:
    """Returns the report in a few lines."""
    rate = f"{report.throughput_per_s:,.1f} a second"
    texts = [f"{report.subject}: {report.runs:,} runs in {report.seconds:.1f} s ({rate})"]
    if report.p50_ms is not None:
        latency = f"latency p50 {report.p50_ms:.3f} ms, p90 {report.p90_ms:.3f} ms, p99 {report.p99_ms:.3f} ms"
        texts.append(f"{latency}; loaded in {report.load_ms:.0f} ms")
    if report.peak_memory_bytes is not None:
        from edgeopt.measure.messages import Memory

        peaks = Memory(peak_bytes=report.peak_memory_bytes, added_bytes=report.added_memory_bytes)
        texts.append(f"{MEMORY.lower()} {memory(peaks)}")
    if report.missed_runs:
        texts.append(f"{report.missed_runs:,} runs were left out: they came due while another ran")
    return lines(texts)


# What goes up and down a lot is drawn against its own range, the rest from zero.
_FROM_ZERO = frozenset({"throughput_per_s", "load_percent"})


class LiveTable:
    """One table that stays in place; its last state is left on the screen."""

    def __init__(self, console: "Console | None" = None) -> None:
        from rich.console import Console
        from rich.live import Live

        self._console = console or Console(highlight=False)
        self._live = Live(console=self._console, auto_refresh=False, transient=False)
        self._values: dict[str, deque[float]] = {}
        self._subject, self._phase = "", "starting"
        self._drawn = 0.0
        self._begin = time.monotonic()

    def __enter__(self) -> "LiveTable":
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        # What was there before the first run is of no use afterwards.
        self._live.transient = not self._values
        if self._values:
            self._draw()
        self._live.stop()

    def update(self, event: Event, emit: Emit) -> None:
        """Draws what it understands and hands the rest on."""
        if isinstance(event, Metric):
            self._subject = event.subject or self._subject
            self._values.setdefault(event.name, deque(maxlen=_HISTORY)).append(event.value)
        elif isinstance(event, Progress):
            self._phase, self._subject = event.phase, event.message
            self._begin, self._drawn = time.monotonic(), 0.0
        elif isinstance(event, Log) and event.level == "info":
            return  # what this device does not tell is not in the table
        else:
            emit(event)
        if time.monotonic() - self._drawn >= _DRAW_S:
            self._draw()

    def _draw(self) -> None:
        self._drawn = time.monotonic()
        self._live.update(self.render(), refresh=True)

    def render(self) -> "RenderableType":
        """The table as it is now."""
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        seconds = int(time.monotonic() - self._begin)
        head = Text.assemble(
            (legible(self._subject), "bold"),
            f"  {legible(self._phase)} for {seconds // 60}:{seconds % 60:02d}  ",
            ("Ctrl-C ends", "dim"),
        )
        table = Table(box=None, show_header=False, pad_edge=False)
        table.add_column(no_wrap=True)
        table.add_column(no_wrap=True, justify="right", style="bold", min_width=12)
        table.add_column(no_wrap=True)
        width = max(8, min(60, self._console.width - 36))
        for title, name, factor, shape in ROWS:
            values = self._values.get(name)
            if values:
                bars = Text(sparkline(list(values)[-width:], from_zero=name in _FROM_ZERO), "cyan")
                table.add_row(title, shape.format(values[-1] * factor), bars)
        return Group(head, table)


class PlainLines:
    """A line a second, for a file or a pipe."""

    def __init__(self) -> None:
        self._values: dict[str, float] = {}
        self._printed_s: float | None = None

    def __enter__(self) -> "PlainLines":
        return self

    def __exit__(self, *_: object) -> None:
        """Does nothing: no resource is open."""

    def update(self, event: Event, emit: Emit) -> None:
        if not isinstance(event, Metric):
            emit(event)
            return
        self._values[event.name] = event.value
        self._printed_s = self._printed_s or time.monotonic()
        # The last one of a tick, so that a line holds what belongs together.
        if event.name == "throughput_per_s" and time.monotonic() - self._printed_s >= _LINE_S:
            self._printed_s = time.monotonic()
            print(plain_line(self._values), flush=True)


def plain_line(values: dict[str, float]) -> str:
    """The latest value of each metric, named."""
    shown = [(title.strip(), shape.format(values[n] * factor)) for title, n, factor, shape in ROWS if n in values]
    return ", ".join(f"{title} {value}" for title, value in shown)


def sparkline(values: list[float], from_zero: bool = False) -> str:
    """The values as little bars, the lowest (or zero) to the highest."""
    if not values:
        return ""
    low, high = 0.0 if from_zero else min(values), max(values)
    # A curve that hardly moves is drawn flat: a full-height zigzag would exaggerate noise.
    spread = max(high - low, 0.05 * abs(high)) or 1.0
    return "".join(_BARS[min(len(_BARS) - 1, int((value - low) / spread * len(_BARS)))] for value in values)
