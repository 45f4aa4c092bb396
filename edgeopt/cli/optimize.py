"""`edgeopt optimize`: the main job."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgeopt import units
from edgeopt.cli.console import JsonFlag, OnDevice, as_commands, asks, execute, next_steps
from edgeopt.commands.optimize import OptimizeSourceRequest
from edgeopt.errors import UsageError
from edgeopt.options import changed
from edgeopt.views.blocks import Block, Row, Table, WordsBlock, columns, lines, section

if TYPE_CHECKING:
    from edgeopt.commands.predict.records import PredictedCandidate, PredictedOutcome
    from edgeopt.events import Emit
    from edgeopt.pipeline.outcome import Outcome


@asks(OptimizeSourceRequest)
def optimize(
    settings: OptimizeSourceRequest,
    device: Annotated[
        Path | None,
        typer.Option(
            "--device",
            metavar="RECORD",
            help="Plan for another device: a file of `probe --json`, or a folder of `probe --record`.",
        ),
    ] = None,
    on: OnDevice = None,
    json: JsonFlag = False,
) -> None:
    """Find the fastest way to run a model on this device, prove it, and write a bundle.

    \b
    Candidates run interleaved with plain ONNX Runtime and are checked on samples that were not used
    for calibration. If no candidate is proved faster, the bundle holds your model unchanged, and the
    table says why. Ctrl-C ends the search with the best candidate so far, if a short proof confirms
    it; a second Ctrl-C ends at once.

    \b
    Examples:
      edgeopt optimize model.onnx --data data.npz -o model.edgeopt
      edgeopt optimize m.onnx --data d.npz -o m.edgeopt --metric top1-labels --max-drop 0.5%
      edgeopt optimize model.onnx --data data.npz -o new.edgeopt --baseline model.edgeopt
      edgeopt optimize model.onnx --data data.npz -o pi.edgeopt --on ssh://pi@camera
      edgeopt optimize net.py:Net --data data.npz -o net.edgeopt --python ~/ml/bin/python

    \b
    A model of another framework is imported first, as OUT.imported.onnx with OUT.imported.npz: see
    `edgeopt import`. At the end, the bundle is measured against the model in its framework too.
    """
    from edgeopt.commands.optimize import optimize_source, search_files

    def shown(outcome: "Outcome") -> list[Block]:
        from edgeopt.views.outcome import show

        return [*show(outcome), next_steps(settings.out, *search_files(settings), pre=settings.pre)]

    if device is not None:
        optimize_ahead(settings, device, json, on)
    elif on is not None:
        from edgeopt.commands.on_device import OptimizeOn

        there = OptimizeOn(on)
        execute("optimize", lambda emit: there.run(settings, emit), shown, json, interrupt=there.interrupt)
    else:
        from edgeopt.pipeline.stopping import Stop

        stop = Stop()
        execute(
            "optimize", lambda emit: optimize_source(settings, emit, stop), shown, json, interrupt=stop.interrupt
        )


# What a plan can hold to; all else is of use only where something is measured.
_PLANNED = frozenset({"model", "out", "data", "pre", "floor", "target", "profile", "single_file"})


def optimize_ahead(settings: OptimizeSourceRequest, device: Path, json: bool, on: str | None = None) -> None:
    def work(emit: "Emit") -> "PredictedOutcome":
        if on is not None:
            raise UsageError(
                "--device and --on exclude each other.",
                "--device plans here for a recorded device; --on searches on the device itself. Give one of them.",
            )
        unfit = [each.flag for each in changed(settings) if each.name not in _PLANNED]
        if unfit:
            raise UsageError(
                f"{' and '.join(unfit)} cannot be used with --device: a plan for another device measures "
                "nothing and judges by --floor alone.",
                "Leave it out here, and use it when you finish the search on the device.",
            )
        if settings.is_of_source:
            raise UsageError(
                "--device plans for ONNX models.",
                f"Import it first: edgeopt import {settings.model} -o MODEL.onnx",
            )
        from edgeopt.commands.predict.plan import optimize_for

        return optimize_for(settings, device, emit)

    execute("optimize-device", work, show_plan, json)


def show_plan(plan: "PredictedOutcome") -> list[Block]:
    """The predicted candidates, the verdict, its basis, and how to finish."""
    from edgeopt.graph.accuracy import agreement, decibels

    rows = (
        Row(
            (
                _named_plan(row),
                units.milliseconds(row.latency.predicted_ms) if row.latency else "",
                decibels(row.accuracy_db) if row.accuracy_db is not None else "",
                _why(row),
            ),
            "strong" if row.status == "chosen" else "",
        )
        for row in plan.candidates
    )
    real = (
        f"Measured accuracy: {agreement(plan.accuracy_db)} on {plan.samples} "
        f"samples{(' set aside' if plan.set_aside else '')}, run here on {plan.judged_with}; floor "
        f"{plan.floor_db:g} dB; target {plan.target}; {plan.seconds:.0f} s."
    )
    facts = lines([plan.basis, real, f"Bundle: {plan.bundle}"])
    return [
        Table(columns("candidate", ">predicted", ">accuracy", "why"), tuple(rows)),
        section("", WordsBlock(plan.summary, "strong"), *facts, *map(as_commands, plan.finish)),
    ]


def _named_plan(row: "PredictedCandidate") -> str:
    candidate = row.candidate
    if row.status == "not planned":
        return candidate.variant
    options = [f"{k}={v}" for k, v in candidate.options.items() if not isinstance(v, dict)]
    return " · ".join([candidate.variant, candidate.backend, *([" ".join(options)] if options else [])])


def _why(row: "PredictedCandidate") -> str:
    labels = {"chosen": "chosen: ", "baseline": "the baseline: ", "below the floor": "below the floor: "}
    return f"{labels.get(row.status, '')}{row.reason}"
