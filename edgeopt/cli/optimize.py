"""`edgeopt optimize`: the main job."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgeopt.cli.console import JsonFlag, execute

if TYPE_CHECKING:
    from rich.console import Console

    from edgeopt.search.outcome import Candidate, CandidateReport, Outcome


def optimize(
    model: Annotated[
        Path, typer.Argument(help="The ONNX model; it is read and never changed.", show_default=False)
    ],
    out: Annotated[
        Path, typer.Option("-o", "--out", help="Where to write the bundle (a folder).", show_default=False)
    ],
    data: Annotated[
        Path | None,
        typer.Option(help="Samples: an .npz with one array per input, or a folder of .npy. Half calibrates."),
    ] = None,
    floor: Annotated[
        str,
        typer.Option(help="Accuracy floor: 30dB, or exact (80 dB), transparent (30 dB), balanced (20 dB)."),
    ] = "transparent",
    time_limit: Annotated[
        float | None, typer.Option(help="Seconds; by default 60, and more for models over 10 MB.", min=5)
    ] = None,
    target: Annotated[str | None, typer.Option(help="A target by name instead of the one that fits best.")] = None,
    profile: Annotated[Path | None, typer.Option(help="A target profile of your own (TOML).")] = None,
    json: JsonFlag = False,
) -> None:
    """Find the fastest deployment of a model on this device, prove it, and write it as a bundle.

    \b
    Every candidate is measured against plain ONNX Runtime in turns, and checked on samples
    that calibration never saw. When nothing is proved faster, the bundle holds your model as it
    is, and the table says why.

    \b
    Examples:
      edgeopt optimize model.onnx --data data.npz -o model.edgeopt
      edgeopt optimize model.onnx --data data.npz -o model.edgeopt --floor 20dB
      edgeopt optimize model.onnx -o model.edgeopt              exact rewrites only, without data
      edgeopt optimize model.onnx --data d.npz -o m.edgeopt --json | tail -1 | jq .data.proof
    """
    from edgeopt.search.optimize import optimize as search

    execute(
        "optimize",
        lambda emit: search(
            model,
            out,
            data=data,
            floor=floor,
            time_limit_s=time_limit,
            target=target,
            profile=profile,
            emit=emit,
        ),
        show,
        json,
    )


def show(outcome: "Outcome", console: "Console") -> None:
    """The candidates, the variants that could not be made, the verdict."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for heading in ("variant", "backend", "options"):
        table.add_column(heading, no_wrap=True)
    for heading in ("speed", "accuracy", "ms"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("verdict", overflow="fold")
    for report in sorted(outcome.candidates, key=_order):
        candidate = report.candidate
        table.add_row(
            candidate.variant,
            candidate.backend,
            options_text(candidate),
            str(report.speedup) if report.speedup else "",
            decibels(report.accuracy_db),
            f"{report.latency_ms:.3f}" if report.latency_ms is not None else "",
            _verdict(report, outcome),
            style="bold" if report.status == "winner" else "",
        )
    console.print(table)
    for variant in outcome.variants:
        if variant.failure:
            console.print(f"not raced: {variant.name}: {variant.failure}", markup=False)
    console.print()
    for warning in outcome.warnings:
        console.print(f"note: {warning}", markup=False)
    proof = outcome.proof
    console.print(outcome.summary, style="bold", markup=False)
    console.print(
        f"Proved from the written bundle over {proof.speedup.rounds} rounds in turns: {proof.speedup} "
        f"({proof.speedup.confidence:.0%} interval), {decibels(proof.accuracy_db)} on {proof.samples} samples "
        f"set aside; floor {outcome.floor_db:g} dB; target {outcome.target}; {outcome.seconds:.0f} s.",
        markup=False,
    )
    console.print(f"Bundle: {outcome.bundle}", markup=False)


def options_text(candidate: "Candidate") -> str:
    """The runtime options in few words; the fixed shapes are the data's own and not repeated."""
    short = {"dynamic_quantization_group_size": "group"}
    return " ".join(f"{short.get(k, k)}={v}" for k, v in candidate.options.items() if not isinstance(v, dict))


def _verdict(report: "CandidateReport", outcome: "Outcome") -> str:
    if report.status == "winner":
        return "winner"
    if report.candidate == outcome.baseline and report.status == "lost":
        return "the baseline"
    if report.status == "below the floor":
        low = f", perhaps {report.accuracy_low_db:.1f} on others" if report.accuracy_low_db is not None else ""
        return f"below the floor{low}"
    if report.status == "failed":
        return report.reason.split(": ", 1)[-1][:160]
    return report.reason.replace(" of the speed of ", " of the speed of the best: ").split(": ")[0]


def decibels(value: float | None) -> str:
    if value is None:
        return ""
    return "equal" if value >= 199 else f"{value:.1f} dB"


def _order(report: "CandidateReport") -> tuple[int, float]:
    ranks = {"winner": 0, "lost": 1, "below the floor": 2, "failed": 3}
    return ranks.get(report.status, 4), -(report.speedup.median if report.speedup else 0.0)
