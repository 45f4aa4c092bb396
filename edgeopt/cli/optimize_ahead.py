"""How `edgeopt optimize --device` shows a plan: what is predicted, and that none of it was measured."""

from pathlib import Path
from typing import TYPE_CHECKING

from edgeopt.cli.console import execute
from edgeopt.cli.next_steps import as_commands
from edgeopt.commands.documents.blocks import Block, Row, Table, Words, columns, lines, section
from edgeopt.errors import UsageError
from edgeopt.options import changed
from edgeopt.search.settings import Settings

if TYPE_CHECKING:
    from edgeopt.commands.predict.records import Ahead, Planned
    from edgeopt.events import Emit


# What a plan can hold to; all else is of use only where something is measured.
_PLANNED = frozenset({"model", "out", "data", "floor", "target", "profile", "single_file"})


def optimize_ahead(settings: Settings, device: Path, json: bool) -> None:
    def work(emit: "Emit") -> "Ahead":
        unfit = [each.flag for each in changed(settings) if each.name not in _PLANNED]
        if unfit:
            raise UsageError(
                f"{' and '.join(unfit)} cannot be used with --device: a plan for another device measures "
                "nothing and supports only --floor.",
                "Leave it out here, and use it when you finish the search on the device.",
            )
        from edgeopt.commands.predict.plan import optimize_for

        return optimize_for(
            *(settings.model, settings.out, device),
            data=settings.data,
            floor=settings.floor or "transparent",
            target=settings.target,
            profile=settings.profile,
            single_file=settings.single_file,
            emit=emit,
        )

    execute("optimize-device", work, show, json)


def show(plan: "Ahead") -> list[Block]:
    """The predicted candidates, the verdict, its basis, and how to finish."""
    from edgeopt.graph.accuracy import agreement, decibels

    rows = (
        Row(
            (
                _named(row),
                f"{row.latency.predicted_ms:.3g} ms" if row.latency else "",
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
    said = lines([plan.basis, real, f"Bundle: {plan.bundle}"])
    return [
        Table(columns("candidate", ">predicted", ">accuracy", "why"), tuple(rows)),
        section("", Words(plan.summary, "strong"), *said, *map(as_commands, plan.finish)),
    ]


def _named(row: "Planned") -> str:
    candidate = row.candidate
    if row.status == "not planned":
        return candidate.variant
    options = [f"{k}={v}" for k, v in candidate.options.items() if not isinstance(v, dict)]
    return " · ".join([candidate.variant, candidate.backend, *([" ".join(options)] if options else [])])


def _why(row: "Planned") -> str:
    said = {"chosen": "chosen: ", "baseline": "the baseline: ", "below the floor": "below the floor: "}
    return f"{said.get(row.status, '')}{row.reason}"
