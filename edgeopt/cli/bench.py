"""`edgeopt bench`: how fast, and how much faster than another."""

from typing import TYPE_CHECKING

import typer

from edgeopt.cli.console import (
    JsonFlag,
    MarkdownFlag,
    OnDevice,
    asks,
    execute,
    fail,
    failure_as_page,
    refuse_two_voices,
)
from edgeopt.commands.bench.request import Request
from edgeopt.errors import EXIT_CANCELLED, EXIT_TERMINATED, InputError, exit_code_of
from edgeopt.events import Error, Log

if TYPE_CHECKING:
    from edgeopt.commands.bench.bench import Report
    from edgeopt.events import Emit, Event
    from edgeopt.measure.report import Judgement


@asks(Request)
def bench(request: Request, on: OnDevice = None, markdown: MarkdownFlag = False, json: JsonFlag = False) -> None:
    """Measure and compare models, bundles, servers and programs, with confidence intervals.

    A side is FILE[@BACKEND[,option=value...]]. --against also takes a backend or options alone, which
    apply to the first side's model. A side may also be a model of another framework, named as for
    `edgeopt import`. Sides run interleaved, and rounds stop once the result is clear.

    --max-slowdown and --min-speedup are limits on the speed ratio of two sides, judged by its whole
    confidence interval. --max-slowdown 2% fails if the first side is proved to take more than 1.02
    times as long as another side. --min-speedup 1.1 fails unless it is proved to be 1.1 times as fast. A
    --max-slowdown inside the interval is undecided and passes; --undecided fail makes it fail. A
    limit also fails if a side could not be measured. The result is always printed first.

    \b
    Examples:
      edgeopt bench model.onnx
      edgeopt bench model.edgeopt --against model.onnx --data data.npz
      edgeopt bench new.onnx --against old.onnx --max-slowdown 2% --save run.json
      edgeopt bench model.onnx --sweep batch=1,2,4,8
      edgeopt bench model.edgeopt --against model.onnx --on ssh://pi@camera

    \b
    A program prints "ready" on its own line, then "done" after each run:
      edgeopt bench model.onnx --data data.npz --baseline-command "python mine.py"
      ---- mine.py
      import os, sys, numpy as np
      data = dict(np.load(os.environ["EDGEOPT_DATA"]))
      model = load_my_model()
      print("ready", flush=True)
      for line in sys.stdin:                     # "run 3": the fourth sample
          model(data["x"][int(line.split()[1])])
          print("done", flush=True)
    """
    from edgeopt.cli.bench_show import shown, written
    from edgeopt.commands.bench.limits import broken, exit_code

    unwritten: list[str] = []

    def work(emit: "Emit") -> "Report":
        from edgeopt.commands.bench.bench import bench as measure

        refuse_two_voices(json, markdown)
        emit_shown = emit if json else without_info(emit)
        subject = request.subject or request.url or request.baseline_command
        with failure_as_page(f"edgeopt bench: {subject}", markdown):
            if on is not None:
                from edgeopt.commands.on_device import bench_on

                return bench_on(on, request, emit_shown)
            return measure(request, emit_shown, unwritten)

    report = execute("bench", work, written if markdown else shown, json)
    judged: Judgement | None = getattr(report, "judgement", None)
    error = broken(judged, getattr(report, "measured_while", ""))
    if error is not None and not json:
        # On stderr, because the result may go into a page; programs read it in the result.
        fail(Error(error.code, error.message, error.hint), json)
    if code := exit_code(judged, _exit_code(report) or (InputError.exit_code if unwritten else 0)):
        raise typer.Exit(code)


def _exit_code(report: "Report") -> int:
    """The exit code of a command with a report, which may still not have done everything."""
    from edgeopt.measure.workloads.records import SustainedReport

    if isinstance(report, SustainedReport) and report.stopped_by:
        return EXIT_CANCELLED if report.stopped_by == "interrupt" else EXIT_TERMINATED
    sides = getattr(report, "sides", ())
    parts = (*sides, *(level for side in sides for level in getattr(side, "levels", ())))
    failed = [part for part in (*parts, *getattr(report, "points", ())) if getattr(part, "failure", None)]
    # The trial may have said itself what kind of mistake it was, such as a value that an option does not take.
    return max((exit_code_of(getattr(part, "failure_code", "")) for part in failed), default=0)


def without_info(emit: "Emit") -> "Emit":
    """Returns an emitter without info logs for people: facts that the device does not report are just absent."""

    def emit_unless_info(event: "Event") -> None:
        if not isinstance(event, Log) or event.level != "info":
            emit(event)

    return emit_unless_info
