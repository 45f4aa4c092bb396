"""`edgeopt compare`: what two models have in common, in results and in nodes."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from edgeopt import units
from edgeopt.cli.console import JsonFlag, MarkdownFlag, asks, execute
from edgeopt.commands.compare.request import ModelCompareRequest
from edgeopt.errors import VerificationError
from edgeopt.views.blocks import Section, Table, WordsBlock, columns, lines, rows, section
from edgeopt.views.words import token_intervals

if TYPE_CHECKING:
    from edgeopt.commands.compare.records import LayerComparison, ModelComparison, Probe
    from edgeopt.graph.accuracy import OutputAccuracy, Tolerance
    from edgeopt.graph.diff import GraphDiff
    from edgeopt.views.blocks import Block

SHOWN_CHANGES = 20
SHOWN_OPERATORS = 12


@asks(ModelCompareRequest)
def compare(
    request: ModelCompareRequest,
    all_rows: Annotated[bool, typer.Option("--all", help="List all nodes and operators that differ.")] = False,
    markdown: MarkdownFlag = False,
    json: JsonFlag = False,
) -> None:
    """Compare two models: outputs, first layer that differs, nodes, sizes.

    \b
    Both models run on the same samples, and are judged as in a search: the signal-to-noise ratio of
    the weakest level of input counts, and the worst tenth of the samples may be 3 dB below the floor.
    Each output also shows whether numpy.allclose would pass. A bundle runs on its own backend and
    options, and the model beside it in plain ONNX Runtime, so that errors of the runtime show; the
    bundle's own floor counts. To compare two runtimes, give the same model twice with --backend-a and
    --backend-b.

    Language models with a cache run on texts: those of a text file given as --data, or a small text of
    edgeopt. Their tokens count instead of decibels, unless --floor or the bundle has a floor in dB: the
    Kullback-Leibler divergence may be 0.02 nats, and 93 % of the most likely tokens must be the same.

    \b
    Exit code 0: all outputs are above the floor; 6: some are below, or could not be compared.

    \b
    Examples:
      edgeopt compare model.onnx small.onnx
      edgeopt compare model.onnx small.onnx --data samples.npz --floor 40
      edgeopt compare model.onnx model.edgeopt --layers
      edgeopt compare model.onnx small.onnx --html changes.html
      edgeopt compare model.onnx model.onnx --backend-a onnxruntime-cpu --backend-b openvino-cpu
    """

    from edgeopt.commands.compare.compare import compare as hold_against

    def show(found: "ModelComparison") -> "list[Block] | str":
        from edgeopt.views.markdown import page

        if markdown:
            blocks: list[Block] = [WordsBlock(verdict(found)), *sections(found, all_rows)]
            return page(f"{found.first.name} and {found.second.name}", blocks)
        return shown(found, all_rows)

    if not execute("compare", lambda emit: hold_against(request, emit), show, json).within:
        raise typer.Exit(VerificationError.exit_code)


def shown(found: "ModelComparison", everything: bool = False) -> "list[Block]":
    """Returns the blocks for a terminal, with the verdict last."""
    return [*sections(found, everything), section("", WordsBlock(verdict(found), "strong"))]


def sections(found: "ModelComparison", everything: bool = False) -> list[Section]:
    """Returns the sections of the comparison; `everything` includes the rows otherwise cut to fit a screen."""
    parts = [_sides(found), _operators(found, everything), _outputs(found)]
    if found.layers is not None:
        parts.append(_layers(found.layers))
    parts.append(_graph(found.graph, found.no_graph, everything))
    return [part for part in parts if part.blocks]


def _section(
    title: str, titles: tuple[str, ...], cells: Sequence[tuple[str, ...]], notes: Iterable[str]
) -> Section:
    """A table, and the sentences behind it."""
    return section(title, Table(columns(*titles), rows(*cells)) if cells else None, *lines(notes))


def verdict(found: "ModelComparison") -> str:
    """The one line that counts."""
    from edgeopt.graph.unjudged import equality_text

    if found.not_compared:
        return f"Not compared: {found.not_compared}"
    broken = next((output for output in found.outputs if output.problem), None)
    if broken is not None:
        return f"Different: {broken.problem}"
    where = f"on {found.samples} sample{'' if found.samples == 1 else 's'}, {found.data}"
    if found.within and found.snr_db is not None and found.snr_db >= 200:
        return f"{equality_text(found.outputs, where)}."
    word = "Equal within the floor" if found.within else "Different"
    if found.tokens is not None and found.floor_kl is not None and found.floor_top1 is not None:
        floor = f"KL {found.floor_kl:g} and top-1 {100 * found.floor_top1:g} %"
        return f"{word}: {token_intervals(found.tokens)} {where}; the floor is {floor}."
    worst = min(found.outputs, key=lambda output: output.snr_db)
    reached = f"{worst.snr_db:.1f} dB in '{worst.name}' {where}"
    if found.weakest is not None:
        reached += f"; {found.weakest.where}"
    if found.tail is not None and (found.is_tail_below or not found.within):
        tail = found.tail
        reached += f"; the worst tenth of the samples {tail.tenth_db:.1f} dB, the lowest {tail.lowest_db:.1f}"
    return f"{word}: {reached}; the floor is {found.floor_db:g} dB."


def tolerance_text(tolerance: "Tolerance | None") -> str:
    """Returns the tolerance in the terms of `numpy.allclose`."""
    if tolerance is None:
        return "none"
    if not tolerance.atol_alone:
        return "any"
    return f"rtol={tolerance.rtol:g} atol={tolerance.atol:g}"


def decibels_text(snr_db: float, problem: str | None = None) -> str:
    from edgeopt.graph.accuracy import decibels

    return "not comparable" if problem else decibels(snr_db)


def _sides(found: "ModelComparison") -> Section:
    from edgeopt.units import size

    sides = (found.first, found.second)
    cells = [(each.name, each.kind, size(each.size_bytes), f"{each.nodes:,}", each.runtime) for each in sides]
    return _section("Models", ("=model", "kind", ">size", ">nodes", "run with"), cells, _ports(found))


def _ports(found: "ModelComparison") -> list[str]:
    """Inputs and outputs that only one of them has."""
    differences = []
    for role in ("inputs", "outputs"):
        first, second = (
            {(i.name, i.dtype, i.shape) for i in getattr(side, role)} for side in (found.first, found.second)
        )
        for side, own, other in ((found.first, first, second), (found.second, second, first)):
            if alone := sorted(own - other, key=str):
                ports = (f"{n} ({t} [{', '.join('?' if d is None else str(d) for d in s)}])" for n, t, s in alone)
                differences.append(f"Only {side.name} has the {role}: {', '.join(ports)}.")
    return differences


def _operators(found: "ModelComparison", everything: bool) -> Section:
    first, second = found.first.operators, found.second.operators
    names = [name for name in {**first, **second} if first.get(name, 0) != second.get(name, 0)]
    names.sort(key=lambda name: (-abs(first.get(name, 0) - second.get(name, 0)), name))
    shown = names if everything else names[:SHOWN_OPERATORS]
    cells = [(name, f"{first.get(name, 0):,}", f"{second.get(name, 0):,}") for name in shown]
    left = len(names) - len(shown)
    more = [f"And {left} more operators (--all shows them)."] if left else []
    return _section("Operators with different counts", ("=operator", ">first", ">second"), cells, more)


def _outputs(found: "ModelComparison") -> Section:
    titles = ("=output", ">accuracy", ">max abs", ">max rel", ">mean abs", ">cosine", ">equal", "would pass")
    notes = [*(output.problem for output in found.outputs if output.problem), *found.notes]
    if found.tokens is not None:
        notes.append(f"Tokens with 95 % intervals on other texts: {token_intervals(found.tokens)}.")
    return _section("Outputs", titles, [_output_row(output) for output in found.outputs], notes)


def _output_row(output: "OutputAccuracy") -> tuple[str, ...]:
    if output.problem:
        return (output.name, "not comparable")
    relative = f"{output.max_rel:.1e}" if output.max_rel < 1e30 else "beyond 0"
    return (
        output.name,
        decibels_text(output.snr_db) if not output.counted else "",
        f"{output.max_abs:.1e}",
        relative,
        f"{output.mean_abs:.1e}",
        f"{output.cosine:.6f}",
        units.percent(output.agreement, 1 if output.agreement in {0.0, 1.0} or output.counted else 0),
        tolerance_text(output.tolerance),
    )


def _layers(layers: "LayerComparison") -> Section:
    if layers.not_compared:
        return section("Layers", WordsBlock(f"Layers were not compared: {layers.not_compared}"))
    cells = [(p.value, p.node, p.other_node, _accuracy_of(p), f"{p.max_abs:.1e}") for p in layers.probes]
    if layers.first is None:
        line = f"None of the {layers.compared} values that both have before '{layers.output}' is below the floor."
    else:
        accuracy = _accuracy_of(layers.first)
        line = f"The first layer that differs: {layers.first.node}, value '{layers.first.value}' ({accuracy})."
    titles = ("=value", "in the first", "in the second", ">accuracy", ">max abs")
    return _section(f"Layers before '{layers.output}'", titles, cells, [line])


def _accuracy_of(probe: "Probe") -> str:
    return f"{decibels_text(probe.snr_db, probe.problem)}{', rescaled' if probe.rescaled else ''}"


def _graph(graph: "GraphDiff | None", reason: str, everything: bool) -> Section:
    if graph is None:
        return section("Graphs", *lines([reason]))
    counts = [f"{graph.kept:,} kept"] + [
        f"{graph.count(status):,} {status}"
        for status in ("changed", "fused into", "gone", "new")
        if graph.count(status)
    ]
    summary = f"Nodes: {', '.join(counts).replace('fused into', 'fused into others')}."
    order = ("changed", "fused into", "new", "gone")
    changes = graph.changes if everything else sorted(graph.changes, key=lambda each: order.index(each.status))
    shown = changes if everything else changes[:SHOWN_CHANGES]
    cells = [(change.status, change.node, change.other, change.what) for change in shown]
    left = len(graph.changes) - len(shown)
    more = [f"And {left:,} more (--all shows them)."] if left else []
    return _section("Graphs", ("!", "node", "in second", "change"), cells, [*more, summary])
