"""An analysis in sections, for the terminal and for a document."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from edgeopt import units
from edgeopt.cli.analyze_figures import (
    UNKNOWN,
    known,
    milliseconds,
    moved,
    node_name,
    scaled,
    shape_text,
    share_text,
    shortened,
    summed,
    time_text,
)
from edgeopt.cli.analyze_opportunities import opportunities
from edgeopt.cli.op_times_show import op_times
from edgeopt.commands.documents.blocks import (
    Block,
    Listed,
    Row,
    Section,
    Share,
    Table,
    columns,
    facts,
    filled,
    rows,
    section,
)
from edgeopt.graph.analysis.sums import HOLDERS

if TYPE_CHECKING:
    from edgeopt.graph.analysis import Analysis, WeightRow, Work

SHOWN_WEIGHTS = 10
_SHOWN_FILES = 10
_SHOWN_OPERATORS = 15
_TOP_NODES = 8
_SHOWN_DIMENSIONS = 10
_NAMED = 3
_MOVED = "Moved: what the nodes read and write, weights and activations together."


def sections(analysis: "Analysis", nodes: bool, weights: bool, looked: bool) -> list[Block]:
    """What it is and costs first, then where that goes, what could be done, and what would run it."""
    found = (
        section("", facts(_summary(analysis))),
        section("One run", facts(work(analysis))) if analysis.work is not None else None,
        ports(analysis),
        dimensions(analysis),
        by_category(analysis),
        top_nodes(analysis),
        operators(analysis),
        weights_table(analysis, weights),
        nodes_table(analysis) if nodes else None,
        opportunities(analysis.opportunities) if looked else None,
        coverage(analysis),
        *map(op_times, analysis.op_times),
        section("Notes", Listed(tuple(analysis.warnings))) if analysis.warnings else None,
    )
    return [each for each in found if each is not None]


def _summary(analysis: "Analysis") -> Iterator[tuple[str, str]]:
    opsets = ", ".join(f"{domain or 'ai.onnx'} {version}" for domain, version in analysis.opsets.items())
    version = f" (IR version {analysis.ir_version})" if analysis.ir_version is not None else ""
    yield "Name", analysis.name
    yield "Format", f"{analysis.format}{version}{f', opset {opsets}' if opsets else ''}"
    yield "Made by", analysis.producer
    yield "Size", units.size(analysis.size_bytes)
    zeros = analysis.weights_summary.zeros_share
    told = f", {zeros:.1%} of them zero" if zeros is not None and zeros >= 0.001 else ""
    yield "Weights", f"{units.size(analysis.weights_bytes)} in {analysis.weights_count:,}{told}"
    yield "Parameters", f"{analysis.parameters:,}"
    kinds = len(analysis.operators)
    yield "Nodes", f"{analysis.nodes_count:,}, {kinds} operator{'s' if kinds != 1 else ''}"
    yield "Functions", f"{analysis.functions_count:,}" if analysis.functions_count else ""
    yield "Digest", f"sha256 {analysis.digest[:16]}…"
    files = analysis.external_files
    for file in files[:_SHOWN_FILES]:
        yield "External data", f"{file.name}, {units.size(file.size_bytes)}"
    if len(files) > _SHOWN_FILES:
        yield "", f"and {len(files) - _SHOWN_FILES:,} more files"
    deployment = analysis.deployment
    if deployment is not None:
        options = " ".join(f"{key}={value}" for key, value in deployment.options.items())
        yield "Made from", f"{deployment.source}, {deployment.created}, for {deployment.target}"
        yield "Runs with", f"{deployment.backend} {options}".strip()
        yield "Result", deployment.summary


def work(analysis: "Analysis") -> list[tuple[str, str]]:
    """What one run costs, as titles and values; nothing where that is not known."""
    done = analysis.work
    if done is None:
        return []
    rows = [
        ("For", ", ".join(done.shapes)),
        ("Operations", _sum(done, f"{scaled(done.operations)}FLOP, of them {scaled(done.macs)}MAC")),
        ("Memory moved", _sum(done, units.size(done.moved_bytes))),
        ("Peak activations", _activations(analysis)),
        ("Least time", _least(analysis)),
    ]
    if done.unknown:
        reasons = _first(done.unknown_reasons)
        rows.append(("Not counted", f"{units.count(done.unknown, 'node')} of unknown cost: {reasons}"))
    return [row for row in rows if row[1]]


def _sum(done: "Work", told: str) -> str:
    """A sum without the nodes whose cost is not known is less than all."""
    if not done.unknown:
        return told
    return f"at least {told}" if done.operations or done.moved_bytes else UNKNOWN


def _activations(analysis: "Analysis") -> str:
    done = analysis.work
    if done is None or done.peak_activation_bytes is None:
        return UNKNOWN
    at = f" (node {done.peak_node})" if done.peak_node else ""
    least = f"; {done.unsized:,} tensors of unknown size not counted" if done.unsized else ""
    return f"{units.size(done.peak_activation_bytes)}{at}{least}"


def _least(analysis: "Analysis") -> str:
    done = analysis.work
    if done is None or done.least_ms is None:
        reason = done.least_reason if done is not None else ""
        return f"{UNKNOWN}: {reason}" if reason else UNKNOWN
    part = f" of the {analysis.nodes_count - done.unknown:,} nodes whose cost is known" if done.unknown else ""
    return f"{milliseconds(done.least_ms)}{part}, if every node ran at the measured peaks of this device"


def by_category(analysis: "Analysis") -> Section | None:
    """Where the work is: by least time if it is known, otherwise by operations."""
    rows = analysis.categories
    if not rows:
        return None
    timed = any(row.least_ms for row in rows)
    total = sum((row.least_ms or 0.0) if timed else row.operations for row in rows)
    shares = [((row.least_ms or 0.0) if timed else row.operations) / total if total else 0.0 for row in rows]
    ordered = sorted(zip(rows, shares, strict=True), key=lambda pair: (-pair[1], -pair[0].count, pair[0].category))
    found = (
        Row(
            (
                row.category,
                Share(share),
                f"{row.count:,}",
                summed(row.operations, row.unknown, row.count),
                summed(row.moved_bytes, row.unknown, row.count, units.size),
                time_text(row.least_ms) if timed else "",
            )
        )
        for row, share in ordered
    )
    title = "By category" if timed else "By category, shares of the operations"
    titles = columns("kind of work", ">share", ">nodes", ">operations", ">moved", ">least time")
    return section(title, filled(Table(titles, tuple(found), _MOVED)))


def top_nodes(analysis: "Analysis") -> Section | None:
    """The nodes that take the most."""
    run = [row for row in analysis.nodes if row.runs and row.operator not in HOLDERS]
    timed = any(row.least_ms for row in run)
    weights = {r.position: ((r.least_ms or 0.0) if timed else (r.cost.operations or 0)) * r.runs for r in run}
    total = sum(weights.values())
    if not total:
        return None
    best = sorted(run, key=lambda row: -weights[row.position])[:_TOP_NODES]
    found = (
        (
            row.operator,
            shortened(node_name(row)),
            share_text(weights[row.position] / total),
            known(row.cost.operations),
            known(moved(row.cost), units.size),
            time_text(row.least_ms) if timed else "",
            row.bound if timed else "",
        )
        for row in best
        if weights[row.position]
    )
    titles = columns("operator", "node", ">share", ">operations", ">moved", ">least time", "!bound by")
    return section("The dearest nodes", filled(Table(titles, rows(*found))))


def ports(analysis: "Analysis") -> Section:
    found = (
        (role, tensor.name, tensor.dtype or "?", shape_text(tensor))
        for role, tensors in (("input", analysis.inputs), ("output", analysis.outputs))
        for tensor in tensors
    )
    return section("Inputs and outputs", Table(columns("!", "name", "type", "shape"), rows(*found)))


def dimensions(analysis: "Analysis") -> Section | None:
    if not analysis.dimensions:
        return None
    found = rows(
        *(
            (
                shortened(each.name),
                UNKNOWN if each.size is None else f"{each.size:,}",
                _first(tuple(map(shortened, each.set_by))),
                f"{each.tensors:,}",
            )
            for each in analysis.dimensions[:_SHOWN_DIMENSIONS]
        )
    )
    left = len(analysis.dimensions) - len(found)
    note = f"and {left:,} more, which nodes create at run time; --json has them" if left else ""
    titles = columns("open dimension", ">figures are for", "set by", ">tensors")
    return section("Open dimensions", Table(titles, found, note))


def _first(words: tuple[str, ...]) -> str:
    more = f"; and {len(words) - _NAMED} more" if len(words) > _NAMED else ""
    return "; ".join(words[:_NAMED]) + more


def operators(analysis: "Analysis") -> Section:
    found = tuple(
        Row(
            (
                f"{row.domain}.{row.operator}" if row.domain else row.operator,
                row.category,
                Share(row.count / analysis.nodes_count if analysis.nodes_count else 0.0),
                f"{row.count:,}",
                summed(row.operations, row.unknown, row.count) if row.category else UNKNOWN,
                units.size(row.weights_bytes) if row.weights_bytes else "",
            )
        )
        for row in analysis.operators
    )
    left = len(found) - _SHOWN_OPERATORS
    note = f"and {left} more operators; --nodes lists every node, --json has all" if left > 0 else ""
    titles = columns("operator", "kind of work", ">of nodes", ">nodes", ">operations", ">weights")
    return section("Operators", Table(titles, found[:_SHOWN_OPERATORS], note))


def weights_table(analysis: "Analysis", every: bool = False) -> Section | None:
    listed = analysis.weights if every else analysis.weights[:SHOWN_WEIGHTS]
    if not listed:
        return None
    looked = every and any(row.minimum is not None or row.zeros_share is not None for row in listed)
    found = rows(*(_weight(row, analysis.weights_bytes, looked) for row in listed))
    left = analysis.weights_count - len(listed)
    note = f"and {left:,} smaller ones" if left > 0 else ""
    titles = (
        "largest weights",
        "type",
        "shape",
        ">size",
        ">share",
        *((">zeros", ">from", ">to") if looked else ()),
    )
    return section("Weights", Table(columns(*titles), found, note))


def _weight(row: "WeightRow", total: int, looked: bool) -> tuple[str, ...]:
    share = row.size_bytes / total if total else 0.0
    inside = (
        UNKNOWN if row.zeros_share is None else f"{row.zeros_share:.1%}",
        UNKNOWN if row.minimum is None else f"{row.minimum:.3g}",
        UNKNOWN if row.maximum is None else f"{row.maximum:.3g}",
    )
    told = (shortened(row.name), row.dtype, str(list(row.shape)), units.size(row.size_bytes), f"{share:.1%}")
    return (*told, *inside) if looked else told


def coverage(analysis: "Analysis") -> Section | None:
    if not analysis.coverage:
        return None
    found = rows(
        *(
            (
                row.backend,
                row.version,
                UNKNOWN if row.supported is None else f"{row.supported:,} of {row.total:,}",
                UNKNOWN if row.boundaries is None else f"{row.boundaries:,}",
                _why(row.unsupported, row.reason),
            )
            for row in analysis.coverage
        )
    )
    titles = columns("backend", "version", ">nodes it runs", ">boundaries", "the rest")
    note = "Nodes as the runtime counts them. What else could run models: edgeopt backends"
    return section("Backends on this device", Table(titles, found, note))


def _why(unsupported: tuple[str, ...], reason: str) -> str:
    if not unsupported:
        return reason or "-"
    more = f" and {len(unsupported) - _NAMED} more" if len(unsupported) > _NAMED else ""
    return f"{', '.join(unsupported[:_NAMED])}{more}: {reason}"


def nodes_table(analysis: "Analysis") -> Section:
    timed = any(row.least_ms is not None for row in analysis.nodes)
    found = (
        (
            str(row.position),
            row.operator,
            shortened(node_name(row) if row.inside else row.name),
            ", ".join(shape_text(tensor) for tensor in row.outputs if tensor.name),
            known(row.cost.operations),
            known(moved(row.cost), units.size),
            units.size(row.weights_bytes) if row.weights_bytes else "",
            time_text(row.least_ms) if timed else "",
            row.bound if timed else "",
        )
        for row in analysis.nodes
    )
    titles = (">#", "operator", "name", "outputs", ">operations", ">moved", ">weights", ">least time", "!bound by")
    return section("Nodes", filled(Table(columns(*titles), rows(*found))))
