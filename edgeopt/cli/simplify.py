"""`edgeopt simplify`: exact rewrites alone, each told, the result proved against the source."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from edgeopt import events
from edgeopt.cli.console import JsonFlag, execute
from edgeopt.errors import EdgeoptError, UsageError
from edgeopt.graph.ledger import Ledger

if TYPE_CHECKING:
    from rich.console import Console

    from edgeopt.graph.model import Model
    from edgeopt.rewriting.proof import SourceCheck

SHOWN_REFUSALS = 4
SHOWN_NODES = 3


class Simplified(msgspec.Struct, frozen=True):
    """What became of a model."""

    source: str
    output: str
    nodes_before: int
    nodes_after: int
    size_before_bytes: int
    size_after_bytes: int
    ledger: Ledger
    snr_db: float | None
    """The result against the source; None where it could not be measured."""
    samples: int
    not_verified: str | None = None
    """Why it could not be measured, where it could not."""


class Order(msgspec.Struct, frozen=True):
    """What the user asked for."""

    model: Path
    output: Path
    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    data: Path | None = None
    bisect: bool = False


def simplify(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="The ONNX model; it is not changed.")],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="OUT", help="Where the result goes.")],
    only: Annotated[list[str] | None, typer.Option(metavar="PASS", help="Only this pass (repeatable).")] = None,
    skip: Annotated[list[str] | None, typer.Option(metavar="PASS", help="Not this pass (repeatable).")] = None,
    data: Annotated[Path | None, typer.Option(metavar="D.npz", help="Samples to prove the result on.")] = None,
    bisect: Annotated[bool, typer.Option("--bisect", help="Measure the accuracy after every pass.")] = False,
    json: JsonFlag = False,
) -> None:
    """Applies exact graph rewrites and proves that the results stay the same.

    \b
    Examples:
      edgeopt simplify model.onnx -o small.onnx
      edgeopt simplify model.onnx -o small.onnx --data samples.npz --skip raise-opset
      edgeopt simplify model.onnx -o small.onnx --bisect       accuracy after each pass
    """
    order = Order(model, output, tuple(only or ()), tuple(skip or ()), data, bisect)
    execute("simplify", work=lambda emit: run(order, emit), show=show, json=json)


def run(order: Order, emit: events.Emit) -> Simplified:
    """Loads, rewrites, proves, saves."""
    from edgeopt.graph.model import load, save
    from edgeopt.graph.passes import PASSES
    from edgeopt.graph.passes.base import node_count
    from edgeopt.graph.pipeline import run_pipeline, select

    select(PASSES, order.only, order.skip)
    emit(events.Progress("load", str(order.model)))
    model = load(order.model)
    _check_output(order, model.external)
    check, reason = _source_check(model, order.data)
    try:
        if check is None:
            emit(events.Log("warning", f"The result is not verified: {reason}"))
        result = run_pipeline(
            model,
            only=order.only,
            skip=order.skip,
            check=check.why_wrong if check else None,
            measure=check.snr_db if check and order.bisect else None,
            emit=emit,
        )
        snr_db = check.snr_db(result.model_ir) if check else None
        emit(events.Progress("save", str(order.output)))
        save(result.model_ir, order.output)
    finally:
        if check:
            check.close()
    return Simplified(
        str(order.model),
        str(order.output),
        node_count(model.ir),
        node_count(result.model_ir),
        sum(file.stat().st_size for file in (order.model, *model.external)),
        order.output.stat().st_size,
        result.ledger,
        snr_db,
        check.sample_count if check else 0,
        reason,
    )


def _source_check(model: "Model", data: Path | None) -> "tuple[SourceCheck | None, str | None]":
    """What proves the result, or why nothing can; wrong data of the user's is an error, no data is not."""
    from edgeopt.rewriting.proof import SourceCheck

    try:
        return SourceCheck.of(model, data), None
    except EdgeoptError as error:
        if data is not None:
            raise
        return None, f"{error.message} {error.hint}".strip()


def _check_output(order: Order, external: Sequence[Path]) -> None:
    for source in (order.model, *external):
        if order.output.exists() and order.output.samefile(source):
            raise UsageError(
                f"The output '{order.output}' would overwrite the source.", "Give another name with -o."
            )
    if order.output.is_dir():
        raise UsageError(f"The output '{order.output}' is a folder.", "Give the name of a file with -o.")
    if not order.output.absolute().parent.is_dir():
        raise UsageError(f"The folder of '{order.output}' does not exist.", "Make it first.")


def show(result: Simplified, console: "Console") -> None:
    from rich.markup import escape
    from rich.table import Table

    measured = any(entry.snr_db is not None for entry in result.ledger)
    table = Table("pass", "what it did", "nodes", *(["accuracy"] if measured else []), box=None, pad_edge=False)
    for entry in result.ledger:
        did = "; ".join(change.what for change in entry.applied) or "nothing to do"
        nodes = f"{entry.nodes_before} → {entry.nodes_after}" if entry.nodes_before != entry.nodes_after else ""
        accuracy = [_decibels(entry.snr_db)] if measured else []
        table.add_row(entry.pass_name, escape(entry.rolled_back or did), nodes, *accuracy)
        for refusal in entry.refused[:SHOWN_REFUSALS]:
            table.add_row("", escape(f"not: {refusal.reason}{_named(refusal.nodes)}"), "", style="dim")
        if len(entry.refused) > SHOWN_REFUSALS:
            more = len(entry.refused) - SHOWN_REFUSALS
            table.add_row("", f"not: {more} more reasons (--json has all)", "", style="dim")
    console.print(table)
    console.print(
        f"\n{result.nodes_before} nodes → {result.nodes_after}, "
        f"{result.size_before_bytes:,} bytes → {result.size_after_bytes:,}: {escape(result.output)}"
    )
    if result.snr_db is not None:
        told = f"{_decibels(result.snr_db)} against the source on {result.samples} samples."
        console.print(
            "The results are equal to the last bit." if result.snr_db >= 200 else f"The results agree: {told}"
        )
    else:
        console.print(escape(f"Not verified: {result.not_verified}"))


def _decibels(value: float | None) -> str:
    if value is None:
        return ""
    return "equal" if value >= 200 else f"{value:.1f} dB" if math.isfinite(value) else "not comparable"


def _named(nodes: Sequence[str]) -> str:
    if not nodes:
        return ""
    more = f" and {len(nodes) - SHOWN_NODES} more" if len(nodes) > SHOWN_NODES else ""
    return f" ({', '.join(nodes[:SHOWN_NODES])}{more})"
