"""`edgeopt bench`: how fast, and how much faster than another."""

from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

from edgeopt.cli import bench_compare, program
from edgeopt.cli.bench_compare import compare
from edgeopt.cli.console import JsonFlag, MarkdownFlag, OnDevice, asks, execute, failure_as_page, refuse_two_voices
from edgeopt.commands.bench.request import Request
from edgeopt.errors import EXIT_CANCELLED, EXIT_TERMINATED, InputError, exit_code_of
from edgeopt.events import Log

if TYPE_CHECKING:
    from edgeopt.commands.bench.bench import Report
    from edgeopt.commands.bench.suite import SuiteReport
    from edgeopt.events import Emit, Event
    from edgeopt.measure.report import Judgement


@asks(Request)
def measure(request: Request, on: OnDevice = None, markdown: MarkdownFlag = False, json: JsonFlag = False) -> None:
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
    from edgeopt.commands.bench.limits import exit_code

    unwritten: list[str] = []

    def work(emit: "Emit") -> "Report | SuiteReport":
        from edgeopt.commands.bench.bench import bench, bench_suite

        refuse_two_voices(json, markdown)
        heard = emit if json else without_info(emit)
        subject = request.suite or request.subject or request.url or request.baseline_command
        with failure_as_page(f"edgeopt bench: {subject}", markdown):
            if on is not None:
                from edgeopt.commands.on_device import bench_on

                return bench_on(on, request, heard)
            if request.suite is not None:
                return bench_suite(request.suite, request, heard, unwritten)
            return bench(request, heard, unwritten)

    report = execute("bench-suite" if request.suite else "bench", work, written if markdown else shown, json)
    judged: Judgement | None = getattr(report, "judgement", None)
    bench_compare.tell_broken(judged, getattr(report, "measured_while", ""), json)
    if code := exit_code(judged, _exit_code(report) or (InputError.exit_code if unwritten else 0)):
        raise typer.Exit(code)


def _exit_code(report: "Report | SuiteReport") -> int:
    """The exit code of a command with a report, which may still not have done everything."""
    from edgeopt.commands.bench.suite import SuiteReport
    from edgeopt.measure.workloads.records import SustainedReport

    if isinstance(report, SuiteReport):
        return report.exit_code
    if isinstance(report, SustainedReport) and report.stopped_by:
        return EXIT_CANCELLED if report.stopped_by == "interrupt" else EXIT_TERMINATED
    sides = getattr(report, "sides", ())
    parts = (*sides, *(level for side in sides for level in getattr(side, "levels", ())))
    failed = [part for part in (*parts, *getattr(report, "points", ())) if getattr(part, "failure", None)]
    # The trial may have said itself what kind of mistake it was, such as a value that an option does not take.
    return max((exit_code_of(getattr(part, "failure_code", "")) for part in failed), default=0)


def without_info(emit: "Emit") -> "Emit":
    """Returns an emitter without info logs for people: facts that the device does not report are just absent."""

    def tell(event: "Event") -> None:
        if not isinstance(event, Log) or event.level != "info":
            emit(event)

    return tell


class _MeasureUnlessCompare(TyperGroup):
    """`edgeopt bench compare` is a command of its own; anything else is what to measure."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:  # noqa: ANN401 - the signature of typer's own
        if args and args[0] in self.commands and args[0] != measure.__name__:
            return super().make_context(info_name, args, parent, **extra)
        return self.commands[measure.__name__].make_context(info_name, args, parent, **extra)


def _bench() -> None:
    """Measure and compare models, bundles, servers and programs, with confidence intervals."""


bench = program.application(_bench, measure, compare)
bench.info.cls = _MeasureUnlessCompare
