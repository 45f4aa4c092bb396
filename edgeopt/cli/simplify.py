"""`edgeopt simplify`: exact rewrites alone, each told, the result proved against the source."""

from typing import TYPE_CHECKING

from edgeopt import units
from edgeopt.cli.console import JsonFlag, asks, execute, next_steps
from edgeopt.commands.simplify.request import SimplifyRequest
from edgeopt.views.blocks import (
    Block,
    Marked,
    Row,
    Table,
    WordsBlock,
    columns,
    filled,
    lines,
    section,
    some,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from edgeopt.commands.simplify.simplify import Simplified
    from edgeopt.graph.ledger import LedgerEntry

SHOWN_REFUSALS = 4
SHOWN_NODES = 3
LEFT_OUT = (
    ("fails", "the source does not run there (--json has what the runtime says)"),
    ("not-finite", "the source returns NaN or infinity"),
    ("no-time", "the time limit was reached"),
)


@asks(SimplifyRequest)
def simplify(request: SimplifyRequest, json: JsonFlag = False) -> None:
    """Apply exact graph rewrites and prove that the results stay the same.

    \b
    Source and result run on the same samples in an installed runtime. A pass is rolled back and
    named if it changes the results, or if a runtime can no longer load the model. `edgeopt passes`
    lists them.

    \b
    Exit code 0: written (the result says if it is not verified); 3: a bad model, data or rules file;
    6: the source does not run on --data, or two runs of it differ.

    \b
    Examples:
      edgeopt simplify model.onnx -o small.onnx
      edgeopt simplify model.onnx -o small.onnx --data samples.npz --skip raise-opset
      edgeopt simplify model.onnx -o fixed.onnx --shape image=1x3x224x224
      edgeopt simplify model.onnx -o camera.onnx --layout channels-last
      edgeopt simplify model.onnx -o small.onnx --bisect       accuracy after each pass
    """

    from edgeopt.commands.simplify.simplify import simplify as rewrite

    def shown(result: "Simplified") -> list[Block]:
        # Pictures in another layout are other inputs: neither the source nor its data fits beside them.
        source = None if request.layout else request.model
        return [*show(result), next_steps(request.out, source, request.data, pre=request.pre)]

    execute("simplify", lambda emit: rewrite(request, emit), shown, json)


def show(result: "Simplified") -> list[Block]:
    """Returns the changes and refusals of each pass, one line for all passes without any, and the result."""
    from edgeopt.graph.ledger import promised_inputs

    rows: list[Row] = []
    silent: list[str] = []
    shown = {entry.pass_name for entry in result.ledger if entry.applied or entry.rolled_back or entry.refused}
    for entry in result.ledger:
        did = "; ".join(change.what for change in entry.applied)
        if not (did or entry.rolled_back or entry.refused):
            silent += [] if entry.pass_name in shown else [entry.pass_name]
            continue
        nodes = f"{entry.nodes_before} → {entry.nodes_after}" if entry.nodes_before != entry.nodes_after else ""
        if did or entry.rolled_back:
            inputs = promised_inputs(entry.finite_only, entry.nonempty_only)
            did += f" ({inputs})" if inputs else ""
            what = Marked(entry.rolled_back or did, "warning" if entry.rolled_back else "")
            rows.append(Row((entry.pass_name, what, nodes, _decibels(entry.snr_db))))
        rows += _refusals(entry, not did and not entry.rolled_back)
    table = filled(Table(columns("=pass", "what it did", "!nodes", "accuracy"), tuple(rows)))
    return [
        *([table] if rows else []),
        *lines([f"Nothing to do: {', '.join(silent)}."] if silent else [], "faint"),
        section("", *_outcome(result)),
    ]


def _refusals(entry: "LedgerEntry", alone: bool) -> list[Row]:
    reasons = [
        f"not: {refusal.reason}{f' ({some(refusal.nodes, SHOWN_NODES)})' if refusal.nodes else ''}"
        for refusal in entry.refused[:SHOWN_REFUSALS]
    ]
    if len(entry.refused) > SHOWN_REFUSALS:
        reasons.append(f"not: {len(entry.refused) - SHOWN_REFUSALS} more reasons (--json has all)")
    return [
        Row((entry.pass_name if alone and number == 0 else "", Marked(each, "faint")))
        for number, each in enumerate(reasons)
    ]


def _outcome(result: "Simplified") -> "Iterator[WordsBlock]":
    from edgeopt.cli.compare import tolerance_text
    from edgeopt.graph.unjudged import equality_text

    yield WordsBlock(
        f"{units.count(result.nodes_before, 'node')} → {result.nodes_after:,}, "
        f"{result.size_before_bytes:,} bytes → {result.size_after_bytes:,}: {result.output}"
    )
    if result.snr_db is None:
        yield WordsBlock(f"Not verified: {result.not_verified}")
        return
    where = f"{_proved_on(result)} in {result.runtime}"
    if result.snr_db >= 200:
        yield WordsBlock(f"{equality_text(result.outputs, where)}.")
    else:
        worst = min(result.outputs, key=lambda output: output.snr_db)
        yield WordsBlock(
            f"The results agree: {_decibels(result.snr_db)} {where}, at most {worst.max_abs:.2g} off; "
            f"would pass: {tolerance_text(worst.tolerance)}."
        )
    if result.differs_at_edges:
        yield WordsBlock(
            f"For NaN, infinity, -0 or empty inputs they differ: {result.differs_at_edges}; see --strict.",
            "faint",
        )
    for kind, why in LEFT_OUT:
        if names := [f"'{left.regime}'" for left in result.regimes_left_out if left.kind == kind]:
            sentence = f"Not proved on the input distribution{'s' * (len(names) > 1)} {', '.join(names)}: {why}."
            yield WordsBlock(sentence, "faint")
    yield from lines(result.warnings)
    if result.most_changing:
        yield WordsBlock(f"The pass that changed the results most: {result.most_changing}.")
    if result.equal_in:
        yield WordsBlock(f"They agree with the source in {'; '.join(result.equal_in)} too.")
    for one in result.not_compared:
        yield WordsBlock(f"Loads in {one.runtime}; not compared there: {one.why}.", "faint")


def _proved_on(result: "Simplified") -> str:
    """Returns the basis of the proof: `on your 16 samples and 12 input distributions`."""
    samples = units.count(result.samples, "sample" if result.samples_given else "generated sample")
    samples = f"on your {samples}" if result.samples_given else f"on {samples}"
    return f"{samples} and {units.count(len(result.regimes), 'input distribution')}" if result.regimes else samples


def _decibels(value: float | None) -> str:
    from edgeopt.graph.accuracy import decibels

    return "" if value is None else "not comparable" if value == float("-inf") else decibels(value)
