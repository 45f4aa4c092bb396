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
        Path,
        typer.Option(
            "-o",
            "--out",
            help="Where to write the bundle (a folder); an older one is replaced.",
            show_default=False,
        ),
    ],
    data: Annotated[
        Path | None,
        typer.Option(
            help="Samples: an .npz with one array per input, or a folder of .npy, or of pictures with a profile "
            "that says how to prepare them. 12 or more; half calibrate."
        ),
    ] = None,
    floor: Annotated[
        str,
        typer.Option(help="Accuracy floor: 30dB, or exact (80 dB), transparent (30 dB), balanced (20 dB)."),
    ] = "transparent",
    time_limit: Annotated[
        float | None,
        typer.Option(help="Seconds for the search (default 60, more above 10 MB); the proof comes on top.", min=5),
    ] = None,
    target: Annotated[str | None, typer.Option(help="A target by name instead of the one that fits best.")] = None,
    profile: Annotated[
        Path | None,
        typer.Option(help="A profile: a file of your own (TOML), or the name of a shipped one, such as realtime."),
    ] = None,
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
      edgeopt optimize model.onnx --data data.npz -o model.edgeopt --profile realtime
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


_SHARE = " of the speed of "


def show(outcome: "Outcome", console: "Console") -> None:
    """The candidates, the variants that could not be made, the verdict."""
    from rich.table import Table

    from edgeopt.graph.accuracy import decibels

    table = Table(box=None, pad_edge=False)
    table.add_column("candidate", overflow="fold")
    table.add_column("speed", justify="right", no_wrap=True)
    table.add_column("accuracy", justify="right", no_wrap=True)
    table.add_column("verdict", overflow="fold")
    for report in sorted(outcome.candidates, key=_order):
        chosen = report.candidate == outcome.winner
        table.add_row(
            " · ".join(part for part in _parts(report.candidate) if part),
            _speed(report, chosen),
            decibels(report.accuracy_db) if report.accuracy_db is not None else "",
            _verdict(report, outcome),
            style="bold" if chosen else "",
        )
    console.print(table)
    for variant in outcome.variants:
        if variant.failure:
            console.print(f"not raced: {variant.name}: {variant.failure}", markup=False)
    console.print()
    proof = outcome.proof
    console.print(outcome.summary, style="bold", markup=False)
    said = "Proved" if outcome.verdict == "faster" else "Measured"
    console.print(
        f"{said} from the written bundle over {proof.speedup.rounds} rounds in turns: {proof.speedup} "
        f"({proof.speedup.confidence:.1%} interval), {decibels(proof.accuracy_db)} on {proof.samples} samples"
        f"{' set aside' if proof.set_aside else ''}; "
        f"floor {outcome.floor_db:g} dB; target {outcome.target}; {outcome.seconds:.0f} s.",
        markup=False,
    )
    console.print(f"Bundle: {outcome.bundle}", markup=False)


def _parts(candidate: "Candidate") -> tuple[str, ...]:
    """What a candidate is, in few words; the fixed shapes are the data's own and not repeated."""
    short = {"dynamic_quantization_group_size": "group"}
    options = " ".join(f"{short.get(k, k)}={v}" for k, v in candidate.options.items() if not isinstance(v, dict))
    return candidate.variant, candidate.backend, options


def _speed(report: "CandidateReport", chosen: bool) -> str:
    """The winner against the baseline; the others against the best of the rounds that they ran in."""
    if chosen:
        return str(report.speedup) if report.speedup else ""
    return f"{report.reason.split(' of ', 1)[0]} of the best" if _SHARE in report.reason else ""


def _verdict(report: "CandidateReport", outcome: "Outcome") -> str:
    kept = outcome.winner == outcome.baseline
    if report.candidate == outcome.winner:
        return "the baseline, kept" if kept else "winner"
    if report.candidate == outcome.baseline:
        return "the baseline"
    if report.status == "below the floor":
        low = f", perhaps {report.accuracy_low_db:.1f} dB on others" if report.accuracy_low_db is not None else ""
        return f"below the floor{low}"
    if report.status == "failed":
        return report.reason.split(": ", 1)[-1][:160]
    return "slower" if _SHARE in report.reason else report.reason


def _order(report: "CandidateReport") -> tuple[int, float]:
    ranks = {"winner": 0, "lost": 1, "below the floor": 2, "failed": 3}
    return ranks.get(report.status, 4), -(report.speedup.median if report.speedup else 0.0)
